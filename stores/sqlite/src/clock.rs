//! The clock for leases: the kernel's time since boot. All processes of the machine read the same time, no user can set
//! it, and it continues while the machine sleeps. It restarts with the machine, so a lease also contains the boot id,
//! and ends with this boot.

use std::fs;
use std::path::Path;

use distlock_store::StoreError;

use super::local;

/// An id that is different after each start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The number of procfs in statfs(2).
const PROC: u32 = 0x9fa0;
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
    kernels(Path::new(BOOT))
}

/// The id in this file, which must be the kernel's. LXC and systemd-nspawn mount a file with another id over it, so
/// each container would take the leases of the others for those of an earlier start.
fn kernels(path: &Path) -> Result<String, StoreError> {
    let unreadable = |error| {
        let path = path.display();
        StoreError::refused(format!(
            "leases in a file are counted by a clock of Linux, and {path} cannot be read: {error}"
        ))
    };
    if local::kind(path).map_err(unreadable)? != PROC {
        return Err(StoreError::refused(format!(
            "this container has a boot id of its own (LXC and systemd-nspawn mount a file over {}), which its host and \
             other containers do not share: use a store with a server",
            path.display()
        )));
    }
    Ok(fs::read_to_string(path).map_err(unreadable)?.trim().to_owned())
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
    fn a_boot_id_of_its_own_is_refused() {
        assert!(!kernels(Path::new(BOOT)).unwrap().is_empty());
        let mounted = tempfile::NamedTempFile::new().unwrap();
        fs::write(mounted.path(), "0b8bd3f4-1f6a-4c0e-9d7b-3a0b5f3f0d11").unwrap();
        let error = kernels(mounted.path()).unwrap_err().to_string();
        assert!(error.contains("boot id of its own"), "{error}");
        let error = kernels(Path::new("/nowhere/boot_id")).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_clock_of_its_own_is_recognised() {
        assert!(is_shifted("monotonic           0         0\nboottime       86400         0\n"));
        assert!(is_shifted("monotonic           0         0\nboottime          -1         500\n"));
        for same in ["monotonic           7         0\nboottime            0         0\n", ""] {
            assert!(!is_shifted(same), "{same}");
        }
    }
}
