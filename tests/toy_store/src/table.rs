//! The locks, and the queues of those who wait for them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::KEPT;

use crate::line::{Words, hex, kind_word, millis};

/// What every connection is told.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The key may be free.
    Released { key: String },
    /// The first in the queue has the key now, until its claim is over. `at`: by the server's clock.
    Granted { key: String, owner: String, fence: Option<u64>, at: Duration },
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Released { key } => write!(f, "!{}", hex(key)),
            News::Granted { key, owner, fence, at } => {
                write!(f, "+{} {owner} {} {}", hex(key), at.as_micros(), fence.unwrap_or(0))
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    locks: HashMap<String, Lock>,
    /// When they end, by their clients.
    sessions: HashMap<String, Instant>,
    last_fence: u64,
    /// Where the server's clock begins.
    began: Instant,
}

#[derive(Debug)]
struct Lock {
    kind: LockKind,
    holders: Vec<(String, Instant)>,
    queue: VecDeque<Place>,
}

/// A place in the queue.
#[derive(Debug)]
struct Place {
    owner: String,
    kind: LockKind,
    fences: u64,
    /// How long a lease lasts that is granted to it.
    claim: Duration,
    /// When it ends if its owner does not ask again.
    until: Instant,
}

/// What an owner asks for.
struct Asked<'a> {
    owner: &'a str,
    kind: LockKind,
    fences: u64,
    /// How long a granted lease and a place in the queue live, if it wants to wait in the queue.
    place: Option<(Duration, Duration)>,
}

impl Default for Table {
    fn default() -> Self {
        Table { locks: HashMap::new(), sessions: HashMap::new(), last_fence: 0, began: Instant::now() }
    }
}

impl Table {
    pub(crate) fn keys(&mut self) -> Vec<String> {
        self.locks.retain(|_, lock| lock.is_in_use());
        self.locks.keys().cloned().collect()
    }

    /// The clients whose sessions have not ended.
    pub(crate) fn sessions(&mut self) -> Vec<String> {
        let now = Instant::now();
        self.sessions.retain(|_, end| *end > now);
        self.sessions.keys().cloned().collect()
    }

    /// What ends with the session lasts as long again.
    pub(crate) fn heartbeat(&mut self, client: &str, timeout: Duration) -> &'static str {
        let (now, until) = (Instant::now(), Instant::now() + timeout);
        let before = self.sessions.insert(client.to_owned(), until);
        if before.is_none_or(|end| end <= now) {
            return "NEW";
        }
        for (holder, end) in self.locks.values_mut().flat_map(|lock| &mut lock.holders) {
            if is_of(client, holder) && before == Some(*end) {
                *end = until;
            }
        }
        "ALIVE"
    }

    /// Ends a session at once, with all that it holds. `news`: what everybody is to be told.
    pub(crate) fn end_session(&mut self, client: &str, news: &mut Vec<News>) -> &'static str {
        if self.sessions.remove(client).is_none() {
            return "NONE";
        }
        let keys: Vec<String> = self.locks.keys().cloned().collect();
        for key in keys {
            let before = self.holders(&key);
            if let Some(lock) = self.locks.get_mut(&key) {
                lock.holders.retain(|(holder, _)| !is_of(client, holder));
            }
            if self.holders(&key) < before && !self.serve(&key, news) {
                news.push(News::Released { key });
            }
        }
        "ENDED"
    }

    /// Carries out one request for one key. `news`: what everybody is to be told.
    pub(crate) fn carry_out(
        &mut self,
        what: &str,
        key: &str,
        words: &mut Words<'_>,
        news: &mut Vec<News>,
    ) -> Option<String> {
        // A lease may have ended since the last request: those who wait are served before anybody else.
        self.serve(key, news);
        let holders = self.holders(key);
        let answer = match what {
            "ACQUIRE" => self.acquire(key, words)?,
            "RENEW" => self.renew(key, words.text()?, words.span()).to_owned(),
            "RELEASE" => self.release(key, words.text()?, words.span()).to_owned(),
            "FORCE" => self.force(key).to_owned(),
            "INSPECT" => self.inspect(key),
            _ => return None,
        };
        if self.holders(key) < holders && !self.serve(key, news) {
            news.push(News::Released { key: key.to_owned() });
        }
        Some(answer)
    }

    /// Grants the lock to those at the front of the queue, as long as there is room. Says whether it did.
    fn serve(&mut self, key: &str, news: &mut Vec<News>) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if !lock.is_in_use() {
            self.locks.remove(key);
            return false;
        }
        let mut has_granted = false;
        while let Some(Place { owner, kind, fences, claim, .. }) = lock.next() {
            let fence = (fences > 0).then_some(self.last_fence + 1);
            self.last_fence += fences;
            (lock.kind, has_granted) = (kind, true);
            lock.put(&owner, Instant::now() + claim);
            let at = self.began.elapsed();
            news.push(News::Granted { key: key.to_owned(), owner, fence, at });
        }
        has_granted
    }

    fn holders(&self, key: &str) -> usize {
        self.locks.get(key).map_or(0, |lock| lock.holders.len())
    }

    fn acquire(&mut self, key: &str, words: &mut Words<'_>) -> Option<String> {
        let (owner, ttl, kind) = (words.text()?, words.text()?, words.kind()?);
        let fences: u64 = words.number()?;
        let until = match ttl.parse() {
            Ok(ttl) => Instant::now() + Duration::from_millis(ttl),
            // As long as the session of this client.
            Err(_) => *self.sessions.get(ttl)?,
        };
        let asked = Asked { owner, kind, fences, place: words.span().zip(words.span()) };
        let empty = || Lock { kind, holders: Vec::new(), queue: VecDeque::new() };
        let lock = self.locks.entry(key.to_owned()).or_insert_with(empty);
        let mixed = |one, other| matches!(one, LockKind::Limited { .. }) && one != other;
        if mixed(lock.kind, kind) || mixed(kind, lock.kind) {
            return Some(format!("WRONG-KIND {}", kind_word(lock.kind)));
        }
        let is_ours = lock.is_held_by(owner);
        let now = self.began.elapsed().as_micros();
        if !is_ours && (!lock.queue.is_empty() || !lock.has_room(kind)) {
            return Some(format!("BUSY {now} {}", lock.turn_away(&asked)));
        }
        lock.put(owner, until);
        let first = self.last_fence + 1;
        self.last_fence += fences;
        Some(format!("{} {now} {first}", if is_ours { "HELD" } else { "ACQUIRED" }))
    }

    /// Without a ttl it only looks.
    fn renew(&mut self, key: &str, owner: &str, ttl: Option<Duration>) -> &'static str {
        match self.locks.get_mut(key) {
            Some(lock) if lock.is_held_by(owner) => {
                lock.put(owner, Instant::now() + ttl.unwrap_or_default());
                "RENEWED"
            }
            _ => "NOT-HELD",
        }
    }

    /// Ends a lease or a place in the queue.
    fn release(&mut self, key: &str, owner: &str, keep: Option<Duration>) -> &'static str {
        let Some(lock) = self.locks.get_mut(key) else { return "NOT-HELD" };
        let waiting = lock.queue.len();
        lock.queue.retain(|place| place.owner != owner);
        let Some(at) = lock.holders.iter().position(|(holder, _)| holder == owner) else {
            return if lock.queue.len() < waiting { "RELEASED" } else { "NOT-HELD" };
        };
        lock.holders.swap_remove(at);
        if let Some(keep) = keep {
            // Not to be released by anybody, but to end by itself.
            let several = lock.kind != LockKind::Exclusive;
            let name = if several { format!("{KEPT}:{owner}") } else { KEPT.to_owned() };
            lock.holders.push((name, Instant::now() + keep));
        }
        "RELEASED"
    }

    fn force(&mut self, key: &str) -> &'static str {
        let holders = self.locks.get_mut(key).map(|lock| std::mem::take(&mut lock.holders));
        if holders.is_some_and(|holders| !holders.is_empty()) { "RELEASED" } else { "NOT-HELD" }
    }

    fn inspect(&self, key: &str) -> String {
        let Some(lock) = self.locks.get(key) else { return "FREE".to_owned() };
        let mut answer = format!("LOCK {} {}", kind_word(lock.kind), lock.queue.len());
        for (holder, until) in &lock.holders {
            answer += &format!(" {holder} {}", millis(left(*until)));
        }
        answer
    }
}

