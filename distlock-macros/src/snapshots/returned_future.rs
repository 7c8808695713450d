// #[distributed_lock(key = "order:<id>")]
// fn order(id: u64) -> impl Future<Output = Result<u64, OrderError>> + Send {
//     let more = id + 1;
//     async move { Ok(more) }
// }

fn order(id: u64) -> impl Future<Output = Result<u64, OrderError>> + Send {
    let more = id + 1;
    async move {
        let lock = ::distlock::__private::Slot::new();
        let result = 'lock: {
            if false {
                return ::distlock::__private::placeholder::<Result<u64, OrderError>>();
            }
            let acquired = {
                let manager = match ::distlock::__private::current() {
                    ::distlock::__private::Ok(manager) => manager,
                    ::distlock::__private::Err(error) => {
                        break 'lock (::distlock::__private::Err(error));
                    }
                };
                lock.acquire(
                    ::distlock::__private::request(
                        &manager,
                        ::distlock::__private::key(
                            &[
                                ::distlock::__private::Part::Text("order:"),
                                ::distlock::__private::Part::value::<u64>("id", &id),
                            ],
                        ),
                        "order:<id>",
                    ),
                )
            }
                .await;
            if let ::distlock::__private::Err(error) = acquired {
                break 'lock (::distlock::__private::Err(error));
            }
            let held = lock.held();
            let body = ::distlock::__private::pin!(
                async move { if false { return ::distlock::__private::placeholder:: <
                Result < u64, OrderError > > (); } { Ok(more) } }
            );
            let result = ::distlock::__private::hold(
                    held,
                    ::distlock::__private::OnLost::Cancel,
                    body,
                )
                .await;
            result
        };
        lock.release().await;
        ::distlock::__private::finish::<Result<u64, OrderError>>(result)
    }
}
