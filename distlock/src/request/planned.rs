//! The failure that a test has ordered for this request.

use super::LockRequest;
use crate::error::LockError;
use crate::fault::Fault;

impl LockRequest {
    /// `Ok(true)`: the lock of the request must be lost at once.
    pub(super) fn planned_fault(&self) -> Result<bool, LockError> {
        let faults = &self.manager.core().faults;
        let mut loses = false;
        for key in self.keys.as_ref().map_or(&[][..], |keys| keys.as_slice()) {
            match faults.take(key.as_str()) {
                Some(Fault::Busy) => return Err(LockError::busy(key)),
                Some(Fault::Unavailable) => {
                    return Err(LockError::unavailable(key, "the test makes it unreachable"));
                }
                Some(Fault::Lost) => loses = true,
                None => {}
            }
        }
        Ok(loses)
    }
}