impl Lock {
    /// Held or waited for, now.
    fn is_in_use(&mut self) -> bool {
        let now = Instant::now();
        self.holders.retain(|(_, until)| *until > now);
        self.queue.retain(|place| place.until > now);
        !self.holders.is_empty() || !self.queue.is_empty()
    }

    fn is_held_by(&self, owner: &str) -> bool {
        self.holders.iter().any(|(holder, _)| holder == owner)
    }

    fn has_room(&self, kind: LockKind) -> bool {
        match kind {
            _ if self.holders.is_empty() => true,
            LockKind::Shared => self.kind == LockKind::Shared,
            LockKind::Limited { max_holders } => self.holders.len() < max_holders as usize,
            _ => false,
        }
    }

    /// The first in the queue, if there is room for it: it leaves the queue.
    fn next(&mut self) -> Option<Place> {
        let kind = self.queue.front()?.kind;
        if self.has_room(kind) { self.queue.pop_front() } else { None }
    }

    /// Lets in, or extends; never shortens.
    fn put(&mut self, owner: &str, until: Instant) {
        match self.holders.iter_mut().find(|(holder, _)| holder == owner) {
            Some((_, old)) => *old = until.max(*old),
            None => self.holders.push((owner.to_owned(), until)),
        }
    }

    /// Puts the owner into the queue, or keeps its place alive. Says who is in the way, for how long, and whether
    /// others stand before it.
    fn turn_away(&mut self, asked: &Asked<'_>) -> String {
        let Asked { owner, kind, fences, .. } = *asked;
        let before = self.queue.iter().position(|place| place.owner == owner);
        if let Some((claim, life)) = asked.place {
            let until = Instant::now() + life;
            let place = Place { owner: owner.to_owned(), kind, fences, claim, until };
            match before {
                Some(at) => self.queue[at] = place,
                None => self.queue.push_back(place),
            }
        }
        let first = self.queue.front().is_none_or(|place| place.owner == owner);
        // It waits for the last to go, or for the first if one place is enough.
        let one_is_enough = matches!(kind, LockKind::Limited { .. });
        let by_end = |(_, until): &&(String, Instant)| *until;
        let ends = self.holders.iter();
        let found = if one_is_enough { ends.min_by_key(by_end) } else { ends.max_by_key(by_end) };
        let (holder, left) =
            found.map_or(("?", Duration::ZERO), |(holder, until)| (holder.as_str(), left(*until)));
        format!("{} {holder} {}", if first { "FIRST" } else { "BEHIND" }, millis(left))
    }
}

/// Whether an owner is one of this client's.
fn is_of(client: &str, owner: &str) -> bool {
    let number = owner.strip_prefix("dl1:").and_then(|text| text.strip_prefix(client));
    number.is_some_and(|text| text.starts_with(':'))
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
