// #[distributed_lock(key = format!("order:{}", id+1), renew = false, wait = "forever")]
// async fn order(id: u64) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(id: u64) -> Result<(), OrderError> {
    let mut slot = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let manager = match ::distlock::__private::current() {
            ::distlock::__private::Ok(manager) => manager,
            ::distlock::__private::Err(error) => {
                break 'lock (::distlock::__private::Err(error));
            }
        };
        let key = {
            use ::distlock::__private::AnyKey as _;
            ::distlock::__private::KeyOf(&format!("order:{}", id + 1)).key()
        };
        let request = ::distlock::__private::request(
                &manager,
                key,
                ::distlock::__private::concat!(
                    ::distlock::__private::module_path!(), "::",
                    ::distlock::__private::stringify!(order)
                ),
            )
            .wait_forever()
            .no_renew();
        let acquired = slot.acquire(request).await;
        let held = match acquired {
            ::distlock::__private::Ok(held) => ::distlock::__private::Some(held),
            ::distlock::__private::Err(error) => {
                break 'lock (::distlock::__private::Err(error));
            }
        };
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < (), OrderError > > (); } #[allow(clippy::used_underscore_binding)] let _ =
            (& id,); { Ok(()) } }
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
