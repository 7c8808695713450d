//! Whether a lease is open to more readers.

/// Whether readers who come later may share a lease with those who have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// One of its readers has left. Where writers of other processes come, those who want to read again would follow
    /// each other for as long as readers may join.
    OneHasLeft,
    /// A writer of another process waits for its end.
    Closed,
}
