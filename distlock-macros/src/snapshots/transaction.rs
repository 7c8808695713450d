// #[distributed_lock(
//     key = "order:<user_id>",
//     transaction = tx
//     in
//     self.pool,
//     fence = fence
// )]
// async fn place_order(&self, user_id: u64) -> Result<Order, OrderError> {
//     self.order(tx, fence, user_id).await
// }

async fn place_order(&self, user_id: u64) -> Result<Order, OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_acquired = {
            __distlock_lock
                .acquire(
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
                        .fenced(),
                )
        }
            .await;
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
        let __distlock_body = ::distlock::__private::pin!(
            ::distlock::__private::Some(async move { let _ = (& user_id, & self,); let
            mut __distlock_open = match ::distlock::__private::database(& self.pool)
            .begin(__distlock_held). await { ::distlock::__private::Ok(__distlock_open)
            => __distlock_open, ::distlock::__private::Err(__distlock_error) => return
            ::distlock::__private::Err(__distlock_error), }; let __distlock_transaction =
            & mut * __distlock_open; let __distlock_value = async move { if false {
            return ::distlock::__private::placeholder:: < Result < Order, OrderError > >
            (); } let tx = __distlock_transaction; let _ = (& user_id, & self,); let
            fence : ::distlock::fence::Fence =
            ::distlock::__private::fence(__distlock_held); ({ self.order(tx, fence,
            user_id). await }) } . await;
            ::distlock::__private::Ok(::distlock::__private::Ended::Run(__distlock_open,
            __distlock_value)) })
        );
        let __distlock_result = ::distlock::__private::hold(
                __distlock_held,
                ::distlock::__private::OnLost::Cancel,
                __distlock_body,
            )
            .await;
        let __distlock_result = ::distlock::__private::commit(__distlock_result).await;
        __distlock_result
    };
    __distlock_lock.release().await;
    ::distlock::__private::finish::<Result<Order, OrderError>>(__distlock_result)
}
