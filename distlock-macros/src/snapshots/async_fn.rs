// #[distributed_lock(key = "order:<user_id>", ttl = "10s")]
// async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
//     let order = cart.order()?;
//     Ok(order)
// }

async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
    let entered = ::distlock::__private::enter(
        ::distlock::__private::ask_current(
            &|manager| {
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
                    .ttl(::distlock::__private::millis(10000u64))
            },
        ),
        ::distlock::__private::OnLost::Cancel,
    );
    if false {
        use ::distlock::__private::AnyType as _;
        let _ = ::distlock::__private::TypeOf::<Order>::new()
            .result()
            .option()
            .no_future()
            .no_stream();
    }
    let result = ::distlock::__private::section(
            entered,
            async move {
                if false {
                    return ::distlock::__private::placeholder::<
                        Result<Order, OrderError>,
                    >();
                }
                #[allow(clippy::used_underscore_binding)]
                let _ = (&user_id, &cart);
                {
                    let order = cart.order()?;
                    Ok(order)
                }
            },
        )
        .await;
    ::distlock::__private::finish::<Result<Order, OrderError>>(result)
}
