// #[distributed_lock(key = "order:<user_id>", ttl = "10s")]
// async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
//     let order = cart.order()?;
//     Ok(order)
// }

async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
    let __distlock_entered = ::distlock::__private::enter(
        ::distlock::__private::ask(
                ::distlock::__private::key(
                    &[
                        ::distlock::__private::Part::Text("order:"),
                        ::distlock::__private::Part::value::<u64>("user_id", &user_id),
                    ],
                ),
                "order:<user_id>",
                ::distlock::__private::current(),
            )
            .ttl(::distlock::__private::millis(10000u64)),
        ::distlock::__private::OnLost::Cancel,
    );
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
    ::distlock::__private::finish::<
        Result<Order, OrderError>,
    >(
        ::distlock::__private::section(
                __distlock_entered,
                async move {
                    if false {
                        return ::distlock::__private::placeholder::<
                            Result<Order, OrderError>,
                        >();
                    }
                    let _ = (&cart, &user_id);
                    ({
                        let order = cart.order()?;
                        Ok(order)
                    })
                },
            )
            .await,
    )
}
