// #[distributed_lock(key = "order", crate = crate::reexported::distlock)]
// #[inline]
// unsafe fn order(self: Arc<Self>) -> Result<u64, OrderError> {
//     #![allow(unused)]
//     Ok(1)
// }

#[inline]
unsafe fn order(self: Arc<Self>) -> Result<u64, OrderError> {
    #![allow(unused)]
    let __distlock_lock = crate::reexported::distlock::__private::Slot::new();
    let __distlock_result = 'lock: {
        let __distlock_acquired = __distlock_lock
            .acquire_blocking(
                crate::reexported::distlock::__private::ask(
                    crate::reexported::distlock::__private::key(
                        &[crate::reexported::distlock::__private::Part::Text("order")],
                    ),
                    "order",
                    crate::reexported::distlock::__private::current(),
                ),
            );
        if let crate::reexported::distlock::__private::Err(__distlock_error) = __distlock_acquired {
            break 'lock (crate::reexported::distlock::__private::Err(__distlock_error));
        }
        let __distlock_held = __distlock_lock.held();
        crate::reexported::distlock::__private::Ok(
            crate::reexported::distlock::__private::hold_blocking(
                __distlock_held,
                move || -> Result<u64, OrderError> {
                    let _ = (&self,);
                    ({ Ok(1) })
                },
            ),
        )
    };
    let __distlock_lost = __distlock_lock.finish_blocking();
    let __distlock_result = match (__distlock_result, __distlock_lost) {
        (
            crate::reexported::distlock::__private::Ok(__distlock_value),
            crate::reexported::distlock::__private::Some(__distlock_error),
        ) if {
            use crate::reexported::distlock::__private::AnyOutcome as _;
            crate::reexported::distlock::__private::Outcome(&__distlock_value)
                .is_success()
        } => crate::reexported::distlock::__private::Err(__distlock_error),
        (__distlock_result, _) => __distlock_result,
    };
    crate::reexported::distlock::__private::finish::<
        Result<u64, OrderError>,
    >(__distlock_result)
}
