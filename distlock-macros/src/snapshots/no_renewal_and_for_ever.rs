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
    let __distlock_entered = ::distlock::__private::enter(
        {
            ::distlock::__private::former_name();
            match ::distlock::__private::current() {
                ::distlock::__private::Ok(__distlock_manager) => {
                    let __distlock_key = match &format!("order:{}", id + 1) {
                        __distlock_value => {
                            use ::distlock::__private::AnyKey as _;
                            ::distlock::__private::KeyOf(__distlock_value)
                                .key()
                                .inspect(|__distlock_key| {
                                    ::distlock::__private::literal_placeholder(
                                        &__distlock_manager,
                                        "order",
                                        __distlock_key,
                                        &["id"],
                                    );
                                })
                        }
                    };
                    let __distlock_asked = ::distlock::__private::ask(
                        __distlock_key,
                        "order",
                        ::distlock::__private::Ok(__distlock_manager),
                    );
                    let __distlock_asked = __distlock_asked.wait_forever();
                    let __distlock_asked = __distlock_asked.no_renew();
                    let __distlock_asked = __distlock_asked
                        .warn_wait(::distlock::__private::millis(5000u64));
                    let __distlock_asked = __distlock_asked.warn_hold(limit());
                    __distlock_asked
                }
                ::distlock::__private::Err(__distlock_error) => {
                    ::distlock::__private::ask_in_vain(__distlock_error)
                }
            }
        },
        ::distlock::__private::OnLost::Cancel,
    );
    ::distlock::__private::finish::<
        Result<(), OrderError>,
    >(
        ::distlock::__private::section(
                __distlock_entered,
                async move {
                    if false {
                        return ::distlock::__private::placeholder::<
                            Result<(), OrderError>,
                        >();
                    }
                    let _ = (&id,);
                    ({ Ok(()) })
                },
            )
            .await,
    )
}
