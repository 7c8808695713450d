// #[distributed_lock(key = "order", on_error = |error|error.to_string())]
// async fn order() -> impl Display {
//     String::new()
// }

async fn order() -> impl Display {
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
            async move { { String::new() } },
        )
        .await;
    let value = ::distlock::__private::finish_on_error::<
        _,
    >(result, |error| error.to_string());
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
