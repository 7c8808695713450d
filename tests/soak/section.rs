//! A task of a client: acquires a lock as planned, works under it, and reports its beliefs with their times.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use distlock::{Guard, LockError, LockManager, LockRequest, Release, distributed_lock};
use distlock_tests::shared_clock;
use fastrand::Rng;
use tokio::sync::Mutex;

use crate::{
    client::{Report, Stalls},
    judge::EXPECTED,
    plan::{Form, Offer, Plan, Wait},
    record::{Failure, Kind, Line, Section, Times, Write},
    register::{Answer, Register},
};

/// A section that takes longer is reported while it lasts.
pub(crate) const PROGRESS: Duration = Duration::from_millis(25);
/// How often a holder checks its lock.
const SLICE: Duration = Duration::from_millis(2);
/// The pause after an error, which prevents a busy loop.
const PAUSE: Duration = Duration::from_millis(5);

/// The state that all tasks of a client share.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) manager: LockManager,
    pub(crate) register: Register,
    pub(crate) report: Report,
    pub(crate) stalls: Arc<Stalls>,
    pub(crate) sections: Arc<AtomicU64>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) offer: Offer,
}

/// The belief of a holder, and its begin.
#[derive(Debug)]
struct Belief {
    id: u64,
    asked: u64,
    entered: u64,
    left: u64,
    token: Option<u64>,
    write: Write,
    /// The stalled time of the process when the request began.
    stalled: u64,
}

