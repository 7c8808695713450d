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
    let lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = match ::distlock::__private::current() {
                ::distlock::__private::Ok(manager) => manager,
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            lock.acquire_blocking(
                ::distlock::__private::request(
                        &manager,
                        ::distlock::__private::key(
                            &[::distlock::__private::Part::Text("order")],
                        ),
                        "order",
                    )
                    .release(::distlock::__private::Release::Background)
                    .linger(::distlock::__private::millis(50u64)),
            )
        };
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        ::distlock::__private::Ok(
            ::distlock::__private::hold_blocking(
                held,
                move || -> Result<(), OrderError> { { Ok(()) } },
            ),
        )
    };
    lock.release_blocking();
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
