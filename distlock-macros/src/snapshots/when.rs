// #[distributed_lock(key = "order", when = amount>100, wait = patience)]
// async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
    let __distlock_entered = ::distlock::__private::enter(
        {
            let __distlock_when: ::core::primitive::bool = amount > 100;
            if __distlock_when {
                match ::distlock::__private::current() {
                    ::distlock::__private::Ok(__distlock_manager) => {
                        let __distlock_key = ::distlock::__private::key(
                            &[::distlock::__private::Part::Text("order")],
                        );
                        let __distlock_asked = ::distlock::__private::ask(
                            __distlock_key,
                            "order",
                            ::distlock::__private::Ok(__distlock_manager),
                        );
                        let __distlock_asked = __distlock_asked.wait(patience);
                        __distlock_asked
                    }
                    ::distlock::__private::Err(__distlock_error) => {
                        ::distlock::__private::ask_in_vain(__distlock_error)
                    }
                }
            } else {
                ::distlock::__private::ask_for_nothing()
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
                    let _ = (&patience, &amount);
                    ({ Ok(()) })
                },
            )
            .await,
    )
}
