// #[distributed_lock(key = "order:<user_id>", wait = "0s")]
// /// Documented.
// pub fn place_order(user_id: u64, cart: &mut Cart) -> Result<&mut Order, OrderError> {
//     cart.order(user_id)
// }

/// Documented.
pub fn place_order(user_id: u64, cart: &mut Cart) -> Result<&mut Order, OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_acquired = __distlock_lock
            .acquire_blocking(
                ::distlock::__private::ask(
                        ::distlock::__private::key(
                            &[
                                ::distlock::__private::Part::Text("order:"),
                                ::distlock::__private::Part::value::<
                                    u64,
                                >("user_id", &user_id),
                            ],
                        ),
                        "order:<user_id>",
                        ::distlock::__private::current(),
                    )
                    .no_wait(),
            );
        if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        if false {
            use ::distlock::__private::AnyType as _;
            let __distlock_asked = ::distlock::__private::TypeOf::<Order>::new()
                .inside()
                .inside()
                .inside()
                .no_future()
                .no_stream();
            let _ = __distlock_asked.first_element().inside().no_future().no_stream();
            let _ = __distlock_asked.second_element().inside().no_future().no_stream();
            let _ = __distlock_asked.third_element().inside().no_future().no_stream();
            let _ = __distlock_asked.fourth_element().inside().no_future().no_stream();
        }
        ::distlock::__private::Ok(
            ::distlock::__private::hold_blocking(
                __distlock_held,
                move || -> Result<&mut Order, OrderError> {
                    let _ = (&cart, &user_id);
                    ({ cart.order(user_id) })
                },
            ),
        )
    };
    let __distlock_lost = __distlock_lock.finish_blocking();
    let __distlock_result = match (__distlock_result, __distlock_lost) {
        (
            ::distlock::__private::Ok(__distlock_value),
            ::distlock::__private::Some(__distlock_error),
        ) if {
            use ::distlock::__private::AnyOutcome as _;
            ::distlock::__private::Outcome(&__distlock_value).is_success()
        } => ::distlock::__private::Err(__distlock_error),
        (__distlock_result, _) => __distlock_result,
    };
    ::distlock::__private::finish::<Result<&mut Order, OrderError>>(__distlock_result)
}
