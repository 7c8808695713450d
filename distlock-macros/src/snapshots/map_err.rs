// #[distributed_lock(key = "order", map_err = OrderError::Lock)]
// async fn order() -> Result<u64, OrderError> {
//     Ok(1)
// }

async fn order() -> Result<u64, OrderError> {
    let __distlock_entered = ::distlock::__private::enter(
        ::distlock::__private::ask_current(
            &|__distlock_manager| ::distlock::__private::request(
                &__distlock_manager,
                ::distlock::__private::key(
                    &[::distlock::__private::Part::Text("order")],
                ),
                "order",
            ),
        ),
        ::distlock::__private::OnLost::Cancel,
    );
    let __distlock_result = ::distlock::__private::section(
            __distlock_entered,
            async move {
                if false {
                    return ::distlock::__private::placeholder::<
                        Result<u64, OrderError>,
                    >();
                }
                { Ok(1) }
            },
        )
        .await;
    ::distlock::__private::finish_map_err::<
        Result<u64, OrderError>,
    >(__distlock_result, OrderError::Lock)
}
