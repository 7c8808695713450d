//! Lists the locks that a store keeps.

use super::StoredLock;

/// The argument of [`LockStore::list`](super::LockStore::list): which locks to list.
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
    /// The prefix of the keys: the manager's prefix, and perhaps more.
    pub beginning: String,
    /// The page begins after this key, which was the last key of the previous page. The store chooses the order.
    /// `None`: the page begins at the first key.
    pub after: Option<String>,
    /// The largest number of locks on the page.
    pub most: usize,
}

impl List {
    /// For tests of a store.
    ///
    /// ```
    /// assert_eq!(distlock::store::List::new("shop:", None, 100).beginning, "shop:");
    /// ```
    #[must_use]
    pub fn new(beginning: impl Into<String>, after: Option<String>, most: usize) -> Self {
        List { beginning: beginning.into(), after, most }
    }
}

/// The result of [`LockStore::list`](super::LockStore::list).
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
    /// An empty last page.
    ///
    /// ```
    /// let nothing = distlock::store::StoredPage::new();
    /// # drop(nothing);
    /// ```
    pub fn new() -> Self {
        StoredPage::default()
    }

    /// Adds a lock: its key with the prefix, and its holders.
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

    /// Declares that there may be more locks after the last key of this page. (It has no effect on an empty page.)
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
