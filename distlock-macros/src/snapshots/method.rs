// #[distributed_lock(
//     key = "{shop:<self.id>}:<item.number>:<note:raw>",
//     manager = self.locks,
//     guard = guard,
//     token = token,
//     retries = 3,
//     retry_delay = "100ms",
//     max_hold = self.limit,
//     min_hold = "1s",
//     reentrant = true,
//     on_lost = "continue",
//     label = "shop"
// )]
// async fn order<T: Display>(&mut self, item: &Item, note: T) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order<T: Display>(&mut self, item: &Item, note: T) -> Result<(), OrderError> {
    let mut lock = ::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = {
                use ::distlock::__private::AsLockManager as _;
                self.locks.as_lock_manager()
            };
            let key = ::distlock::__private::key(
                &[
                    ::distlock::__private::Part::Text("{shop:"),
                    ::distlock::__private::Part::value("self.id", &self.id),
                    ::distlock::__private::Part::Text("}:"),
                    ::distlock::__private::Part::value("item.number", &item.number),
                    ::distlock::__private::Part::Text(":"),
                    ::distlock::__private::Part::raw_generic::<T>("note", &note),
                ],
            );
            let request = ::distlock::__private::request(&manager, key, "shop")
                .retry(
                    ::distlock::__private::Retry::times(3)
                        .delay(::distlock::__private::millis(100u64)),
                )
                .max_hold(self.limit)
                .min_hold(::distlock::__private::millis(1000u64))
                .reentrant()
                .fenced();
            lock.acquire(request)
        }
            .await;
        if let ::distlock::__private::Err(error) = acquired {
            break 'lock (::distlock::__private::Err(error));
        }
        let held = lock.held();
        let body = ::distlock::__private::pin!(
            async move { if false { return ::distlock::__private::placeholder:: < Result
            < (), OrderError > > (); } #[allow(clippy::used_underscore_binding)] let _ =
            (& self, & item, & note,); let guard : & ::distlock::Held =
            ::distlock::__private::guard(held); let token : ::distlock::FencingToken =
            ::distlock::__private::token(held); { Ok(()) } }
        );
        let result = ::distlock::__private::hold(
                held,
                ::distlock::__private::OnLost::Continue,
                body,
            )
            .await;
        result
    };
    lock.release().await;
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
