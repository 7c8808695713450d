// #[distributed_lock(key = "order", on_busy = (), on_error = log)]
// async fn order() {}

async fn order() {
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
        if ::distlock::__private::is_busy(&acquired) {
            ::distlock::__private::drop(acquired);
            #[allow(unreachable_code, clippy::diverging_sub_expression)]
            let () = ();
            #[allow(unreachable_code)] return;
        }
        let held = match acquired {
            ::distlock::__private::Ok(held) => ::distlock::__private::Some(held),
            ::distlock::__private::Err(error) => {
                break 'lock (::distlock::__private::Err(error));
            }
        };
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < () >
            (); } {} }
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
    ::distlock::__private::finish_on_error::<()>(result, log)
}
