//! What an examination of a store finds.

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
    /// As it should be.
    Fine,
    /// Nothing is wrong, but it may be worth knowing.
    Note,
    /// Locks work, and are slower, or less safe in a failure, than they could be.
    Warning,
    /// Locks do not work, or can be lost without a failure.
    Fault,
}

/// One thing that an examination of the store has found; see `LockManager::diagnose`.
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
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a server and a subject, in a few words.
    pub about: String,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    /// For stores: something that was found.
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

    /// The same, with what to do about it.
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
