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
//     label = "shop"
// )]
// async fn order<T: Display>(&mut self, item: &Item, note: T) -> Result<(), OrderError> {
//     Ok(())
// }

async fn order<T: Display>(&mut self, item: &Item, note: T) -> Result<(), OrderError> {
    let __distlock_lock = ::distlock::__private::Slot::new();
    let __distlock_result = {
        let __distlock_asked = {
            let __distlock_manager = {
                use ::distlock::__private::AsLockManager as _;
                self.locks.as_lock_manager()
            };
            {
                let __distlock_key = ::distlock::__private::key(
                    &[
                        ::distlock::__private::Part::Text("{shop:"),
                        ::distlock::__private::Part::value("self.id", &self.id),
                        ::distlock::__private::Part::Text("}:"),
                        ::distlock::__private::Part::value("item.number", &item.number),
                        ::distlock::__private::Part::Text(":"),
                        ::distlock::__private::Part::raw_generic::<T>("note", &note),
                    ],
                );
                let __distlock_asked = ::distlock::__private::ask(
                    __distlock_key,
                    "shop",
                    ::distlock::__private::Ok(__distlock_manager),
                );
                let __distlock_asked = __distlock_asked
                    .retry(
                        ::distlock::__private::Retry::times(3)
                            .delay(::distlock::__private::millis(100u64)),
                    );
                let __distlock_asked = __distlock_asked.max_hold(self.limit);
                let __distlock_asked = __distlock_asked
                    .min_hold(::distlock::__private::millis(1000u64));
                let __distlock_asked = __distlock_asked.reentrant();
                let __distlock_asked = __distlock_asked.fenced();
                __distlock_asked
            }
        };
        let __distlock_slot = &__distlock_lock;
        let __distlock_body = ::distlock::__private::pin!(
            ::distlock::__private::Some(async move { if false { return
            ::distlock::__private::placeholder:: < Result < (), OrderError > > (); } let
            __distlock_held = __distlock_slot.held(); let _ = (& note, & item, & self,);
            let guard : & ::distlock::Held =
            ::distlock::__private::guard(__distlock_held); let token :
            ::distlock::FencingToken = ::distlock::__private::token(__distlock_held); ({
            Ok(()) }) })
        );
        let __distlock_result = ::distlock::__private::section_in(
                &__distlock_lock,
                __distlock_asked,
                ::distlock::__private::OnLost::Cancel,
                __distlock_body,
            )
            .await;
        __distlock_result
    };
    ::distlock::__private::finish::<Result<(), OrderError>>(__distlock_result)
}
