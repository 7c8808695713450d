// #[distributed_lock(key = "order", when = amount>100, wait = patience)]
// async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
    let mut lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let when: bool = amount > 100;
        if when {
            let acquired = {
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
                lock.acquire(request)
            }
                .await;
            if let ::distlock::__private::Err(error) = acquired {
                break 'lock (::distlock::__private::Err(error));
            }
        }
        let held = lock.held();
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
    lock.release().await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
