//! Random sections of every kind from several tasks at once. As a control, the same sections without any lock.
//!
//! The keys `a` to `d` are for exclusive and shared locks, one at a time or several together. `p` and `q` are limited
//! to two and three holders. Each section is reported at its begin, with the deadline that its holder knows, and at its
//! end, with the last instant at which the holder certainly held the lock.

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use distlock::{Guard, LockError, LockManager};
use distlock_tests::{Kind, shared_clock};
use fastrand::Rng;
use serde_json::json;
use tokio::task::JoinSet;

use super::{micros, say, say_error};

/// Long enough: other holders need milliseconds, and the locks of dead ones expire after a ttl.
const WAIT: Duration = Duration::from_secs(60);
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const LIMITED: [(&str, usize); 2] = [("p", 2), ("q", 3)];

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The work of every task.
#[derive(Clone)]
pub(crate) struct Work {
    /// `None`: the sections use no lock.
    pub(crate) manager: Option<LockManager>,
    pub(crate) ttl: Duration,
    pub(crate) count: u32,
}

/// The request of one section.
struct Choice {
    keys: Vec<&'static str>,
    kind: Kind,
    fenced: bool,
    hold: Duration,
}

impl Choice {
    fn draw(rng: &mut Rng) -> Self {
        let kind = match rng.u32(0..10) {
            0..5 => Kind::Exclusive,
            5..8 => Kind::Shared,
            _ => Kind::Limited(0),
        };
        let hold = if rng.u32(0..20) == 0 { rng.u64(0..40_000) } else { rng.u64(0..4_000) };
        let hold = Duration::from_micros(hold);
        if let Kind::Limited(_) = kind {
            let (key, limit) = LIMITED[rng.usize(0..LIMITED.len())];
            return Choice { keys: vec![key], kind: Kind::Limited(limit), fenced: false, hold };
        }
        let mut keys = KEYS.to_vec();
        rng.shuffle(&mut keys);
        keys.truncate(if rng.u32(0..3) == 0 { rng.usize(2..=KEYS.len()) } else { 1 });
        let fenced = kind == Kind::Exclusive && keys.len() == 1 && rng.bool();
        Choice { keys, kind, fenced, hold }
    }
}

impl Work {
    pub(crate) async fn run(self, seed: u64, tasks: u64) {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            running.spawn(self.clone().task(Rng::with_seed(seed * 1_000 + task)));
        }
        while let Some(task) = running.join_next().await {
            task.unwrap();
        }
        say(&json!({ "event": "done", "key": "" }));
    }

    async fn task(self, mut rng: Rng) {
        for _ in 0..self.count {
            let choice = Choice::draw(&mut rng);
            if let Err(error) = self.section(&choice).await {
                say_error(choice.keys[0], &error);
            }
        }
    }

    async fn section(&self, choice: &Choice) -> Result<(), LockError> {
        let asked = shared_clock();
        let (guard, stood) = match &self.manager {
            Some(manager) => {
                let (guard, stood) = acquire(manager, choice, self.ttl).await?;
                (Some(guard), stood)
            }
            None => (None, asked),
        };
        let at = shared_clock();
        let remaining = guard.as_ref().map_or(self.ttl, Guard::remaining);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        say(&json!({
            "event": "entered",
            "id": id,
            "keys": choice.keys,
            "kind": choice.kind.to_string(),
            "fence": guard.as_ref().and_then(Guard::fencing_token).map(|token| token.get()),
            "asked": micros(asked),
            "stood": micros(stood),
            "at": micros(at),
            "until": micros(at + remaining),
        }));
        let mut certain = at;
        while certain < at + choice.hold {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = shared_clock();
            if guard.as_ref().is_some_and(|guard| !guard.is_held()) {
                break;
            }
            certain = now;
        }
        say(&json!({ "event": "left", "id": id, "at": micros(certain) }));
        match guard {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

/// Acquires the lock. Also returns when the request was certainly in the queue.
async fn acquire(
    manager: &LockManager,
    choice: &Choice,
    ttl: Duration,
) -> Result<(Guard, Duration), LockError> {
    let request = manager.lock_all(choice.keys.iter().copied()).ttl(ttl).wait(WAIT);
    let request = match choice.kind {
        Kind::Exclusive if choice.fenced => request.fenced(),
        Kind::Exclusive => request,
        Kind::Shared => request.shared(),
        Kind::Limited(limit) => request.max_holders(u32::try_from(limit).unwrap()),
    };
    let mut acquire = pin!(request.acquire());
    let first = poll_fn(|context| Poll::Ready(acquire.as_mut().poll(context))).await;
    let stood = shared_clock();
    let guard = match first {
        Poll::Ready(result) => result?,
        Poll::Pending => acquire.await?,
    };
    Ok((guard, stood))
}
