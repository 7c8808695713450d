// #[distributed_lock(key = "order")]
// async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
//     Ok(0..3)
// }

async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
    let mut lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
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
            let request = ::distlock::__private::request(&manager, key, "order");
            lock.acquire(request)
        }
            .await;
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < _, OrderError > > (); } { Ok(0..3) } }
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
    let value = ::distlock::__private::finish::<Result<_, OrderError>>(result);
    {
        use ::distlock::__private::AnyType as _;
        let _ = ::distlock::__private::type_of(&value)
            .result()
            .option()
            .no_future()
            .no_stream();
    }
    value
}
