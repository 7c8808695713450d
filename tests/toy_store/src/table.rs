//! The locks, and the queues of their waiters.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::KEPT;

use crate::line::{Words, hex, kind_word, millis};
use crate::mistake::Mistake;

/// Longer than any test runs.
const HOUR: Duration = Duration::from_secs(3_600);

/// A message to every connection.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The key may be free.
    Released { key: String },
    /// The first owner in the queue has the key now, until its claim is over. `at` is a time of the server's clock.
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
    /// The ends of the sessions, by their clients.
    sessions: HashMap<String, Instant>,
    /// What owners have published, by key.
    texts: HashMap<String, (String, String)>,
    last_fence: u64,
    /// When leases would have ended that were released.
    released: HashMap<String, Instant>,
    clock: Clock,
    /// The time of the last request.
    last_asked: Instant,
    mistake: Option<Mistake>,
    /// All owners that ever had a lock.
    known: HashSet<String>,
}

/// The server's clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    began: Instant,
    /// How much it is fast, in per cent.
    fast: u32,
}

impl Clock {
    fn now(self) -> Instant {
        let passed = self.began.elapsed();
        self.began + passed + passed * self.fast / 100
    }
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
    /// The duration of a lease that is granted to it.
    claim: Duration,
    /// The end of the place, unless its owner asks again.
    until: Instant,
}

/// The request of an owner.
struct Asked<'a> {
    owner: &'a str,
    kind: LockKind,
    fences: u64,
    /// If it queues: how long a granted lease and a place in the queue live.
    place: Option<(Duration, Duration)>,
}

impl Table {
    pub(crate) fn new(mistake: Option<Mistake>) -> Self {
        let fast = match mistake {
            Some(Mistake::ClockIsTwoPercentFast) => 2,
            Some(Mistake::ClockIsTenPercentFast) => 10,
            _ => 0,
        };
        let began = Instant::now();
        Table {
            locks: HashMap::new(),
            sessions: HashMap::new(),
            texts: HashMap::new(),
            last_fence: 0,
            released: HashMap::new(),
            clock: Clock { began, fast },
            last_asked: began,
            mistake,
            known: HashSet::new(),
        }
    }

    /// Whether this server makes the mistake.
    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The time of the clock.
    pub(crate) fn clock(&self) -> Duration {
        self.clock.now() - self.clock.began
    }

    /// Forgets everything except the data on the disk.
    pub(crate) fn restart(&mut self) {
        self.locks.clear();
        self.sessions.clear();
        self.texts.clear();
        if self.makes(Mistake::FencesBeginAnewAfterARestart) {
            self.last_fence = 0;
        }
    }

    pub(crate) fn forget(&mut self, key: &str) {
        self.locks.remove(key);
    }

    pub(crate) fn is_free(&self, key: &str) -> bool {
        self.holders(key) == 0
    }

    pub(crate) fn keys(&mut self) -> Vec<String> {
        let now = self.clock.now();
        self.locks.retain(|_, lock| lock.is_in_use(now));
        self.locks.keys().cloned().collect()
    }

    /// The clients whose sessions have not ended.
    pub(crate) fn sessions(&mut self) -> Vec<String> {
        let now = self.clock.now();
        self.sessions.retain(|_, end| *end > now);
        self.sessions.keys().cloned().collect()
    }

    /// The first `most` keys after `after` with this beginning, in order.
    pub(crate) fn list(&mut self, beginning: &str, after: Option<&str>, most: usize) -> Vec<String> {
        let mut keys = self.keys();
        let is_meant =
            |key: &str| key.starts_with(beginning) || self.mistake == Some(Mistake::ListsEverything);
        keys.retain(|key| is_meant(key) && after.is_none_or(|after| key.as_str() > after));
        keys.sort_unstable();
        keys.truncate(most);
        if self.makes(Mistake::ListsTooFew) {
            keys.pop();
        }
        keys
    }

