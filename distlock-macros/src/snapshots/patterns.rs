// #[distributed_lock(key = "<id>:<name>")]
// async fn order(
//     Path(id): Path<u64>,
//     User { ref name, .. }: User,
//     _: Transaction,
// ) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order(
    Path(id): Path<u64>,
    arg1: User,
    arg2: Transaction,
) -> Result<(), OrderError> {
    let lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let arg1 = arg1;
        let User { ref name, .. } = arg1;
        let arg2 = arg2;
        let _ = arg2;
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
                            ::distlock::__private::Part::value("id", &id),
                            ::distlock::__private::Part::Text(":"),
                            ::distlock::__private::Part::value("name", &name),
                        ],
                    ),
                    "<id>:<name>",
                ),
            )
        }
            .await;
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < (), OrderError > > (); } #[allow(clippy::used_underscore_binding)] let _ =
            (& id, & name,); { Ok(()) } }
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
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
