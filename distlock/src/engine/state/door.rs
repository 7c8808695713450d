//! Whether a lease is open to more readers.

/// Whether readers that come later may share a lease with its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// One of its readers has left. Where writers of other processes come, readers that want to read again would follow
    /// each other for as long as readers may join.
    OneHasLeft,
    /// A writer of another process waits for its end.
    Closed,
}
