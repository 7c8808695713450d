// #[distributed_lock(
//     key = "order",
//     transaction = tx
//     in
//     self.connections,
//     once = "24h",
//     once_outcome = outcome,
//     on_lost = "continue"
// )]
// fn place_order(&self, user_id: u64, outcome: &mut Outcome) -> Result<Order, OrderError> {
//     self.order(tx, user_id)
// }

fn place_order(&self, user_id: u64, outcome: &mut Outcome) -> Result<Order, OrderError> {
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
                    .fenced(),
            );
        if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        if false {
            use ::distlock::__private::AnyType as _;
            let __distlock_asked = ::distlock::__private::TypeOf::<
                Result<Order, OrderError>,
            >::new()
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
        ::distlock::__private::hold_blocking(
            __distlock_held,
            move || {
                let _ = (&outcome, &user_id, &self);
                let (__distlock_result, __distlock_outcome) = ::distlock::__private::once_blocking(
                    &self.connections,
                    __distlock_held,
                    ::distlock::__private::OnLost::Continue,
                    &::distlock::__private::Once::new(
                            ::distlock::__private::millis(86400000u64),
                        )
                        .arguments(
                            ::distlock::__private::concat!(
                                ::distlock::__private::module_path!(), "::",
                                ::distlock::__private::stringify!(place_order)
                            ),
                        ),
                    |__distlock_transaction| -> Result<Order, OrderError> {
                        let tx = __distlock_transaction;
                        ({ self.order(tx, user_id) })
                    },
                );
                if let ::distlock::__private::Some(__distlock_outcome) = __distlock_outcome {
                    *outcome = __distlock_outcome;
                }
                __distlock_result
            },
        )
    };
    __distlock_lock.release_blocking();
    ::distlock::__private::finish::<Result<Order, OrderError>>(__distlock_result)
}