impl Worker {
    pub(crate) async fn work(self, mut rng: Rng) {
        while !self.stop.load(Ordering::SeqCst) {
            let plan = Plan::draw(&mut rng, self.offer);
            let before = self.stalled();
            let mut belief = Belief {
                id: self.sections.fetch_add(1, Ordering::Relaxed),
                asked: now(),
                entered: 0,
                left: 0,
                token: None,
                write: Write::None,
                stalled: before,
            };
            let result = self.cancelled_or_done(&plan, &mut belief).await;
            let ended = now();
            if belief.entered > 0 {
                let section = self.section(&plan, &belief, ended);
                self.report.say(Line::Over(section));
            }
            if let Some(variant) = failure(result) {
                let (asked, allowed) = if belief.entered > 0 {
                    // The error of the release, which was judged together with the section.
                    (ended, Duration::ZERO)
                } else {
                    (belief.asked, plan.wait.allowed())
                };
                let stalled = self.stalled() - before;
                let allowed = micros(allowed);
                let how = plan.to_string();
                self.report.say(Line::Failed(Failure { variant, asked, ended, stalled, allowed, how }));
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep(plan.pause).await;
        }
    }

    /// `None`: the request was dropped.
    async fn cancelled_or_done(&self, plan: &Plan, belief: &mut Belief) -> Option<Result<(), LockError>> {
        let limit = plan.cancel_after;
        let mut attempt = pin!(self.attempt(plan, belief));
        match limit {
            Some(limit) => tokio::time::timeout(limit, attempt.as_mut()).await.ok(),
            None => Some(attempt.await),
        }
    }

    async fn attempt(&self, plan: &Plan, belief: &mut Belief) -> Result<(), LockError> {
        match plan.form {
            Form::Released => {
                let guard = self.request(plan).acquire().await?;
                self.hold(&guard, plan, belief).await;
                guard.release().await
            }
            Form::Dropped => {
                let guard = self.request(plan).acquire().await?;
                self.hold(&guard, plan, belief).await;
                Ok(())
            }
            Form::Run => self.request(plan).run(async |held| self.hold(&held, plan, belief).await).await,
            Form::Background => {
                let request = self.request(plan).release(Release::Background);
                request.run(async |held| self.hold(&held, plan, belief).await).await
            }
            Form::Leader => self.lead(plan, belief).await,
            Form::Attribute => {
                let task = Task { worker: self, plan, belief };
                if plan.fenced { fenced(plan.number, task).await } else { annotated(plan.number, task).await }
            }
        }
    }

    /// Is a candidate for an office until a term has ended normally.
    async fn lead(&self, plan: &Plan, belief: &mut Belief) -> Result<(), LockError> {
        let candidate = self.manager.leader(plan.keys[0].as_str()).ttl(plan.ttl);
        let belief = Mutex::new(belief);
        let term = async |lead: distlock::leader::Lead| {
            let mut belief = belief.lock().await;
            if belief.entered > 0 {
                // A lost term is a separate section.
                self.report.say(Line::Over(self.section(plan, &belief, 0)));
                belief.id = self.sections.fetch_add(1, Ordering::Relaxed);
                (belief.asked, belief.left, belief.write) = (now(), 0, Write::None);
            }
            self.hold(&lead, plan, &mut belief).await;
        };
        candidate.run(term).await
    }

    fn request(&self, plan: &Plan) -> LockRequest {
        let mut request = match &plan.keys[..] {
            [key] => self.manager.lock(key.as_str()),
            keys => self.manager.lock_all(keys.iter().map(String::as_str)),
        };
        request = match plan.wait {
            Wait::Once => request.no_wait(),
            Wait::For(time) => request.wait(time),
            Wait::Forever => request.wait_forever(),
        };
        request = match plan.kind {
            Kind::Exclusive => request,
            Kind::Shared => request.shared(),
            Kind::Limited(limit) => request.max_holders(limit),
        };
        if !plan.renews {
            request = request.no_renew();
        }
        if let Some(time) = plan.min_hold {
            request = request.min_hold(time);
        }
        if let Some(time) = plan.max_hold {
            request = request.max_hold(time);
        }
        if let Some(time) = plan.linger {
            request = request.linger(time);
        }
        if plan.fenced {
            request = request.fenced();
        }
        request.ttl(plan.ttl)
    }

    /// Works for as long as planned, or until the lock is lost. May be dropped at any await.
    async fn hold(&self, guard: &Guard, plan: &Plan, belief: &mut Belief) {
        belief.entered = now();
        belief.token = guard.fencing_token().map(|token| token.get());
        let end = belief.entered + micros(plan.work);
        if plan.work >= PROGRESS {
            self.report.say(Line::Begun(self.section(plan, belief, 0)));
        }
        let mut told = belief.entered;
        while belief.look(guard) && belief.left < end {
            if belief.left - told >= micros(PROGRESS) {
                told = belief.left;
                self.report.say(Line::Held { id: belief.id, at: told });
            }
            tokio::time::sleep(SLICE.min(Duration::from_micros(end - belief.left))).await;
        }
        // A holder that has lost the lock writes, too, because the loss may happen in the middle of the write.
        if let (Some(token), [key]) = (belief.token, &plan.keys[..]) {
            let answer = self.register.write(key, token).await;
            let held = belief.look(guard);
            belief.write = match answer {
                Answer::Accepted => Write::Accepted,
                Answer::Repeated => Write::Repeated,
                Answer::Old if held => Write::RefusedWhileHeld,
                Answer::Old => Write::RefusedAfterLoss,
            };
        }
    }

    fn section(&self, plan: &Plan, belief: &Belief, released: u64) -> Section {
        Section {
            id: belief.id,
            kind: plan.kind,
            keys: plan.keys.clone(),
            token: belief.token,
            times: Times {
                asked: belief.asked,
                entered: belief.entered,
                left: belief.left,
                released,
                stalled: self.stalled() - belief.stalled,
                allowed: micros(plan.wait.allowed()),
            },
            min_hold: plan.min_hold.map_or(0, micros),
            cap: plan.cap().map_or(0, micros),
            write: belief.write,
        }
    }

    fn stalled(&self) -> u64 {
        micros(self.stalls.so_far())
    }
}

impl Belief {
    /// The time is taken first. A process that holds the lock after that held it at that time.
    fn look(&mut self, guard: &Guard) -> bool {
        let at = now();
        let held = guard.is_held();
        if held {
            self.left = at;
        }
        held
    }
}

/// The data of an annotated function.
struct Task<'a> {
    worker: &'a Worker,
    plan: &'a Plan,
    belief: &'a mut Belief,
}

#[distributed_lock(
    key = "attr:<number>",
    ttl = task.plan.ttl,
    wait = task.plan.wait.longest(),
    manager = task.worker.manager,
    guard = guard
)]
async fn annotated(number: u32, task: Task<'_>) -> Result<(), LockError> {
    task.worker.hold(guard, task.plan, task.belief).await;
    Ok(())
}

#[distributed_lock(
    key = "attr:<number>",
    ttl = task.plan.ttl,
    wait = task.plan.wait.longest(),
    manager = task.worker.manager,
    guard = guard,
    token = token
)]
async fn fenced(number: u32, task: Task<'_>) -> Result<(), LockError> {
    task.worker.hold(guard, task.plan, task.belief).await;
    assert_eq!(task.belief.token, Some(token.get()));
    Ok(())
}

/// The variant's name. The text of an error that no caller should get is printed.
fn failure(result: Option<Result<(), LockError>>) -> Option<String> {
    let Some(result) = result else { return Some("Cancelled".to_owned()) };
    let error = result.err()?;
    let debug = format!("{error:?}");
    let variant = debug.split([' ', '{', '(']).next().unwrap_or_default();
    if !EXPECTED.contains(&variant) {
        eprintln!("{error}");
    }
    Some(variant.to_owned())
}

fn now() -> u64 {
    micros(shared_clock())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