    /// Whether any data was lost before its time.
    pub(crate) fn examine(&mut self) -> &'static str {
        if self.makes(Mistake::ExaminationEndsLeases) {
            self.locks.clear();
        }
        "KEEPS-ALL"
    }

    /// Extends all leases of the session.
    pub(crate) fn heartbeat(&mut self, client: &str, timeout: Duration) -> &'static str {
        let now = self.clock.now();
        let until = now + timeout;
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

    /// Ends a session immediately, with all its locks. Messages to all connections are added to `news`.
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

    /// Executes one request for one key. Messages to all connections are added to `news`.
    pub(crate) fn carry_out(
        &mut self,
        what: &str,
        key: &str,
        words: &mut Words<'_>,
        news: &mut Vec<News>,
    ) -> Option<String> {
        // A lease may have expired since the last request, so waiters are served before other requests.
        self.serve(key, news);
        let holders = self.holders(key);
        let answer = match what {
            "ACQUIRE" => self.acquire(key, words)?,
            "REPLACE" => self.replace(key, words)?,
            "RENEW" => self.renew(key, words.text()?, words.span()).to_owned(),
            "RELEASE" => self.release(key, words.text()?, words.span()).to_owned(),
            "FORCE" => self.force(key).to_owned(),
            "PUBLISH" => self.publish(key, words.text()?, words.text()?).to_owned(),
            "UNPUBLISH" => self.unpublish(key, words.text()?).to_owned(),
            "INSPECT" => self.inspect(key),
            _ => return None,
        };
        self.last_asked = self.clock.now();
        let serves_nobody = self.makes(Mistake::ReleaseServesNobody)
            || what == "FORCE" && self.makes(Mistake::ForceServesNobody);
        let is_released = self.holders(key) < holders && !serves_nobody;
        if is_released && !self.serve(key, news) {
            news.push(News::Released { key: key.to_owned() });
        }
        Some(answer)
    }

    /// Grants the lock to the first waiters, as long as there is room. Returns whether it did.
    fn serve(&mut self, key: &str, news: &mut Vec<News>) -> bool {
        let (now, mistake) = (self.clock.now(), self.mistake);
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if mistake == Some(Mistake::PlacesStay) {
            lock.queue.iter_mut().for_each(|place| place.until = now + HOUR);
        }
        let was_held = !lock.holders.is_empty();
        if !lock.is_in_use(now) {
            self.locks.remove(key);
            if mistake != Some(Mistake::TextOutlivesItsLease) {
                self.texts.remove(key);
            }
            if was_held && self.makes(Mistake::ReusesFencesOfTheExpired) {
                self.last_fence = self.last_fence.saturating_sub(1);
            }
            return false;
        }
        let mut has_granted = false;
        while let Some(Place { owner, kind, fences, claim, until }) = lock.next() {
            let fence = (fences > 0).then_some(self.last_fence + 1);
            self.last_fence += fences;
            (lock.kind, has_granted) = (kind, true);
            match mistake {
                Some(Mistake::GrantsToNobody) => lock.put("nobody", now + claim),
                Some(Mistake::IgnoresClaim) => lock.put(&owner, now + HOUR),
                _ => lock.put(&owner, now + claim),
            }
            if mistake == Some(Mistake::GrantKeepsPlace) {
                lock.queue.push_back(Place { owner: owner.clone(), kind, fences, claim, until });
            }
            let at = now - self.clock.began;
            news.push(News::Granted { key: key.to_owned(), owner, fence, at });
        }
        has_granted
    }

    /// The end of a lease.
    fn lease(&self, ttl: Duration) -> Duration {
        match self.mistake {
            Some(Mistake::EndsEarly) => ttl.saturating_sub(Duration::from_millis(50)),
            Some(Mistake::CutsToSeconds) => Duration::from_secs(ttl.as_secs()),
            Some(Mistake::TakesAnotherUnit) => ttl / 10,
            _ => ttl,
        }
    }

    fn holders(&self, key: &str) -> usize {
        self.locks.get(key).map_or(0, |lock| lock.holders.len())
    }

    fn acquire(&mut self, key: &str, words: &mut Words<'_>) -> Option<String> {
        let (owner, ttl, kind) = (words.text()?, words.text()?, words.kind()?);
        let fences: u64 = words.number()?;
        let now = self.clock.now();
        let until = match ttl.parse() {
            Ok(ttl) => {
                let from = if self.makes(Mistake::CountsFromBeforeTheCall) { self.last_asked } else { now };
                from + self.lease(Duration::from_millis(ttl))
            }
            // It ends with the session of this client.
            Err(_) => *self.sessions.get(ttl)?,
        };
        let mistake = self.mistake;
        let earlier = self.released.get(key).filter(|_| mistake == Some(Mistake::CountsFromAnEarlierLease));
        let until = earlier.map_or(until, |end| until.min(*end));
        let asked = Asked { owner, kind, fences, place: words.span().zip(words.span()) };
        let empty = || Lock { kind, holders: Vec::new(), queue: VecDeque::new() };
        let lock = self.locks.entry(key.to_owned()).or_insert_with(empty);
        let mixed = |one, other| matches!(one, LockKind::Limited { .. }) && one != other;
        if mixed(lock.kind, kind) || mixed(kind, lock.kind) {
            return Some(format!("WRONG-KIND {}", kind_word(lock.kind)));
        }
        let is_ours = lock.is_held_by(owner) && mistake != Some(Mistake::OwnersAreInTheirOwnWay);
        let shown = (now - self.clock.began).as_micros();
        if mistake == Some(Mistake::NamesSomebodyElse) && !lock.holders.is_empty() {
            return Some(format!("BUSY {shown} FIRST nobody 1"));
        }
        if !is_ours && (!lock.queue.is_empty() || !lock.has_room(kind)) {
            if mistake == Some(Mistake::AskingUnpublishes) {
                self.texts.remove(key);
            }
            return Some(format!("BUSY {shown} {}", lock.turn_away(&asked, now)));
        }
        if mistake == Some(Mistake::AcquireShortens) {
            lock.holders.clear();
        }
        lock.put(owner, until);
        let first = self.last_fence + 1;
        self.last_fence += if mistake == Some(Mistake::ReusesBlocks) { fences.min(1) } else { fences };
        let is_known = !self.known.insert(owner.to_owned());
        let is_told = match mistake {
            Some(Mistake::HeldIsAcquired) => false,
            Some(Mistake::AcquiredIsHeld) => is_known,
            _ => is_ours,
        };
        Some(format!("{} {shown} {first}", if is_told { "HELD" } else { "ACQUIRED" }))
    }

    /// Moves the lock from one owner to another.
    fn replace(&mut self, key: &str, words: &mut Words<'_>) -> Option<String> {
        let (holder, owner, ttl) = (words.text()?, words.text()?, words.span()?);
        let fences: u64 = words.number()?;
        let until = self.clock.now() + self.lease(ttl);
        let mistake = self.mistake;
        let is_blind = mistake == Some(Mistake::ReplacesAnybody);
        let lock = self.locks.get_mut(key).filter(|lock| lock.kind == LockKind::Exclusive);
        let Some(lock) = lock.filter(|lock| !lock.holders.is_empty()) else {
            return Some("NOT-HELD".to_owned());
        };
        let is_ours = lock.is_held_by(owner);
        if !is_ours && !lock.is_held_by(holder) && !is_blind {
            return Some("NOT-HELD".to_owned());
        }
        let earlier = lock.holders.first().filter(|_| mistake == Some(Mistake::ReplaceKeepsTheEnd));
        let until = earlier.map_or(until, |(_, end)| *end);
        if !is_ours {
            lock.holders.clear();
        }
        if mistake == Some(Mistake::ReplaceForgetsTheQueue) {
            lock.queue.clear();
        }
        lock.put(owner, until);
        let first = self.last_fence + 1;
        self.last_fence += fences;
        self.known.insert(owner.to_owned());
        Some(format!("{} {first}", if is_ours { "HELD" } else { "REPLACED" }))
    }

    /// Without a ttl, it only checks the lock.
    fn renew(&mut self, key: &str, owner: &str, ttl: Option<Duration>) -> &'static str {
        let until = self.clock.now() + self.lease(ttl.unwrap_or_default());
        if self.makes(Mistake::RenewCreates) {
            let empty = || Lock { kind: LockKind::Exclusive, holders: Vec::new(), queue: VecDeque::new() };
            let lock = self.locks.entry(key.to_owned()).or_insert_with(empty);
            if lock.holders.is_empty() {
                lock.put(owner, until);
            }
        }
        let mistake = self.mistake;
        match self.locks.get_mut(key) {
            Some(lock) if lock.is_held_by(owner) => {
                match mistake {
                    Some(Mistake::RenewDoesNothing) => {}
                    Some(Mistake::RenewShortens) => lock.holders = vec![(owner.to_owned(), until)],
                    _ => lock.put(owner, until),
                }
                "RENEWED"
            }
            _ if mistake == Some(Mistake::RenewSaysYes) => "RENEWED",
            _ => "NOT-HELD",
        }
    }

    /// Ends a lease or a place in the queue.
    fn release(&mut self, key: &str, owner: &str, keep: Option<Duration>) -> &'static str {
        let (now, mistake) = (self.clock.now(), self.mistake);
        let Some(lock) = self.locks.get_mut(key) else { return "NOT-HELD" };
        let waiting = lock.queue.len();
        if mistake != Some(Mistake::ReleaseKeepsPlace) {
            lock.queue.retain(|place| place.owner != owner);
        }
        let is_meant = |holder: &str| holder == owner || mistake == Some(Mistake::ReleasesForAnybody);
        let Some(at) = lock.holders.iter().position(|(holder, _)| is_meant(holder)) else {
            return if lock.queue.len() < waiting { "RELEASED" } else { "NOT-HELD" };
        };
        let (_, end) = lock.holders.swap_remove(at);
        self.released.insert(key.to_owned(), end);
        if let Some(keep) = keep.filter(|_| mistake != Some(Mistake::IgnoresKeep)) {
            // No owner can release it, so it stays until it expires.
            let several = lock.kind != LockKind::Exclusive;
            let name = if several { format!("{KEPT}:{owner}") } else { KEPT.to_owned() };
            lock.holders.push((name, now + keep));
        }
        "RELEASED"
    }

    fn force(&mut self, key: &str) -> &'static str {
        let holders = self.locks.get_mut(key).map(|lock| std::mem::take(&mut lock.holders));
        if holders.is_some_and(|holders| !holders.is_empty()) { "RELEASED" } else { "NOT-HELD" }
    }

    /// Keeps a text, in hexadecimal, next to a lock that the owner holds.
    fn publish(&mut self, key: &str, owner: &str, text: &str) -> &'static str {
        if self.locks.get(key).is_some_and(|lock| lock.is_held_by(owner)) {
            self.texts.insert(key.to_owned(), (owner.to_owned(), text.to_owned()));
        }
        "DONE"
    }

    fn unpublish(&mut self, key: &str, owner: &str) -> &'static str {
        let is_meant = |of: &str| of == owner || self.mistake == Some(Mistake::UnpublishesForAnybody);
        if self.texts.get(key).is_some_and(|(of, _)| is_meant(of)) {
            self.texts.remove(key);
        }
        "DONE"
    }

    fn inspect(&self, key: &str) -> String {
        let now = self.clock.now();
        let Some(lock) = self.locks.get(key) else { return "FREE".to_owned() };
        let is_shown = |of: &str| lock.is_held_by(of) || self.makes(Mistake::TextOutlivesItsLease);
        let text = self.texts.get(key).filter(|(of, _)| is_shown(of)).map_or("-", |(_, text)| text);
        let mut answer = format!("LOCK {} {text} {}", kind_word(lock.kind), lock.queue.len());
        for place in &lock.queue {
            answer += &format!(" {}", place.owner);
        }
        for (holder, until) in &lock.holders {
            answer += &format!(" {holder} {}", millis(left(*until, now)));
        }
        answer
    }
}

