// #[distributed_lock(key = "order")]
// async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
//     Ok(0..3)
// }

async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
    let __distlock_entered = ::distlock::__private::enter(
        ::distlock::__private::ask(
            ::distlock::__private::key(&[::distlock::__private::Part::Text("order")]),
            "order",
            ::distlock::__private::current(),
        ),
        ::distlock::__private::OnLost::Cancel,
    );
    let __distlock_value = ::distlock::__private::finish::<
        Result<_, OrderError>,
    >(
        ::distlock::__private::section(
                __distlock_entered,
                async move {
                    if false {
                        return ::distlock::__private::placeholder::<
                            Result<_, OrderError>,
                        >();
                    }
                    ({ Ok(0..3) })
                },
            )
            .await,
    );
    {
        use ::distlock::__private::AnyType as _;
        let __distlock_asked = ::distlock::__private::type_of(&__distlock_value)
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
    __distlock_value
}
