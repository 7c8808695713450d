// #[distributed_lock(key = "order", when = amount>100, wait = patience)]
// async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
    let mut slot = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let when: bool = amount > 100;
        let held = if when {
            let manager = match ::distlock::__private::current() {
                ::distlock::__private::Ok(manager) => manager,
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            let key = ::distlock::__private::key(
                &[::distlock::__private::Part::Text("order")],
            );
            let request = ::distlock::__private::request(&manager, key, "order")
                .wait(patience);
            let acquired = slot.acquire(request).await;
            let held = match acquired {
                ::distlock::__private::Ok(held) => ::distlock::__private::Some(held),
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            held
        } else {
            ::distlock::__private::None
        };
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < (), OrderError > > (); } #[allow(clippy::used_underscore_binding)] let _ =
            (& amount, & patience,); { Ok(()) } }
        );
        let result = ::distlock::__private::hold(
                held,
                ::distlock::__private::OnLost::Cancel,
                body,
            )
            .await;
        result
    };
    slot.release().await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
