// #[distributed_lock(
//     key = "order",
//     on_lost = "continue",
//     release = "background",
//     linger = "50ms"
// )]
// fn place_order() -> Result<(), OrderError> {
//     Ok(())
// }

fn place_order() -> Result<(), OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_acquired = __distlock_lock
            .acquire_blocking(
                ::distlock::__private::ask(
                        ::distlock::__private::key(
                            &[::distlock::__private::Part::Text("order")],
                        ),
                        "order",
                        ::distlock::__private::current(),
                    )
                    .release(::distlock::__private::Release::Background)
                    .linger(::distlock::__private::millis(50u64)),
            );
        if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        ::distlock::__private::Ok(
            ::distlock::__private::hold_blocking(
                __distlock_held,
                move || -> Result<(), OrderError> { ({ Ok(()) }) },
            ),
        )
    };
    __distlock_lock.release_blocking();
    ::distlock::__private::finish::<Result<(), OrderError>>(__distlock_result)
}
