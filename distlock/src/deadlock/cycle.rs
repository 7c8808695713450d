//! A cycle of holders that wait for each other.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::Holder;
use crate::protocol::{Escaping, WaitRecord, client_of, mutated};

/// Processes that wait for each other: see [`LockManager::deadlocks`](crate::LockManager::deadlocks).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// for deadlock in manager.deadlocks().await? {
///     for member in deadlock.members() {
///         println!("{} holds {} and waits for {}", member.owner, member.held, member.wanted);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The smallest comes first, so that every process names the same cycle alike.
    members: Vec<DeadlockMember>,
}

/// A member of a [`Deadlock`]: it holds a lock, and waits for the lock of the next member.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// for deadlock in manager.deadlocks().await? {
///     for member in deadlock.members() {
///         println!("process {:?} on {:?} holds {}", member.pid, member.host, member.held);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockMember {
    /// The owner token of the lock that it holds: see [`LockInfo::holder`](crate::LockInfo::holder).
    pub owner: String,
    /// The name of the machine, or of the container, if the store knows it.
    pub host: Option<String>,
    /// The id of the process on that machine, if the store knows it.
    pub pid: Option<u32>,
    /// The key that it holds, without the manager's prefix.
    pub held: String,
    /// The key for which it waits, without the manager's prefix.
    pub wanted: String,
    number: u64,
    beat: u64,
    began: u64,
    breaks: bool,
}

/// The fields that identify a member in different looks.
type Identity<'a> = (&'a str, u64, &'a str, &'a str);

impl DeadlockMember {
    pub(super) fn new(held: &Arc<str>, holder: &Holder, wait: &WaitRecord) -> Self {
        DeadlockMember {
            owner: holder.owner.to_string(),
            host: holder.who.host.clone(),
            pid: holder.who.pid,
            held: held.to_string(),
            wanted: wait.key.to_string(),
            number: wait.number,
            beat: wait.beat,
            began: wait.began,
            breaks: wait.breaks,
        }
    }

    /// The client and the number of the request that waits.
    pub(crate) fn wait(&self) -> (&str, u64) {
        (client_of(&self.owner).unwrap_or_default(), self.number)
    }

    fn identity(&self) -> Identity<'_> {
        (&self.owner, self.number, &self.held, &self.wanted)
    }
}

impl Deadlock {
    pub(super) fn new(mut members: Vec<DeadlockMember>) -> Self {
        let smallest = (0..members.len()).min_by_key(|at| members.get(*at).map(DeadlockMember::identity));
        members.rotate_left(smallest.unwrap_or_default());
        Deadlock { members }
    }

    /// Its members. Each waits for the lock of the next one, and the last one for the lock of the first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let deadlocks = manager.deadlocks().await?;
    /// assert!(deadlocks.iter().all(|deadlock| deadlock.members().len() >= 2));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn members(&self) -> &[DeadlockMember] {
        &self.members
    }

    /// The same owners and requests, in another look.
    pub(crate) fn is_same(&self, other: &Deadlock) -> bool {
        self.members
            .iter()
            .map(DeadlockMember::identity)
            .eq(other.members.iter().map(DeadlockMember::identity))
    }

    /// Whether each request has been published again since an earlier look found the same.
    pub(super) fn has_lasted_since(&self, first: &Deadlock) -> bool {
        let mut members = self.members.iter().zip(&first.members);
        mutated!(DeadlockBeatIgnored) || members.all(|(now, before)| now.beat > before.beat)
    }

    /// Whether this request ends, so that the others get their locks. Every process chooses the same one: the one that
    /// began to wait last, among those whose managers end requests.
    pub(crate) fn ends(&self, wait: (&str, u64)) -> bool {
        let breaking = self.members.iter().filter(|member| member.breaks);
        if mutated!(DeadlockEndsAll) {
            return breaking.clone().any(|member| member.wait() == wait);
        }
        let youngest = breaking.max_by_key(|member| (member.began, member.identity()));
        youngest.is_some_and(|member| member.wait() == wait)
    }
}

/// Each member with its process, the key that it holds and the key for which it waits.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Escaping(f);
        for (at, DeadlockMember { owner, host, pid, held, wanted, .. }) in self.members.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "; " })?;
            write!(f, "{owner}")?;
            match (host, pid) {
                (Some(host), Some(pid)) => write!(f, " ({host}:{pid})")?,
                (Some(host), None) => write!(f, " ({host})")?,
                (None, _) => {}
            }
            write!(f, " holds `{held}` and waits for `{wanted}`")?;
        }
        Ok(())
    }
}
