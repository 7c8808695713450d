// #[distributed_lock(key = "order:<user_id>", wait = "0s")]
// /// Documented.
// pub fn place_order(user_id: u64, cart: &mut Cart) -> Result<&mut Order, OrderError> {
//     cart.order(user_id)
// }

/// Documented.
pub fn place_order(user_id: u64, cart: &mut Cart) -> Result<&mut Order, OrderError> {
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
                            &[
                                ::distlock::__private::Part::Text("order:"),
                                ::distlock::__private::Part::value::<
                                    u64,
                                >("user_id", &user_id),
                            ],
                        ),
                        "order:<user_id>",
                    )
                    .no_wait(),
            )
        };
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        if false {
            use ::distlock::__private::AnyType as _;
            let _ = ::distlock::__private::TypeOf::<Order>::new()
                .result()
                .option()
                .no_future()
                .no_stream();
        }
        ::distlock::__private::Ok(
            ::distlock::__private::hold_blocking(
                held,
                move || -> Result<&mut Order, OrderError> {
                    #[allow(clippy::used_underscore_binding)]
                    let _ = (&user_id, &cart);
                    { cart.order(user_id) }
                },
            ),
        )
    };
    let lost = lock.finish_blocking();
    let result = match (result, lost) {
        (
            ::distlock::__private::Ok(value),
            ::distlock::__private::Some(error),
        ) if {
            use ::distlock::__private::AnyOutcome as _;
            ::distlock::__private::Outcome(&value).is_success()
        } => ::distlock::__private::Err(error),
        (result, _) => result,
    };
    ::distlock::__private::finish::<Result<&mut Order, OrderError>>(result)
}
