// #[distributed_lock(key = "order", crate = crate::reexported::distlock)]
// #[inline]
// unsafe fn order(self: Arc<Self>) -> Result<u64, OrderError> {
//     #![allow(unused)]
//     Ok(1)
// }

#[inline]
unsafe fn order(self: Arc<Self>) -> Result<u64, OrderError> {
    #![allow(unused)]
    let lock = crate::reexported::distlock::__private::Slot::new();
    let result = 'lock: {
        let acquired = {
            let manager = match crate::reexported::distlock::__private::current() {
                crate::reexported::distlock::__private::Ok(manager) => manager,
                crate::reexported::distlock::__private::Err(error) => {
                    break 'lock (crate::reexported::distlock::__private::Err(error));
                }
            };
            lock.acquire_blocking(
                crate::reexported::distlock::__private::request(
                    &manager,
                    crate::reexported::distlock::__private::key(
                        &[crate::reexported::distlock::__private::Part::Text("order")],
                    ),
                    "order",
                ),
            )
        };
        if let crate::reexported::distlock::__private::Err(error) = acquired {
            break 'lock (crate::reexported::distlock::__private::Err(error));
        }
        let held = lock.held();
        crate::reexported::distlock::__private::Ok(
            crate::reexported::distlock::__private::hold_blocking(
                held,
                move || -> Result<u64, OrderError> {
                    #[allow(clippy::used_underscore_binding)]
                    let _ = (&self,);
                    { Ok(1) }
                },
            ),
        )
    };
    let lost = lock.finish_blocking();
    let result = match (result, lost) {
        (
            crate::reexported::distlock::__private::Ok(value),
            crate::reexported::distlock::__private::Some(error),
        ) if {
            use crate::reexported::distlock::__private::AnyOutcome as _;
            crate::reexported::distlock::__private::Outcome(&value).is_success()
        } => crate::reexported::distlock::__private::Err(error),
        (result, _) => result,
    };
    crate::reexported::distlock::__private::finish::<Result<u64, OrderError>>(result)
}
