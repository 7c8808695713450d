// #[distributed_lock(key = "order:<user_id>", ttl = "10s")]
// async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
//     let order = cart.order()?;
//     Ok(order)
// }

async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
    let mut lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = match ::distlock::__private::current() {
                ::distlock::__private::Ok(manager) => manager,
                ::distlock::__private::Err(error) => {
                    break 'lock (::distlock::__private::Err(error));
                }
            };
            let key = ::distlock::__private::key(
                &[
                    ::distlock::__private::Part::Text("order:"),
                    ::distlock::__private::Part::value::<u64>("user_id", &user_id),
                ],
            );
            let request = ::distlock::__private::request(
                    &manager,
                    key,
                    "order:<user_id>",
                )
                .ttl(::distlock::__private::millis(10000u64));
            lock.acquire(request)
        }
            .await;
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
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < Order, OrderError > > (); } #[allow(clippy::used_underscore_binding)] let _
            = (& user_id, & cart,); { let order = cart.order() ?; Ok(order) } }
        );
        let result = ::distlock::__private::hold(
                held,
                ::distlock::__private::OnLost::Cancel,
                body,
            )
            .await;
        result
    };
    lock.release().await;
    ::distlock::__private::finish::<Result<Order, OrderError>>(result)
}
