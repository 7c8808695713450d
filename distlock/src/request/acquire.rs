//! Acquires the requested locks.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop::poll_proceed;

use super::report::RequestReport;
use super::{LockRequest, Wait};
use crate::backend::LockKind;
use crate::driver::{self, AcquireResult, Lasting, NestedWait, PendingAcquire, Watched};
use crate::engine::{Outcome, WaitLimit, Want};
use crate::error::{LockError, LostReason};
use crate::guard::Guard;
use crate::key::LockKey;
use crate::observe::spans::{self, Span};
use crate::scope;
use distlock_store::clock;
use distlock_store::engine::Time;

/// The future of [`LockRequest::acquire`]. It is written by hand so that it is compiled once, in this crate: an
/// `async fn` is compiled in every crate that awaits it. And a lock that is free at once needs no more memory.
pub(crate) struct AcquireFuture {
    stage: AcquireStage,
    /// `None`: gone into the stage.
    request: Option<LockRequest>,
    span: Option<Span>,
    report: Option<RequestReport>,
    /// A long wait is warned of, until the request has ended.
    watched: Option<Watched>,
    /// A hold that is longer is warned of.
    warn_hold: Option<Duration>,
    /// A test has ordered the loss of the lock as soon as it is acquired.
    loses: bool,
}

enum AcquireStage {
    New,
    /// One key was asked for.
    Attempt(PendingAcquire, WaitLimit),
    /// Several keys, several attempts, or a lock that was lost before its guard existed.
    Further(Pin<Box<dyn Future<Output = Result<Guard, LockError>> + Send + Sync>>),
    Over,
}

impl AcquireFuture {
    pub(crate) fn new(request: LockRequest) -> Self {
        let warn_hold = request.warn_hold.or(request.manager.defaults().warn_hold);
        let request = Some(request);
        AcquireFuture {
            stage: AcquireStage::New,
            request,
            span: None,
            report: None,
            watched: None,
            warn_hold,
            loses: false,
        }
    }

    /// The first step, which does not wait. If it does not return the result, the caller must poll at once.
    #[inline(never)]
    pub(crate) fn begin(&mut self) -> Option<Result<Guard, LockError>> {
        let request = self.request.as_ref()?;
        let shown = request.shown();
        let core = request.manager.core();
        self.report = Some(RequestReport::begin(core, request.label.clone(), request.kind, shown.keys));
        self.watched = request.watch_long_wait();
        let span = self.span.insert(spans::acquiring(&shown));
        #[cfg(feature = "testing")]
        match request.planned_fault() {
            Ok(loses) => self.loses = loses,
            Err(error) => return Some(self.end(Err(error))),
        }
        let now = self.report.as_ref().map_or_else(clock::now, RequestReport::started);
        let begun = span.in_scope(|| request.begin(now));
        match begun {
            FirstStep::Known(result) => return Some(self.end(result)),
            FirstStep::Attempt(acquiring, wait_limit) => {
                self.stage = AcquireStage::Attempt(acquiring, wait_limit)
            }
            FirstStep::Further(wait_limit) => self.go_further(wait_limit),
        }
        None
    }

    fn go_further(&mut self, wait_limit: WaitLimit) {
        if let Some(request) = self.request.take() {
            self.stage = AcquireStage::Further(Box::pin(request.acquire_further(wait_limit)));
        }
    }

    fn end(&mut self, result: Result<Guard, LockError>) -> Result<Guard, LockError> {
        self.stage = AcquireStage::Over;
        self.watched = None;
        if let Some(span) = self.span.take() {
            spans::acquired(&span, &result);
        }
        if let (Ok(guard), Some(limit)) = (&result, self.warn_hold) {
            guard.warn_of_long_hold(limit);
        }
        if let Some(report) = self.report.take() {
            match &result {
                Ok(guard) => {
                    if let Some(waited) = report.end() {
                        guard.report_acquired(waited);
                    }
                }
                Err(error) => report.not_acquired(error),
            }
        }
        if let (Ok(guard), true) = (&result, self.loses) {
            guard.lose();
        }
        result
    }

