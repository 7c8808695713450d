// #[distributed_lock(key = "order", map_err = OrderError::Lock)]
// async fn order() -> Result<u64, OrderError> {
//     Ok(1)
// }

async fn order() -> Result<u64, OrderError> {
    let __distlock_entered = ::distlock::__private::enter(
        ::distlock::__private::ask(
            ::distlock::__private::key(&[::distlock::__private::Part::Text("order")]),
            "order",
            ::distlock::__private::current(),
        ),
        ::distlock::__private::OnLost::Cancel,
    );
    ::distlock::__private::finish_map_err::<
        Result<u64, OrderError>,
    >(
        ::distlock::__private::section(
                __distlock_entered,
                async move {
                    if false {
                        return ::distlock::__private::placeholder::<
                            Result<u64, OrderError>,
                        >();
                    }
                    ({ Ok(1) })
                },
            )
            .await,
        OrderError::Lock,
    )
}
