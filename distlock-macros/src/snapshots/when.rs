// #[distributed_lock(key = "order", when = amount>100, wait = patience)]
// async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
    let entered = ::distlock::__private::enter(
        {
            let when: bool = amount > 100;
            if when {
                match ::distlock::__private::current() {
                    ::distlock::__private::Ok(manager) => {
                        ::distlock::__private::Ok(
                            ::distlock::__private::Some(
                                ::distlock::__private::request(
                                        &manager,
                                        ::distlock::__private::key(
                                            &[::distlock::__private::Part::Text("order")],
                                        ),
                                        "order",
                                    )
                                    .wait(patience),
                            ),
                        )
                    }
                    ::distlock::__private::Err(error) => {
                        ::distlock::__private::Err(error)
                    }
                }
            } else {
                ::distlock::__private::Ok(::distlock::__private::None)
            }
        },
        ::distlock::__private::OnLost::Cancel,
    );
    let result = ::distlock::__private::section(
            entered,
            async move {
                if false {
                    return ::distlock::__private::placeholder::<
                        Result<(), OrderError>,
                    >();
                }
                #[allow(clippy::used_underscore_binding)]
                let _ = (&amount, &patience);
                { Ok(()) }
            },
        )
        .await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