    /// `Ready(None)`: the request is in its next state.
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Guard, LockError>>> {
        match &mut self.stage {
            AcquireStage::Further(further) => further.as_mut().poll(cx).map(Some),
            AcquireStage::Attempt(acquiring, wait_limit) => {
                let answer = ready!(Pin::new(&mut *acquiring).poll(cx));
                let Some(request) = &self.request else { return Poll::Pending };
                let result = request.guard(answer, acquiring);
                Poll::Ready(request.usable(result, *wait_limit))
            }
            // Polled again after it was ready.
            AcquireStage::New | AcquireStage::Over => Poll::Pending,
        }
    }
}

impl Future for AcquireFuture {
    type Output = Result<Guard, LockError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let AcquireStage::New = this.stage {
            // Like the locks of tokio, this makes a task yield now and then whose sections never wait. It yields before
            // the first step, so that no lock is held meanwhile.
            ready!(poll_proceed(cx)).made_progress();
            if let Some(result) = this.begin() {
                return Poll::Ready(result);
            }
        }
        loop {
            let span = this.span.take();
            let polled = match &span {
                Some(span) => span.in_scope(|| this.poll_stage(cx)),
                None => this.poll_stage(cx),
            };
            this.span = span;
            if let Some(result) = ready!(polled) {
                return Poll::Ready(this.end(result));
            }
            let AcquireStage::Attempt(_, wait_limit) = std::mem::replace(&mut this.stage, AcquireStage::Over)
            else {
                return Poll::Pending;
            };
            this.go_further(wait_limit);
        }
    }
}

/// A request after its first step.
enum FirstStep {
    Known(Result<Guard, LockError>),
    Attempt(PendingAcquire, WaitLimit),
    Further(WaitLimit),
}

impl LockRequest {
    fn first_key(&self) -> Option<&LockKey> {
        self.keys.as_ref().ok()?.as_slice().first()
    }

