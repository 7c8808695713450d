// #[distributed_lock(key = "order")]
// async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
//     Ok(0..3)
// }

async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
    let mut slot = ::distlock::__private::Slot::new();
    let result = 'lock: {
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
        let acquired = slot.acquire(request).await;
        let held = match acquired {
            ::distlock::__private::Ok(held) => ::distlock::__private::Some(held),
            ::distlock::__private::Err(error) => {
                break 'lock (::distlock::__private::Err(error));
            }
        };
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
    slot.release().await;
    ::distlock::__private::finish::<Result<_, OrderError>>(result)
}
