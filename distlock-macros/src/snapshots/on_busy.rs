// #[distributed_lock(key = "order", on_busy = Ok(None))]
// async fn order() -> Result<Option<u64>, OrderError> {
//     Ok(Some(1))
// }

async fn order() -> Result<Option<u64>, OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_acquired = {
            __distlock_lock
                .acquire(
                    ::distlock::__private::ask(
                        ::distlock::__private::key(
                            &[::distlock::__private::Part::Text("order")],
                        ),
                        "order",
                        ::distlock::__private::current(),
                    ),
                )
        }
            .await;
        if ::distlock::__private::is_busy(&__distlock_acquired) {
            ::distlock::__private::drop(__distlock_acquired);
            return if false { ::distlock::__private::placeholder() } else { Ok(None) };
        }
        if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        let __distlock_body = ::distlock::__private::pin!(
            ::distlock::__private::Some(async move { if false { return
            ::distlock::__private::placeholder:: < Result < Option < u64 >, OrderError >
            > (); } ({ Ok(Some(1)) }) })
        );
        let __distlock_result = ::distlock::__private::hold(
                __distlock_held,
                ::distlock::__private::OnLost::Cancel,
                __distlock_body,
            )
            .await;
        __distlock_result
    };
    __distlock_lock.release().await;
    ::distlock::__private::finish_unless_busy::<
        Result<Option<u64>, OrderError>,
    >(__distlock_result)
}