    /// The value in the span of the request.
    fn shown(&self) -> spans::RequestFields<'_> {
        let keys = self.keys.as_ref().map_or(0, |keys| keys.as_slice().len());
        let key = self.first_key().map_or("", LockKey::as_str);
        spans::RequestFields { label: &self.label, kind: self.kind, key, keys }
    }

    fn watch_long_wait(&self) -> Option<Watched> {
        let limit = self.warn_wait.or(self.manager.defaults().warn_wait);
        let limit = limit.filter(|limit| *limit < Duration::MAX)?;
        let key = self.first_key().map(|key| key.shared().clone()).unwrap_or_default();
        let wait = Lasting::Wait { label: self.label.clone(), key };
        let core = self.manager.core();
        (!core.is_forked()).then(|| core.watch_long(wait, limit))
    }

    fn begin(&self, now: Time) -> FirstStep {
        let (keys, want) = match self.checked(now) {
            Ok(checked) => checked,
            Err(error) => return FirstStep::Known(Err(error)),
        };
        let wait_limit = want.wait_limit;
        let [key] = keys else { return FirstStep::Further(wait_limit) };
        if matches!(self.wait, Wait::Retry(_)) {
            return FirstStep::Further(wait_limit);
        }
        match self.ask(now, key, want) {
            StartedAcquire::UnderWay(acquiring) => FirstStep::Attempt(acquiring, wait_limit),
            StartedAcquire::Known(result) => match self.usable(result, wait_limit) {
                Some(result) => FirstStep::Known(result),
                None => FirstStep::Further(wait_limit),
            },
        }
    }

    /// Everything that is not one attempt for one key. `wait_limit`: that of the request when it began.
    async fn acquire_further(self, wait_limit: WaitLimit) -> Result<Guard, LockError> {
        let (keys, want) = self.checked(clock::now())?;
        let want = Want { wait_limit, ..want };
        let Wait::Retry(retry) = self.wait else { return self.all(keys, &want).await };
        let mut left = retry.times;
        let started = clock::now();
        loop {
            match self.all(keys, &want).await {
                Err(error) if error.is_busy() && left > 0 => {
                    left -= 1;
                    self.manager.core().rest(retry.pause()).await;
                }
                Err(LockError::Busy { key, holder, remaining, .. }) => {
                    let waited = clock::now().duration_since(started);
                    return Err(LockError::Busy { key, holder, remaining, waited });
                }
                other => return other,
            }
        }
    }

    /// If a lease ends before its guard exists, it is not reported as a loss. The request continues for as long as it
    /// may wait.
    async fn all(&self, keys: &[LockKey], want: &Want) -> Result<Guard, LockError> {
        loop {
            let result = match keys {
                [key] => match self.ask(clock::now(), key, want.clone()) {
                    StartedAcquire::Known(result) => result,
                    StartedAcquire::UnderWay(mut acquiring) => {
                        let answer = (&mut acquiring).await;
                        self.guard(answer, &acquiring)
                    }
                },
                keys => self.in_order(keys, want).await,
            };
            if let Some(result) = self.usable(result, want.wait_limit) {
                return result;
            }
        }
    }

    /// `now`: an instant before.
    fn ask(&self, now: Time, key: &LockKey, want: Want) -> StartedAcquire {
        if let Some(nested) = self.enter_again(key) {
            return StartedAcquire::Known(nested);
        }
        if let Some(error) = self.manager.core().refusal() {
            return StartedAcquire::Known(Err(LockError::Unavailable {
                key: key.clone(),
                source: error.source,
            }));
        }
        let waits = want.wait_limit != WaitLimit::Once;
        let mut acquiring = driver::acquire(self.manager.alive(), now, key.shared().clone(), want);
        match acquiring.now() {
            Some(answer) => StartedAcquire::Known(self.guard(answer, &acquiring)),
            None => {
                if !acquiring.sends() {
                    let core = self.manager.core();
                    core.report_wait_behind_others(acquiring.key(), &self.label, self.kind);
                }
                if waits && let Some(around) = scope::around() {
                    let breaks = self.manager.defaults().break_deadlocks;
                    acquiring.waits_inside(NestedWait { around, breaks });
                }
                StartedAcquire::UnderWay(acquiring)
            }
        }
    }

    fn guard(&self, answer: AcquireResult, acquiring: &PendingAcquire) -> Result<Guard, LockError> {
        match answer {
            AcquireResult::Acquired(lease_handle) => Ok(Guard::new(lease_handle)),
            AcquireResult::Not(outcome) => {
                Err(error_of(outcome, LockKey::from_shared(acquiring.key().clone()), self.kind))
            }
        }
    }

    /// `None`: the lock was lost before its guard existed, and the request may continue.
    fn usable(
        &self,
        result: Result<Guard, LockError>,
        wait_limit: WaitLimit,
    ) -> Option<Result<Guard, LockError>> {
        let guard = match result {
            Ok(guard) => guard,
            Err(error) if wait_limit == WaitLimit::Once => return Some(Err(not_waited(error))),
            Err(error) => return Some(Err(error)),
        };
        // Each way to a guard has just checked whether the process was forked.
        let Err(lost) = guard.check_here() else { return Some(Ok(guard)) };
        if let Err(error) = guard.check_nested() {
            return Some(Err(error));
        }
        drop(guard);
        self.unused(lost, wait_limit).map(Err)
    }

    /// The lock was acquired and lost before its guard existed. `None`: the request may continue.
    fn unused(&self, lost: LockError, wait_limit: WaitLimit) -> Option<LockError> {
        let LockError::Lost { key, reason } = lost else { return Some(lost) };
        let why = format!("it was acquired, but was lost before it could be used: {reason}; nothing was run");
        if self.replaces.is_some() {
            let why: Box<dyn Error + Send + Sync> = why.into();
            return Some(LockError::unconfirmed(key, NOT_TAKEN_OVER, why.into()));
        }
        let goes_on = match (reason, wait_limit) {
            (LostReason::Shutdown, _) => return Some(LockError::Closed),
            (LostReason::MaxHold, _) | (_, WaitLimit::Once) => false,
            (_, WaitLimit::Until(until)) => clock::now() < until,
            (_, WaitLimit::Forever) => true,
        };
        (!goes_on).then(|| LockError::unavailable(key, why))
    }

    /// `None`: this task does not hold the key.
    pub(super) fn enter_again(&self, key: &LockKey) -> Option<Result<Guard, LockError>> {
        let id = self.manager.core().id;
        let outer = scope::find_held(|held| held.covers(Some(id), key.as_str()))?;
        let held = outer.kind_of(key.as_str())?;
        match nesting(held, self.kind) {
            Nesting::Inside if self.reentrant => {}
            Nesting::Inside | Nesting::Upgrade => {
                let (held, wanted) = (held, self.kind);
                let key = key.clone();
                return Some(Err(LockError::WouldDeadlock { key, held, wanted, deadlock: None }));
            }
            Nesting::WrongKind => {
                let (wanted, found) = (self.kind.to_string().into(), held.to_string().into());
                return Some(Err(LockError::WrongKind { key: key.clone(), wanted, found }));
            }
        }
        let nested = outer.nested(key.as_str(), self.label.clone())?;
        if self.fenced && nested.fencing_token().is_none() {
            return Some(Err(LockError::options(
                "a fenced request inside a section that holds the same key without a fencing token: make \
                 the outer one fenced",
            )));
        }
        Some(Ok(nested))
    }
}

