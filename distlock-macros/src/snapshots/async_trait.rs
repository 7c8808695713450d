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
        let lock = ::distlock::__private::Slot::new();
        let result = 'lock: {
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
            if false {
                return ::distlock::__private::placeholder::<Result<u64, OrderError>>();
            }
            let acquired = {
                let manager = {
                    use ::distlock::__private::AsLockManager as _;
                    __self.locks.as_lock_manager()
                };
                lock.acquire(
                    ::distlock::__private::request(
                        &manager,
                        ::distlock::__private::key(
                            &[
                                ::distlock::__private::Part::Text("order:"),
                                ::distlock::__private::Part::value("self.id", &__self.id),
                                ::distlock::__private::Part::Text(":"),
                                ::distlock::__private::Part::value("id", &id),
                            ],
                        ),
                        "order:<self.id>:<id>",
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
                Result < u64, OrderError > > (); }
                #[allow(clippy::used_underscore_binding)] let _ = (& __self, & id,); {
                let __ret : Result < u64, OrderError > = { Ok(__self.id + id) };
                #[allow(unreachable_code)] __ret } }
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
    })
}
