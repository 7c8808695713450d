// #[distributed_lock(key = "order")]
// async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
//     Ok(0..3)
// }

async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
    let entered = ::distlock::__private::enter(
        ::distlock::__private::ask_current(
            &|manager| ::distlock::__private::request(
                &manager,
                ::distlock::__private::key(
                    &[::distlock::__private::Part::Text("order")],
                ),
                "order",
            ),
        ),
        ::distlock::__private::OnLost::Cancel,
    );
    let result = ::distlock::__private::section(
            entered,
            async move {
                if false {
                    return ::distlock::__private::placeholder::<Result<_, OrderError>>();
                }
                { Ok(0..3) }
            },
        )
        .await;
    let value = ::distlock::__private::finish::<Result<_, OrderError>>(result);
    {
        use ::distlock::__private::AnyType as _;
        let _ = ::distlock::__private::type_of(&value)
            .result()
            .option()
            .no_future()
            .no_stream();
    }
    value
}
