//! Holders that were seen and are not listed any more: on Redis the clients list their locks, so those of a process
//! that has stopped answering are missing, although the store has them still. It is asked.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use distlock::{LockClient, LockHolder, LockInfo, LockKind, LockManager};
use futures_util::StreamExt;
use futures_util::stream::iter;

/// The store is asked about so many locks at each look.
const MOST_ASKED: usize = 128;
/// So many that are not listed any more are remembered: a client may make up names without end.
const MOST_KEPT: usize = 10_000;
/// So many at a time: of a process that stands still an answer is awaited for a while.
const AT_A_TIME: usize = 64;

/// The key and the token.
pub(crate) type Name = (String, String);

/// A holder as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) holder: LockHolder,
    pub(crate) kind: LockKind,
    pub(crate) at: Instant,
    pub(crate) silent: Silent,
}

/// Whether the process of a holder has stopped to answer, although its lease lasts still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    No,
    Yes,
}

/// The holders of the last look, and those before that have not ended since.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<Name, Seen>);

/// What became of holders that are not listed any more.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// The store has them still, and their processes do not answer.
    pub(crate) silent: Vec<(Name, Seen)>,
    /// Their processes do not answer, and the store was not asked yet.
    pub(crate) unasked: usize,
    /// They have released the lock, or lost it.
    pub(crate) ended: Vec<(Name, Seen)>,
}

impl Known {
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes in what one look has listed. `clients`: those that have answered, and of these all of it.
    pub(crate) async fn update(
        &mut self,
        manager: &LockManager,
        listed: BTreeMap<Name, Seen>,
        clients: &HashSet<&str>,
    ) -> Missing {
        let before = std::mem::replace(&mut self.0, listed);
        let (mut missing, mut asked) = (Missing::default(), Vec::new());
        for (name, seen) in before.into_iter().filter(|(name, _)| !self.0.contains_key(name)) {
            match &seen.holder.client {
                // It says itself that it does not hold the lock any more.
                Some(client) if clients.contains(&*client.id) => missing.ended.push((name, seen)),
                _ => asked.push((name, seen)),
            }
        }
        // First those that were never asked about or whose lease should be over, then in turn.
        asked.sort_by_key(|(_, seen)| (seen.silent == Silent::Yes && !seen.left().is_zero(), seen.at));
        let later = asked.split_off(asked.len().min(MOST_ASKED));
        let answers = iter(asked)
            .map(|(name, seen)| async move {
                let info = manager.inspect(&*name.0).await;
                (name, seen, info)
            })
            .buffer_unordered(AT_A_TIME);
        let mut kept: Vec<(Name, Seen)> = later;
        kept.truncate(MOST_KEPT);
        let answers: Vec<_> = answers.collect().await;
        for (name, seen, info) in answers {
            match info.map(|info| holder_of(info, &name.1)) {
                Ok(Some(holder)) => kept.push((name, seen.still(holder))),
                Ok(None) => missing.ended.push((name, seen)),
                Err(_) => kept.push((name, seen)),
            }
        }
        for (name, seen) in kept {
            self.0.insert(name.clone(), seen.clone());
            match seen.silent {
                Silent::No => missing.unasked += 1,
                Silent::Yes => missing.silent.push((name, seen)),
            }
        }
        missing
    }
}

fn holder_of(info: Option<LockInfo>, token: &str) -> Option<LockHolder> {
    info.into_iter().flat_map(|info| info.holders).find(|holder| holder.token == token)
}

/// The clients that have told all that they know.
pub(crate) fn answering<'a>(clients: &'a [LockClient], unanswered: &[String]) -> HashSet<&'a str> {
    let silent: HashSet<&str> = unanswered.iter().map(String::as_str).collect();
    clients.iter().map(|client| &*client.id).filter(|id| !silent.contains(id)).collect()
}

impl Seen {
    pub(crate) fn now(holder: LockHolder, kind: LockKind) -> Self {
        Seen { holder, kind, at: Instant::now(), silent: Silent::No }
    }

    /// What is left of its lease now, if nobody has renewed it.
    pub(crate) fn left(&self) -> Duration {
        self.holder.remaining.unwrap_or(Duration::MAX).saturating_sub(self.at.elapsed())
    }

    /// The store has it still. What it has told before is true still.
    fn still(self, mut holder: LockHolder) -> Self {
        let told = self.holder;
        holder.since = told.since.map(|since| since + self.at.elapsed());
        (holder.client, holder.label) = (told.client, told.label);
        Seen { holder, kind: self.kind, at: Instant::now(), silent: Silent::Yes }
    }

    /// As it is now.
    pub(crate) fn aged(&self) -> LockHolder {
        let mut holder = self.holder.clone();
        holder.since = holder.since.map(|since| since + self.at.elapsed());
        holder.remaining = holder.remaining.map(|left| left.saturating_sub(self.at.elapsed()));
        holder
    }
}
