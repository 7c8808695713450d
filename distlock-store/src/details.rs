//! Details of an owner.

use std::time::Duration;

use crate::who::Who;

/// A store's knowledge of an owner, apart from its token and its lease. Everything is optional.
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
pub struct OwnerDetails {
    #[doc(hidden)]
    pub since: Option<Duration>,
    /// How many users share the lease.
    #[doc(hidden)]
    pub users: Option<u64>,
    #[doc(hidden)]
    pub label: Option<String>,
    /// The text that it has published.
    #[doc(hidden)]
    pub value: Option<String>,
    #[doc(hidden)]
    pub who: Who,
}

impl OwnerDetails {
    /// How long it has held the lock, or waited for it.
    ///
    /// ```
    /// let details = distlock::store::OwnerDetails::default().since(std::time::Duration::from_secs(12));
    /// # drop(details);
    /// ```
    pub fn since(self, since: Duration) -> Self {
        OwnerDetails { since: Some(since), ..self }
    }

    /// The label of its request.
    ///
    /// ```
    /// let details = distlock::store::OwnerDetails::default().label("checkout");
    /// # drop(details);
    /// ```
    pub fn label(self, label: impl Into<String>) -> Self {
        OwnerDetails { label: Some(label.into()), ..self }
    }

    /// The machine of its process.
    ///
    /// ```
    /// let details = distlock::store::OwnerDetails::default().host("web-1");
    /// # drop(details);
    /// ```
    pub fn host(self, host: impl Into<String>) -> Self {
        self.who(|who| Who { host: Some(host.into()), ..who })
    }

    /// The id of its process.
    ///
    /// ```
    /// let details = distlock::store::OwnerDetails::default().pid(4711);
    /// # drop(details);
    /// ```
    pub fn pid(self, pid: u32) -> Self {
        self.who(|who| Who { pid: Some(pid), ..who })
    }

    /// The program of its process.
    ///
    /// ```
    /// let details = distlock::store::OwnerDetails::default().program("shop");
    /// # drop(details);
    /// ```
    pub fn program(self, program: impl Into<String>) -> Self {
        self.who(|who| Who { program: Some(program.into()), ..who })
    }

    fn who(self, change: impl FnOnce(Who) -> Who) -> Self {
        OwnerDetails { who: change(self.who), ..self }
    }
}
