// #[distributed_lock(
//     key = format!("order:{}", id+1),
//     renew = false,
//     wait = "forever",
//     warn_wait = "5s",
//     warn_hold = limit(),
//     name = "order"
// )]
// async fn order(id: u64) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(id: u64) -> Result<(), OrderError> {
    let entered = ::distlock::__private::enter(
        match ::distlock::__private::current() {
            ::distlock::__private::Ok(manager) => {
                ::distlock::__private::Ok(
                    ::distlock::__private::Some({
                        ::distlock::__private::former_name();
                        ::distlock::__private::request(
                                &manager,
                                match &format!("order:{}", id + 1) {
                                    expression => {
                                        use ::distlock::__private::AnyKey as _;
                                        ::distlock::__private::KeyOf(expression).key()
                                    }
                                },
                                "order",
                            )
                            .wait_forever()
                            .no_renew()
                            .warn_wait(::distlock::__private::millis(5000u64))
                            .warn_hold(limit())
                    }),
                )
            }
            ::distlock::__private::Err(error) => ::distlock::__private::Err(error),
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
                let _ = (&id,);
                { Ok(()) }
            },
        )
        .await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
