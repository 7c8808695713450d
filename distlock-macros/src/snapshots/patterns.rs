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
    __distlock_arg1: User,
    __distlock_arg2: Transaction,
) -> Result<(), OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_outside = __distlock_lock.outside();
        let __distlock_arg1 = __distlock_arg1;
        let User { ref name, .. } = __distlock_arg1;
        let __distlock_acquired = {
            __distlock_lock
                .acquire(
                    ::distlock::__private::ask(
                        ::distlock::__private::key(
                            &[
                                ::distlock::__private::Part::value("id", &id),
                                ::distlock::__private::Part::Text(":"),
                                ::distlock::__private::Part::value("name", &name),
                            ],
                        ),
                        "<id>:<name>",
                        ::distlock::__private::current(),
                    ),
                )
        }
            .await;
        if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        let __distlock_inside = __distlock_outside.inside();
        let __distlock_body = ::distlock::__private::pin!(
            ::distlock::__private::Some(async move { if false { return
            ::distlock::__private::placeholder:: < Result < (), OrderError > > (); }
            #[allow(clippy::used_underscore_binding)] let _ = (& __distlock_arg2, & name,
            & id,); ({ Ok(()) }) })
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
    ::distlock::__private::finish::<Result<(), OrderError>>(__distlock_result)
}
