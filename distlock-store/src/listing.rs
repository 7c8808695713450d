//! Listing the locks that a store keeps.

use super::StoredLock;

/// What [`LockStore::list`](super::LockStore::list) is asked for: some of the locks that are held or waited for.
///
/// ```
/// use distlock::store::List;
///
/// let first = List::new("shop:", None, 100);
/// let second = List::new("shop:", Some("shop:order:42".to_owned()), 100);
/// assert_eq!((first.most, second.after.as_deref()), (100, Some("shop:order:42")));
/// ```
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
    ///
    /// ```
    /// assert_eq!(distlock::store::List::new("shop:", None, 100).beginning, "shop:");
    /// ```
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
    #[doc(hidden)]
    pub locks: Vec<(String, StoredLock)>,
    #[doc(hidden)]
    pub more: bool,
}

impl StoredPage {
    /// Without locks, and the last one.
    ///
    /// ```
    /// let nothing = distlock::store::StoredPage::new();
    /// # drop(nothing);
    /// ```
    pub fn new() -> Self {
        StoredPage::default()
    }

    /// With this lock: its key with the prefix, and who has it.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::{StoredLock, StoredPage};
    ///
    /// let page = StoredPage::new().lock("shop:order:42", StoredLock::new(LockKind::Exclusive));
    /// # drop(page);
    /// ```
    pub fn lock(mut self, key: impl Into<String>, lock: StoredLock) -> Self {
        self.locks.push((key.into(), lock));
        self
    }

    /// There may be more behind the last key of this page. (On a page without locks it says nothing.)
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::{StoredLock, StoredPage};
    ///
    /// let page = StoredPage::new().lock("shop:order:42", StoredLock::new(LockKind::Exclusive)).and_more();
    /// # drop(page);
    /// ```
    pub fn and_more(self) -> Self {
        StoredPage { more: true, ..self }
    }
}