impl Lock {
    /// Whether the lock is held or waited for now.
    fn is_in_use(&mut self, now: Instant) -> bool {
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

    /// Removes and returns the first waiter, if there is room for it.
    fn next(&mut self) -> Option<Place> {
        let kind = self.queue.front()?.kind;
        if self.has_room(kind) { self.queue.pop_front() } else { None }
    }

    /// Grants the lock to an owner, or extends its lease. Never shortens a lease.
    fn put(&mut self, owner: &str, until: Instant) {
        match self.holders.iter_mut().find(|(holder, _)| holder == owner) {
            Some((_, old)) => *old = until.max(*old),
            None => self.holders.push((owner.to_owned(), until)),
        }
    }

    /// Adds the owner to the queue, or keeps its place alive. Returns the obstacle, its remaining time, and whether
    /// others are before the owner.
    fn turn_away(&mut self, asked: &Asked<'_>, now: Instant) -> String {
        let Asked { owner, kind, fences, .. } = *asked;
        let before = self.queue.iter().position(|place| place.owner == owner);
        if let Some((claim, life)) = asked.place {
            let until = now + life;
            let place = Place { owner: owner.to_owned(), kind, fences, claim, until };
            match before {
                Some(at) => self.queue[at] = place,
                None => self.queue.push_back(place),
            }
        }
        let first = self.queue.front().is_none_or(|place| place.owner == owner);
        // It waits for the last holder, or for the first one if one place is enough.
        let one_is_enough = matches!(kind, LockKind::Limited { .. });
        let by_end = |(_, until): &&(String, Instant)| *until;
        let ends = self.holders.iter();
        let found = if one_is_enough { ends.min_by_key(by_end) } else { ends.max_by_key(by_end) };
        let (holder, left) =
            found.map_or(("?", Duration::ZERO), |(holder, until)| (holder.as_str(), left(*until, now)));
        format!("{} {holder} {}", if first { "FIRST" } else { "BEHIND" }, millis(left))
    }
}

/// Whether an owner is one of this client's.
fn is_of(client: &str, owner: &str) -> bool {
    let number = owner.strip_prefix("dl1:").and_then(|text| text.strip_prefix(client));
    number.is_some_and(|text| text.starts_with(':'))
}

fn left(until: Instant, now: Instant) -> Duration {
    until.saturating_duration_since(now)
}
