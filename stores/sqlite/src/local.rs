//! Checks that all processes that use a file run on one kernel, because leases are counted by its clock, and end when
//! it restarts.

use std::io;
use std::path::Path;

use distlock_store::StoreError;

use super::errors;

/// File systems that other machines may use at the same time, by their number in statfs(2). FUSE is one of them,
/// because it may lead to other machines (sshfs, s3fs), or to the host of a virtual machine (virtiofs).
const SHARED: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE or virtiofs"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x4750_4653, "GPFS"),
    (0x786f_4256, "a folder that VirtualBox shares"),
];

/// Refuses a file that other machines may use. If the file does not exist yet, its directory is checked.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let directory = path.parent().unwrap_or(path);
    let found = match kind(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => kind(directory),
        found => found,
    };
    refused(found.map_err(|error| errors::of_the_place(directory, &error))?, path)
}

/// The file system that a file is on, by its number in statfs(2).
#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, reason = "its type is the platform's")]
pub(super) fn kind(path: &Path) -> io::Result<u32> {
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

fn refused(kind: u32, path: &Path) -> Result<(), StoreError> {
    match SHARED.iter().find(|(known, _)| *known == kind) {
        None => Ok(()),
        Some((_, name)) => Err(StoreError::refused(format!(
            "{} is on {name}, which other machines may use: locks in a file are for the processes of one machine, and \
             SQLite cannot work there. Use a local disk, or a store with a server",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_other_machines_may_use_is_refused() {
        assert!(
            refused(0x6969, Path::new("/mnt"))
                .is_err_and(|error| error.to_string().contains("/mnt is on NFS"))
        );
        let ext4 = 0xef53;
        assert!(refused(ext4, Path::new("/mnt")).is_ok());
        let missing = check(Path::new("/nowhere/at/all/locks.db")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/at/all: No such file"), "{missing}");
    }
}
