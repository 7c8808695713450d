//! A simulated world: processes with sections inside sections, a store, and looks whose reads are spread over time.
//! Leases are taken away, waits time out, and records are written late, or never, or stay.
//!
//! An oracle knows when each lease and each wait began and ended. A reported deadlock must have existed at some moment;
//! one that lasts must be reported; and of each deadlock at most one request ends.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::protocol::mutant::{Mutant, hunt};
use crate::protocol::{Token, token_text, with_waits};

const KEYS: usize = 5;
const PROCESSES: usize = 3;
const TASKS: usize = 6;
const SECOND: u64 = 1_000;

/// A lease or a wait, in milliseconds. `None`: it has not ended.
type Interval = (u64, Option<u64>);

struct Lease {
    key: usize,
    token: Token,
    held: Interval,
}

struct Wait {
    number: u64,
    key: usize,
    began: u64,
    next_look: u64,
    /// The beat of the last publication; `None`: it was not published.
    beat: Option<u64>,
    suspected: Option<Deadlock>,
}

/// A task is inside a section for each of its leases, the innermost last.
#[derive(Default)]
struct Task {
    client: String,
    /// The locks that it believes it holds. Some of them may have been taken away.
    leases: Vec<Token>,
    wait: Option<Wait>,
}

struct World {
    chance: fastrand::Rng,
    now: u64,
    tasks: Vec<Task>,
    leases: Vec<Lease>,
    /// By key: the lease that the store names.
    holders: BTreeMap<usize, Token>,
    /// By key: the last publication, for any lease.
    records: BTreeMap<usize, String>,
    waits: BTreeMap<(String, u64), Interval>,
    next: u64,
    /// By the members of a deadlock: how many of its requests were ended.
    ended: BTreeMap<Vec<(String, u64)>, usize>,
    reported: usize,
    /// From now on nothing happens by chance.
    calm: bool,
    broken: Option<String>,
}

impl World {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn lease(&mut self, token: Token) -> &mut Lease {
        self.leases.iter_mut().find(|lease| lease.token == token).expect("it was made")
    }

    fn client_of(&self, token: Token) -> String {
        self.tasks
            .iter()
            .find(|task| task.leases.contains(&token))
            .map_or("gone".into(), |task| task.client.clone())
    }

    fn owner(&self, token: Token) -> String {
        token_text(&self.client_of(token), token)
    }

    fn free(&mut self, key: usize) {
        let now = self.now;
        if let Some(token) = self.holders.remove(&key) {
            self.lease(token).held.1 = Some(now);
        }
    }

    fn take(&mut self, task: usize, key: usize) {
        let (token, now) = (Token(self.number()), self.now);
        self.leases.push(Lease { key, token, held: (now, None) });
        self.holders.insert(key, token);
        self.tasks[task].leases.push(token);
    }

    fn wait_ends(&mut self, task: usize) {
        let now = self.now;
        let Some(wait) = self.tasks[task].wait.take() else { return };
        let name = (self.tasks[task].client.clone(), wait.number);
        if let Some(interval) = self.waits.get_mut(&name) {
            interval.1 = Some(now);
        }
        // The record is removed, unless that fails.
        for token in self.tasks[task].leases.clone() {
            if self.calm || self.chance.bool() {
                let key = self.lease(token).key;
                self.records.remove(&key);
            }
        }
    }

    /// Releases the innermost lock.
    fn release(&mut self, task: usize) {
        let Some(token) = self.tasks[task].leases.last().copied() else { return };
        let key = self.lease(token).key;
        if self.holders.get(&key) == Some(&token) {
            self.free(key);
        }
        self.tasks[task].leases.pop();
    }

    /// One step of a task.
    fn step(&mut self, task: usize) {
        let calm = self.calm;
        if let Some(wait) = &self.tasks[task].wait {
            let key = wait.key;
            if !self.holders.contains_key(&key) {
                self.wait_ends(task);
                self.take(task, key);
            } else if !calm && self.chance.u8(..100) == 0 {
                self.wait_ends(task);
            }
            return;
        }
        if calm {
            return self.release(task);
        }
        match self.chance.u8(..10) {
            0..4 => {
                let key = self.chance.usize(..KEYS);
                let token = self.holders.get(&key).copied();
                if token.is_some_and(|token| self.tasks[task].leases.contains(&token)) {
                    return;
                }
                if token.is_none() {
                    return self.take(task, key);
                }
                let (number, began) = (self.number(), self.now);
                self.waits.insert((self.tasks[task].client.clone(), number), (began, None));
                let next_look = began + SECOND;
                self.tasks[task].wait =
                    Some(Wait { number, key, began, next_look, beat: None, suspected: None });
            }
            4..7 => self.release(task),
            7 => {
                // A lease expires, or is released by force. Its holder does not know.
                let key = self.chance.usize(..KEYS);
                self.free(key);
            }
            _ => {}
        }
    }

