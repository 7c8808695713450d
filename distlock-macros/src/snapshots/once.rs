// #[distributed_lock(
//     key = "order",
//     transaction = tx
//     in
//     pool,
//     once = "24h",
//     once_of = (&a, &b),
//     once_outcome = outcome
// )]
// async fn place_order(
//     pool: &PgPool,
//     a: A,
//     b: B,
//     outcome: &mut Outcome,
// ) -> Result<Order, OrderError> {
//     order(tx, a, b).await
// }

async fn place_order(
    pool: &PgPool,
    a: A,
    b: B,
    outcome: &mut Outcome,
) -> Result<Order, OrderError> {
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
            ::distlock::__private::Some(async move { let _ = (& outcome, & b, & a, &
            pool,); let __distlock_once =
            ::distlock::__private::Once::new(::distlock::__private::millis(86400000u64))
            .arguments(&
            (::distlock::__private::concat!(::distlock::__private::module_path!(), "::",
            ::distlock::__private::stringify!(place_order)), & (& a, & b))); let
            __distlock_run = match ::distlock::__private::database(& pool)
            .begin_once(__distlock_held, __distlock_once). await {
            ::distlock::__private::Ok(__distlock_run) => __distlock_run,
            ::distlock::__private::Err(__distlock_error) => return
            ::distlock::__private::Err(__distlock_error), }; * outcome = __distlock_run
            .outcome(); let mut __distlock_open = match __distlock_run {
            ::distlock::__private::Run::First(__distlock_open) => __distlock_open,
            ::distlock::__private::Run::Replay(__distlock_value) => { return
            ::distlock::__private::Ok(::distlock::__private::Ended::Replay(::distlock::__private::ReturnsResult::from_result(::distlock::__private::Ok(__distlock_value)),));
            } }; let __distlock_transaction = __distlock_open.transaction(); let
            __distlock_value = async move { if false { return
            ::distlock::__private::placeholder:: < Result < Order, OrderError > > (); }
            let tx = __distlock_transaction; let _ = (& outcome, & b, & a, & pool,); ({
            order(tx, a, b). await }) } . await;
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
