// #[distributed_lock(key = "order:<self.id>:<id>", manager = self.locks)]
// fn order<'life0, 'async_trait>(
//     &'life0 self,
//     __arg1: Path<u64>,
// ) -> ::core::pin::Pin<
//     Box<
//         dyn ::core::future::Future<
//             Output = Result<u64, OrderError>,
//         > + ::core::marker::Send + 'async_trait,
//     >,
// >
// where
//     'life0: 'async_trait,
//     Self: 'async_trait,
// {
//     Box::pin(async move {
//         if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<
//             Result<u64, OrderError>,
//         > {
//             #[allow(unreachable_code)] return __ret;
//         }
//         let __self = self;
//         let Path(id) = {
//             let __arg1 = __arg1;
//             __arg1
//         };
//         let __ret: Result<u64, OrderError> = { Ok(__self.id + id) };
//         #[allow(unreachable_code)] __ret
//     })
// }

fn order<'life0, 'async_trait>(
    &'life0 self,
    __arg1: Path<u64>,
) -> ::core::pin::Pin<
    Box<
        dyn ::core::future::Future<
            Output = Result<u64, OrderError>,
        > + ::core::marker::Send + 'async_trait,
    >,
>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        let __distlock_lock = ::distlock::__private::Slot::new();
        let __distlock_result = 'lock: {
            if false {
                return ::distlock::__private::placeholder::<Result<u64, OrderError>>();
            }
            let __distlock_outside = __distlock_lock.outside();
            if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<
                Result<u64, OrderError>,
            > {
                #[allow(unreachable_code)] return __ret;
            }
            let __self = self;
            let Path(id) = {
                let __arg1 = __arg1;
                __arg1
            };
            let __distlock_acquired = {
                __distlock_lock
                    .acquire({
                        let __distlock_manager = {
                            use ::distlock::__private::AsLockManager as _;
                            __self.locks.as_lock_manager()
                        };
                        ::distlock::__private::ask(
                            ::distlock::__private::key(
                                &[
                                    ::distlock::__private::Part::Text("order:"),
                                    ::distlock::__private::Part::value("self.id", &__self.id),
                                    ::distlock::__private::Part::Text(":"),
                                    ::distlock::__private::Part::value("id", &id),
                                ],
                            ),
                            "order:<self.id>:<id>",
                            ::distlock::__private::Ok(__distlock_manager),
                        )
                    })
            }
                .await;
            if let ::distlock::__private::Err(__distlock_error) = __distlock_acquired {
                break 'lock (::distlock::__private::Err(__distlock_error));
            }
            let __distlock_held = __distlock_lock.held();
            let __distlock_inside = __distlock_outside.inside();
            let __distlock_body = ::distlock::__private::pin!(
                ::distlock::__private::Some(async move { if false { return
                ::distlock::__private::placeholder:: < Result < u64, OrderError > > (); }
                #[allow(clippy::used_underscore_binding)] let _ = (& id, & __self,); ({
                let __ret : Result < u64, OrderError > = { Ok(__self.id + id) };
                #[allow(unreachable_code)] __ret }) })
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
    })
}
