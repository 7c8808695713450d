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
    let lock = ::distlock::__private::Slot::new();
    let result = {
        let asked = ::distlock::__private::Ok(
            ::distlock::__private::Some({
                let manager = {
                    use ::distlock::__private::AsLockManager as _;
                    self.locks.as_lock_manager()
                };
                ::distlock::__private::request(
                        &manager,
                        ::distlock::__private::key(
                            &[
                                ::distlock::__private::Part::Text("{shop:"),
                                ::distlock::__private::Part::value("self.id", &self.id),
                                ::distlock::__private::Part::Text("}:"),
                                ::distlock::__private::Part::value(
                                    "item.number",
                                    &item.number,
                                ),
                                ::distlock::__private::Part::Text(":"),
                                ::distlock::__private::Part::raw_generic::<T>("note", &note),
                            ],
                        ),
                        "shop",
                    )
                    .retry(
                        ::distlock::__private::Retry::times(3)
                            .delay(::distlock::__private::millis(100u64)),
                    )
                    .max_hold(self.limit)
                    .min_hold(::distlock::__private::millis(1000u64))
                    .reentrant()
                    .fenced()
            }),
        );
        let slot = &lock;
        let body = ::distlock::__private::pin!(
            ::distlock::__private::Some(async move { if false { return
            ::distlock::__private::placeholder:: < Result < (), OrderError > > (); } let
            held = slot.held(); #[allow(clippy::used_underscore_binding)] let _ = (&
            self, & item, & note,); let guard : & ::distlock::Held =
            ::distlock::__private::guard(held); let token : ::distlock::FencingToken =
            ::distlock::__private::token(held); { Ok(()) } })
        );
        let result = ::distlock::__private::section_in(
                &lock,
                asked,
                ::distlock::__private::OnLost::Continue,
                body,
            )
            .await;
        result
    };
    ::distlock::__private::finish::<Result<(), OrderError>>(result)
}
