//! The findings of an examination of a store.

/// How bad a [`Finding`] is, the least first.
///
/// ```
/// use distlock::Severity;
///
/// assert!(Severity::Fault > Severity::Warning && Severity::Warning > Severity::Note);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Everything is correct.
    Fine,
    /// Nothing is wrong, but the operator may want to know it.
    Note,
    /// Locks work, but are slower, or less safe in a failure, than they could be.
    Warning,
    /// Locks do not work, or can be lost without a failure.
    Fault,
}

/// A finding of an examination of the store: see `LockManager::diagnose`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// for finding in manager.diagnose().await? {
///     println!("{}: {}", finding.about, finding.text);
///     if let Some(remedy) = finding.remedy {
///         println!("    {remedy}");
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad the finding is.
    pub severity: Severity,
    /// The subject: a server and a topic, in a few words.
    pub about: String,
    /// The observation.
    pub text: String,
    /// The remedy.
    pub remedy: Option<String>,
}

impl Finding {
    /// For stores: creates a finding.
    ///
    /// ```
    /// use distlock::{Finding, Severity};
    ///
    /// let finding = Finding::new(Severity::Warning, "db-1: clock", "it is 3 s behind");
    /// assert_eq!(finding.remedy, None);
    /// ```
    pub fn new(severity: Severity, about: impl Into<String>, text: impl Into<String>) -> Self {
        Finding { severity, about: about.into(), text: text.into(), remedy: None }
    }

    /// Adds the remedy.
    ///
    /// ```
    /// use distlock::{Finding, Severity};
    ///
    /// let finding = Finding::new(Severity::Warning, "db-1: clock", "it is 3 s behind");
    /// assert!(finding.remedy("start its NTP service").remedy.is_some());
    /// ```
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Finding { remedy: Some(remedy.into()), ..self }
    }
}
