//! The clock for leases: the kernel's time since its start. All processes of the machine read the same time, no user
//! can set it, and it continues while the machine sleeps. It restarts with the machine, so a lease also contains the id
//! of this start, and ends with it.

use std::fs;

use distlock_store::StoreError;

/// An id that is different after each start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The offset of the clock for this process (see time_namespaces(7)). Older kernels do not have this file.
const OFFSETS: &str = "/proc/self/timens_offsets";

/// The id of this start of the machine.
pub(super) fn boot() -> Result<String, StoreError> {
    let offsets = fs::read_to_string(OFFSETS).unwrap_or_default();
    if is_shifted(&offsets) {
        return Err(StoreError::refused(
            "this container has a clock of its own (a time namespace), which its host and other containers do not share",
        ));
    }
    match fs::read_to_string(BOOT) {
        Ok(boot) => Ok(boot.trim().to_owned()),
        Err(error) => Err(StoreError::refused(format!(
            "leases in a file are counted by a clock of Linux, and {BOOT} cannot be read: {error}"
        ))),
    }
}

fn is_shifted(offsets: &str) -> bool {
    let of_boot = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    of_boot.is_some_and(|numbers| numbers.split_whitespace().any(|number| number != "0"))
}

/// Microseconds since the start of the machine.
pub(super) fn now() -> i64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    // `boot` refuses such a system earlier.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_its_own_is_recognised() {
        assert!(is_shifted("monotonic           0         0\nboottime       86400         0\n"));
        assert!(is_shifted("monotonic           0         0\nboottime          -1         500\n"));
        for same in ["monotonic           7         0\nboottime            0         0\n", ""] {
            assert!(!is_shifted(same), "{same}");
        }
    }
}
