// #[distributed_lock(
//     key = format!("order:{}", id+1),
//     renew = false,
//     wait = "forever",
//     warn_wait = "5s",
//     warn_hold = limit(),
//     name = "order"
// )]
// async fn order(id: u64) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(id: u64) -> Result<(), OrderError> {
    let mut lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = match ::distlock::__private::current() {
                ::distlock::__private::Ok(manager) => manager,
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            let key = match &format!("order:{}", id + 1) {
                expression => {
                    use ::distlock::__private::AnyKey as _;
                    ::distlock::__private::KeyOf(expression).key()
                }
            };
            ::distlock::__private::former_name();
            let request = ::distlock::__private::request(&manager, key, "order")
                .wait_forever()
                .no_renew()
                .warn_wait(::distlock::__private::millis(5000u64))
                .warn_hold(limit());
            lock.acquire(request)
        }
            .await;
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
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
    lock.release().await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
