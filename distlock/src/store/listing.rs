//! Listing the locks that a store keeps.

use std::time::Duration;

use super::StoredLock;
use crate::protocol::{Details, Who};

/// What [`LockStore::list`](super::LockStore::list) is asked for: some of the locks that are held or waited for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// What the keys begin with: the manager's prefix, and perhaps more.
    pub beginning: String,
    /// Where the page begins: behind this key, the last one of the page before, in an order of the store's choice.
    /// `None`: at the first key.
    pub after: Option<String>,
    /// The most locks that are wanted.
    pub most: usize,
}

impl List {
    /// For tests of a store by itself.
    #[must_use]
    pub fn new(beginning: impl Into<String>, after: Option<String>, most: usize) -> Self {
        List { beginning: beginning.into(), after, most }
    }
}

/// What [`LockStore::list`](super::LockStore::list) found.
///
/// ```
/// use distlock::LockKind;
/// use distlock::store::{StoredLock, StoredPage};
///
/// let held = StoredLock::new(LockKind::Exclusive).holder("dl1:checkout:7", None);
/// let page = StoredPage::new().lock("order:42", held).and_more();
/// # drop(page);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct StoredPage {
    pub(crate) locks: Vec<(String, StoredLock)>,
    pub(crate) more: bool,
}

impl StoredPage {
    /// Without locks, and the last one.
    pub fn new() -> Self {
        StoredPage::default()
    }

    /// With this lock: its key with the prefix, and who has it.
    pub fn lock(mut self, key: impl Into<String>, lock: StoredLock) -> Self {
        self.locks.push((key.into(), lock));
        self
    }

    /// There may be more behind the last key of this page. (On a page without locks it says nothing.)
    pub fn and_more(self) -> Self {
        StoredPage { more: true, ..self }
    }
}

/// What a store knows of an owner beside its name and its lease. Everything is optional.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::OwnerDetails;
///
/// let details = OwnerDetails::default().since(Duration::from_secs(12)).host("web-1").pid(4711);
/// # drop(details);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct OwnerDetails(pub(crate) Details);

impl OwnerDetails {
    /// For how long it has held the lock, or has waited for it.
    pub fn since(self, since: Duration) -> Self {
        OwnerDetails(Details { since: Some(since), ..self.0 })
    }

    /// The label of its request.
    pub fn label(self, label: impl Into<String>) -> Self {
        OwnerDetails(Details { label: Some(label.into()), ..self.0 })
    }

    /// The machine that its process runs on.
    pub fn host(self, host: impl Into<String>) -> Self {
        self.who(|who| Who { host: Some(host.into()), ..who })
    }

    /// The id of its process.
    pub fn pid(self, pid: u32) -> Self {
        self.who(|who| Who { pid: Some(pid), ..who })
    }

    /// The program that its process runs.
    pub fn program(self, program: impl Into<String>) -> Self {
        self.who(|who| Who { program: Some(program.into()), ..who })
    }

    fn who(self, change: impl FnOnce(Who) -> Who) -> Self {
        OwnerDetails(Details { who: change(self.0.who), ..self.0 })
    }
}