    fn record(&self, task: usize, beat: u64) -> Option<WaitRecord> {
        let wait = self.tasks[task].wait.as_ref()?;
        let key = name(wait.key);
        Some(WaitRecord { number: wait.number, beat, began: wait.began, breaks: true, key })
    }

    /// Publishes the wait of a task next to the locks that it believes it holds.
    fn publish(&mut self, task: usize) {
        let now = self.now;
        let Some(record) = self.record(task, now) else { return };
        for token in self.tasks[task].leases.clone() {
            let key = self.lease(token).key;
            // A process that does not know yet that it has lost its lease replaces the record of the next holder.
            let is_written =
                if self.calm { self.holders.get(&key) == Some(&token) } else { self.chance.u8(..8) > 0 };
            if is_written {
                let text = with_waits(None, token, std::slice::from_ref(&record)).expect("it is short");
                self.records.insert(key, text);
            }
        }
        if let Some(wait) = &mut self.tasks[task].wait {
            wait.beat = Some(now);
        }
    }

    /// The holder, as the store names it and as a process reads it.
    fn read(&self, client: &str, key: usize) -> Option<Holder> {
        let token = *self.holders.get(&key)?;
        let owner = self.owner(token);
        if self.client_of(token) == client {
            let task = self.tasks.iter().position(|task| task.leases.contains(&token))?;
            let is_published = self.tasks[task].wait.as_ref().is_some_and(|wait| wait.beat.is_some());
            let waits = self.record(task, self.now).filter(|_| is_published).into_iter().collect();
            return Some(Holder { owner: owner.into(), who: Who::default(), waits });
        }
        Holder::of(&owner, Who::default(), self.records.get(&key).map(String::as_str))
    }

    /// How often a read is polled until it is answered.
    fn slowness(&mut self) -> u32 {
        if !self.calm && self.chance.u8(..4) == 0 { self.chance.u32(2..12) } else { 2 }
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// A process says that a deadlock is certain.
    fn reported(&mut self, client: &str, deadlock: &Deadlock) {
        self.reported += 1;
        let (mut from, mut to) = (0, u64::MAX);
        for member in deadlock.members() {
            let wait = (member.wait().0.to_owned(), member.wait().1);
            let lease = self.leases.iter().find(|lease| member.owner.ends_with(&format!(":{}", lease.token)));
            let Some((wait, lease)) = self.waits.get(&wait).zip(lease) else {
                self.fail(format!("one of its requests never existed: {deadlock}"));
                return;
            };
            for (began, ended) in [*wait, lease.held] {
                from = from.max(began);
                to = to.min(ended.unwrap_or(self.now));
            }
        }
        if from > to {
            self.fail(format!("it never existed: {deadlock}"));
        }
        let members = deadlock.members().iter();
        let waits: Vec<(String, u64)> =
            members.map(|member| (member.wait().0.to_owned(), member.wait().1)).collect();
        for (of, number) in waits.iter().filter(|(of, _)| of == client) {
            let is_its = |task: &Task| {
                task.client == *of && task.wait.as_ref().is_some_and(|wait| wait.number == *number)
            };
            if !deadlock.ends((of, *number)) {
                continue;
            }
            if let Some(task) = self.tasks.iter().position(is_its) {
                self.wait_ends(task);
                *self.ended.entry(waits.clone()).or_default() += 1;
            }
        }
        if self.ended.get(&waits).is_some_and(|ended| *ended > 1) {
            self.fail(format!("more than one request of it ended: {deadlock}"));
        }
    }
}

fn name(key: usize) -> Arc<str> {
    format!("k{key}").into()
}

/// One process reads. Each read is answered later than it is sent.
struct View {
    world: Arc<Mutex<World>>,
    client: String,
}

impl View {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("nothing panics inside")
    }
}