/// The relation of a request to a section of the same task that holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nesting {
    /// The section excludes every holder that the request would exclude.
    Inside,
    /// The section lets readers in, the request wants to be alone.
    Upgrade,
    /// A key has one of these kinds at a time, for all requests.
    WrongKind,
}

/// The rule for a call inside a section that holds its key.
fn nesting(held: LockKind, wanted: LockKind) -> Nesting {
    match (held, wanted) {
        (LockKind::Exclusive, LockKind::Exclusive | LockKind::Shared)
        | (LockKind::Shared, LockKind::Shared) => Nesting::Inside,
        (LockKind::Limited { max_holders: held }, LockKind::Limited { max_holders: wanted })
            if held == wanted =>
        {
            Nesting::Inside
        }
        (LockKind::Shared, LockKind::Exclusive) => Nesting::Upgrade,
        (LockKind::Limited { .. }, _) | (_, LockKind::Limited { .. }) => Nesting::WrongKind,
    }
}

enum StartedAcquire {
    Known(Result<Guard, LockError>),
    UnderWay(PendingAcquire),
}

const NOT_TAKEN_OVER: &str =
    "it may have been taken over; then it is released in the background, and the ticket is used";

/// The round trip of a single attempt does not count as waiting.
fn not_waited(error: LockError) -> LockError {
    match error {
        LockError::Busy { key, holder, remaining, .. } => {
            LockError::Busy { key, holder, remaining, waited: Duration::ZERO }
        }
        other => other,
    }
}

pub(super) fn error_of(outcome: Outcome, key: LockKey, kind: LockKind) -> LockError {
    match outcome {
        Outcome::Busy { holder, waited } => {
            let until = holder.as_ref().and_then(|holder| holder.until);
            let remaining = until.map(|until| until.duration_since(clock::now()));
            LockError::Busy { key, holder: holder.map(|holder| holder.text), remaining, waited }
        }
        Outcome::Unavailable(error) => LockError::Unavailable { key, source: error.source },
        Outcome::Unconfirmed(error) => LockError::unconfirmed(key, NOT_TAKEN_OVER, error.source),
        Outcome::WrongKind { found } => LockError::WrongKind { key, wanted: kind.to_string().into(), found },
        Outcome::NotReplaced => LockError::ticket(format!(
            "lock `{key}` is not held by the process that handed it over: the ticket was used, or its lease \
             has ended; acquire the lock like any other"
        )),
        // Only exclusive holders publish the locks that they wait for.
        Outcome::Deadlock(deadlock) => LockError::WouldDeadlock {
            key,
            held: LockKind::Exclusive,
            wanted: kind,
            deadlock: Some(deadlock),
        },
        Outcome::Acquired(_) | Outcome::Skipped | Outcome::Closed => LockError::Closed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::LockManager;

    /// Runs sections until another task of the same thread has run, with a limit on their number.
    async fn sections_until_another_task_runs(section: impl AsyncFn(&LockManager)) -> usize {
        const MOST: usize = 10_000;
        let manager = LockManager::in_memory();
        let ran = Arc::new(AtomicBool::new(false));
        let other = ran.clone();
        drop(tokio::spawn(async move { other.store(true, Ordering::Relaxed) }));
        for count in 0..MOST {
            if ran.load(Ordering::Relaxed) {
                return count;
            }
            section(&manager).await;
        }
        panic!("{MOST} sections, and no other task has run");
    }

    #[tokio::test]
    async fn sections_that_never_wait_let_other_tasks_run() {
        sections_until_another_task_runs(async |manager| {
            manager.lock("k").acquire().await.unwrap().release().await.unwrap();
        })
        .await;
        sections_until_another_task_runs(async |manager| {
            manager.lock("k").run(async |_| {}).await.unwrap();
        })
        .await;
    }
}
