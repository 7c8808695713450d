// #[distributed_lock(key = "order", on_busy = Ok(None))]
// async fn order() -> Result<Option<u64>, OrderError> {
//     Ok(Some(1))
// }

async fn order() -> Result<Option<u64>, OrderError> {
    let lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = match ::distlock::__private::current() {
                ::distlock::__private::Ok(manager) => manager,
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            lock.acquire(
                ::distlock::__private::request(
                    &manager,
                    ::distlock::__private::key(
                        &[::distlock::__private::Part::Text("order")],
                    ),
                    "order",
                ),
            )
        }
            .await;
        if ::distlock::__private::is_busy(&acquired) {
            ::distlock::__private::drop(acquired);
            return if false { ::distlock::__private::placeholder() } else { Ok(None) };
        }
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < Option < u64 >, OrderError > > (); } { Ok(Some(1)) } }
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
    ::distlock::__private::finish_unless_busy::<Result<Option<u64>, OrderError>>(result)
}