impl Records for View {
    fn holder(&self, key: &Arc<str>) -> Read<'_> {
        let key: usize = key[1..].parse().expect("a key of this world");
        Box::pin(async move {
            let mut left = self.world().slowness();
            std::future::poll_fn(|_| {
                left -= 1;
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            Ok(self.world().read(&self.client, key))
        })
    }
}

/// A look that a task has begun, and when.
type Look = (u64, usize, u64, Pin<Box<dyn Future<Output = Option<Deadlock>>>>);

fn begin_look(world: &Arc<Mutex<World>>, task: usize) -> Option<Look> {
    let mut at = world.lock().expect("nothing panics inside");
    let now = at.now;
    let wait = at.tasks[task].wait.as_mut().filter(|wait| wait.next_look <= now)?;
    wait.next_look = now + SECOND;
    let (number, key) = (wait.number, name(wait.key));
    at.publish(task);
    let client = at.tasks[task].client.clone();
    let view = View { world: world.clone(), client: client.clone() };
    let looks = async move {
        look(&mut WaitsFor::default(), &view, (&client, number), &key).await.expect("no read fails")
    };
    Some((now, task, number, Box::pin(looks)))
}

/// Returns the violation. `Ok`: the number of reported deadlocks.
fn run(seed: u64) -> Result<usize, String> {
    let task = |index: usize| Task { client: format!("c{}", index % PROCESSES), ..Task::default() };
    let world = Arc::new(Mutex::new(World {
        chance: fastrand::Rng::with_seed(seed),
        now: 10 * SECOND,
        tasks: (0..TASKS).map(task).collect(),
        leases: Vec::new(),
        holders: BTreeMap::new(),
        records: BTreeMap::new(),
        waits: BTreeMap::new(),
        next: 0,
        ended: BTreeMap::new(),
        reported: 0,
        calm: false,
        broken: None,
    }));
    let mut looks: Vec<Look> = Vec::new();
    for step in 0..600 {
        let mut at = world.lock().expect("nothing panics inside");
        at.calm = step >= 300;
        // Now and then the world is paused for longer than a look may take.
        let most = if !at.calm && at.chance.u8(..8) == 0 { 1_500 } else { 200 };
        at.now += at.chance.u64(1..most);
        let task = at.chance.usize(..TASKS);
        at.step(task);
        drop(at);
        for task in 0..TASKS {
            if looks.iter().all(|(_, of, ..)| *of != task) {
                looks.extend(begin_look(&world, task));
            }
        }
        looks.retain_mut(|(began, task, number, looking)| {
            let polled = looking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(found) = polled else { return true };
            let mut at = world.lock().expect("nothing panics inside");
            let now = at.now;
            let took = Duration::from_millis(now - *began);
            let wait = at.tasks[*task].wait.as_mut().filter(|wait| wait.number == *number);
            let certain = wait.filter(|_| proves(took)).and_then(|wait| judge(&mut wait.suspected, found));
            if let Some(deadlock) = certain {
                let client = at.tasks[*task].client.clone();
                at.reported(&client, &deadlock);
            }
            false
        });
    }
    let at = world.lock().expect("nothing panics inside");
    if let Some(broken) = &at.broken {
        return Err(broken.clone());
    }
    // All tasks that did not wait have released their locks since. A task that still waits is in a deadlock, or behind
    // one.
    let stuck = at.tasks.iter().filter(|task| task.wait.is_some()).count();
    if stuck > 0 { Err(format!("{stuck} requests are stuck for ever")) } else { Ok(at.reported) }
}

fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400)
}

#[test]
fn what_is_reported_has_existed_what_lasts_is_reported_and_one_request_ends() {
    let mut reported = 0;
    for seed in 0..seeds() {
        reported += run(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
    assert!(reported > 100, "{reported} deadlocks: they are rare in this world");
}

#[test]
fn every_broken_rule_of_the_detection_is_found() {
    let cases = [
        Mutant::DeadlockAfterOneLook,
        Mutant::DeadlockRecordBelieved,
        Mutant::DeadlockBeatIgnored,
        Mutant::DeadlockEndsAll,
    ];
    hunt(&cases, 5_000, |case| *case, |_, seed| run(seed).err());
}
