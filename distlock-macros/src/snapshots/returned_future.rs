// #[distributed_lock(key = "order:<id>")]
// fn order(id: u64) -> impl Future<Output = Result<u64, OrderError>> + Send {
//     let more = id + 1;
//     async move { Ok(more) }
// }

fn order(id: u64) -> impl Future<Output = Result<u64, OrderError>> + Send {
    let more = id + 1;
    async move {
        let __distlock_lock = ::distlock::__private::Slot::new();
        let __distlock_result = 'lock: {
            if false {
                return ::distlock::__private::placeholder::<Result<u64, OrderError>>();
            }
            let __distlock_acquired = {
                __distlock_lock
                    .acquire(
                        ::distlock::__private::ask(
                            ::distlock::__private::key(
                                &[
                                    ::distlock::__private::Part::Text("order:"),
                                    ::distlock::__private::Part::value::<u64>("id", &id),
                                ],
                            ),
                            "order:<id>",
                            ::distlock::__private::current(),
                        ),
                    )
            }
                .await;
            if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
                break 'lock (::distlock::__private::Err(__distlock_error));
            }
            let __distlock_held = __distlock_lock.held();
            let __distlock_body = ::distlock::__private::pin!(
                ::distlock::__private::Some(async move { if false { return
                ::distlock::__private::placeholder:: < Result < u64, OrderError > > (); }
                let _ = (& id,); ({ Ok(more) }) })
            );
            let __distlock_result = ::distlock::__private::hold(
                    __distlock_held,
                    ::distlock::__private::OnLost::Cancel,
                    __distlock_body,
                )
                .await;
            __distlock_result
        };
        __distlock_lock.release().await;
        ::distlock::__private::finish::<Result<u64, OrderError>>(__distlock_result)
    }
}
