//! The engine's rules, one by one. A test acts as the server and the clock.

mod acquire_all;
mod acquiring;
mod cancel;
mod chain;
mod collection;
mod crowd;
mod granting;
mod handing_over;
mod how;
mod limited;
mod linger;
mod link;
mod loss;
mod min_hold;
mod mutants;
mod overtaking;
mod pending;
mod queueing;
mod renewal;
mod server_steps;
mod session;
mod shared;
mod unclaimed;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AcquirePurpose, Answer, Command, Confirmation, Context, Effect, Failed, Outcome, ReleaseStarted, Renewal,
    WaitLimit, Want,
};
use crate::driver::shards::{Effects, Shards};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell, Ticket};
use crate::protocol::op::{self, Ask};
use crate::protocol::{
    AcquireMode, AcquireReply, BatchReply, EarlierCommands, Failure, LinkEvent, Notifications, OpResult,
    PollPauses, Push, ReleaseReply, Remaining, RenewReply, ServerTime, StoreError, Time, Token, Tuning,
};

const TTL: Duration = Duration::from_secs(10);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A command that was sent.
#[derive(Clone, Debug)]
struct Sent {
    context: Context,
    command: Command,
}

impl Deref for Sent {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// A reply, or a failure, of the kind that answers some command.
trait Answers {
    fn to(self, command: Command) -> Answer;
}

impl Answers for OpResult<AcquireReply> {
    fn to(self, command: Command) -> Answer {
        match command {
            Command::Acquire(asked, _) | Command::Replace(asked, _) => Answer::Acquire(asked, self),
            other => panic!("{self:?} does not answer {other:?}"),
        }
    }
}

impl Answers for OpResult<ReleaseReply> {
    fn to(self, command: Command) -> Answer {
        match command {
            Command::Release(asked, _) => Answer::Release(asked, self),
            other => panic!("{self:?} does not answer {other:?}"),
        }
    }
}

impl Answers for OpResult<RenewReply> {
    fn to(self, command: Command) -> Answer {
        match command {
            Command::Renew(asked, _) => Answer::Renew(asked, self),
            other => panic!("{self:?} does not answer {other:?}"),
        }
    }
}

impl Answers for StoreError {
    fn to(self, command: Command) -> Answer {
        match command {
            Command::Acquire(asked, _) | Command::Replace(asked, _) => Answer::Acquire(asked, Err(self)),
            Command::Release(asked, _) => Answer::Release(asked, Err(self)),
            Command::Renew(asked, _) => Answer::Renew(asked, Err(self)),
        }
    }
}

/// Where a waiter is in the server's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Behind,
}

/// One process with one key.
struct Desk {
    engine: Shards<u32>,
    key: Arc<str>,
    now: Time,
    sent: VecDeque<(Sent, Command)>,
    together: VecDeque<Vec<(Context, AcquirePurpose, op::Acquire)>>,
    done: VecDeque<(u32, Outcome)>,
    lost: Vec<LostReason>,
    /// How many waited here when it was reported that the store has queued this process.
    queued: Vec<usize>,
    /// After how long each lock was released that no caller had taken up.
    not_taken: Vec<Duration>,
}

impl Desk {
    /// Connected, with pushes.
    fn new() -> Desk {
        Desk::with(&Tuning::default())
    }

    /// No gaps for plain pollers.
    fn without_gaps() -> Desk {
        Desk::with(&Tuning { poll_gap: Duration::ZERO, ..Tuning::default() })
    }

    fn with(tuning: &Tuning) -> Desk {
        let client: Arc<str> = "c".into();
        let mut desk = Desk {
            engine: Shards::new(&client, tuning, 1, 7),
            key: "k".into(),
            now: Time(1_000_000_000_000),
            sent: VecDeque::new(),
            together: VecDeque::new(),
            done: VecDeque::new(),
            lost: Vec::new(),
            queued: Vec::new(),
            not_taken: Vec::new(),
        };
        desk.up(EarlierCommands::Ended);
        desk
    }

    fn pass(&mut self, d: Duration) {
        self.now = self.now.after(d);
    }

    /// The server's clock now.
    fn server_time(&self) -> ServerTime {
        ServerTime(1_790_000_000_000_000 + self.now.0 / 1000)
    }

    fn take(&mut self, effects: Effects<u32>) {
        for effect in effects.list {
            match effect {
                Effect::Send(context, command) => {
                    self.sent.push_back((Sent { context, command: command.clone() }, command));
                }
                Effect::SendAcquireAll(batch) => self.together.push_back(batch),
                Effect::Done(who, outcome) => self.done.push_back((who, outcome)),
                Effect::Lost(_, reason) => self.lost.push(reason),
                Effect::NotTaken { after, .. } => self.not_taken.push(after),
                Effect::Renewed { .. } => {}
                Effect::Queued { waiting, .. } => self.queued.push(waiting),
            }
        }
    }

    fn acquire(&mut self, who: u32, want: Want) -> Ticket {
        let (ticket, effects) = self.engine.on_key(self.now, &self.key, |step| step.acquire(want, who));
        self.take(effects);
        ticket
    }

    fn cancel(&mut self, ticket: Ticket) {
        let (_, effects) = self.engine.on_key(self.now, &self.key, |step| step.cancel(ticket));
        self.take(effects);
    }

    fn release(&mut self, cell: &LeaseCell) -> ReleaseStarted {
        let (release, effects) = self.engine.on_key(self.now, &cell.key, |step| step.release(cell));
        self.take(effects);
        release
    }

    fn ask_whether_held(&mut self) {
        let ((), effects) = self.engine.on_key(self.now, &self.key, |step| step.ask_whether_held());
        self.take(effects);
    }

    fn timer(&mut self) {
        let effects = self.engine.on_every_machine(|machine, out| machine.timer(self.now, out));
        self.take(effects);
    }

    /// Passes the time until a timer fires.
    fn sleep(&mut self) -> Duration {
        let start = self.now;
        let (sent, done, lost) = (self.sent.len(), self.done.len(), self.lost.len());
        while (self.sent.len(), self.done.len(), self.lost.len()) == (sent, done, lost) {
            let due = self.engine.next_due().expect("something is due");
            self.now = self.now.max(due);
            self.timer();
        }
        self.now.duration_since(start)
    }

    fn link(&mut self, event: &LinkEvent) {
        let effects = self.engine.link(self.now, event);
        self.take(effects);
    }

    fn up(&mut self, earlier: EarlierCommands) {
        self.link(&LinkEvent::Up { earlier, pushes: Notifications::On });
    }

    fn down(&mut self) {
        self.link(&LinkEvent::Down { cause: error(Failure::Unknown) });
    }

    fn push(&mut self, push: Push) {
        let effects = self.engine.push(self.now, &push);
        self.take(effects);
    }

    fn grant(&mut self, token: Token, server_time: ServerTime, fence: Option<u64>) {
        let key = self.key.clone();
        self.push(Push::Grant { key, token, server_time, handoffs_began: server_time, fence });
    }

    /// The oldest command that the test has not looked at.
    fn next(&mut self) -> (Sent, Command) {
        self.sent.pop_front().expect("a command was sent")
    }

    fn next_enter(&mut self) -> (Sent, AcquireMode, u32) {
        match self.next() {
            (sent, Command::Acquire(_, Ask::Full(op))) => (sent, op.mode, op.fences),
            (_, other) => panic!("{other:?} was sent instead of enter"),
        }
    }

    fn next_leave(&mut self) -> (Sent, Option<Duration>) {
        match self.next() {
            (sent, Command::Release(_, op)) => (sent, op.keep_taken_for),
            (_, other) => panic!("{other:?} was sent instead of leave"),
        }
    }

    fn quiet(&self) {
        assert!(self.sent.is_empty(), "sent: {:?}", self.sent);
    }

    fn answer(&mut self, sent: Sent, result: impl Answers) {
        drop(self.confirmed(sent, result));
    }

    /// What the reply means for the caller of a release or an extension.
    fn confirmed(&mut self, sent: Sent, result: impl Answers) -> Confirmation {
        let answer = result.to(sent.command);
        let (confirmation, effects) = self.engine.reply(self.now, sent.context, answer);
        self.take(effects);
        confirmation
    }

    fn fresh(&mut self, context: Sent) {
        let server_time = Some(self.server_time());
        self.answer(context, Ok(AcquireReply::Acquired { server_time, fence: None }));
    }

    fn busy(&mut self, context: Sent) {
        self.busy_behind(context, "dl1:other:1", Place::Behind);
    }

    fn busy_behind(&mut self, context: Sent, holder: &str, place: Place) {
        self.busy_for(context, holder, TTL, place);
    }

    /// The holder's lease lasts for `left`.
    fn busy_for(&mut self, context: Sent, holder: &str, left: Duration, place: Place) {
        let server_time = Some(self.server_time());
        let (remaining, front) = (Remaining::For(left), place == Place::First);
        self.answer(context, Ok(AcquireReply::Busy { server_time, holder: holder.into(), remaining, front }));
    }

    fn fails(&mut self, context: Sent, failure: Failure) {
        self.answer(context, error(failure));
    }

    fn outcome(&mut self) -> (u32, Outcome) {
        self.done.pop_front().expect("a request was completed")
    }

    /// The requester has noticed the grant.
    fn acquired(&mut self) -> Arc<LeaseCell> {
        let cell = self.unclaimed();
        cell.claim(self.now);
        cell
    }

    fn unclaimed(&mut self) -> Arc<LeaseCell> {
        match self.outcome() {
            (_, Outcome::Acquired(cell)) => cell,
            (who, other) => panic!("request {who}: {other:?}"),
        }
    }

    fn nobody_is_done(&self) {
        assert!(self.done.is_empty(), "done: {:?}", self.done);
    }

    /// Request 0 holds the lock.
    fn hold(&mut self, want: Want) -> Arc<LeaseCell> {
        self.acquire(0, want);
        let (context, _) = self.next();
        let is_fenced = matches!(context.command, Command::Acquire(AcquirePurpose { fences: 1.., .. }, _));
        let fence = is_fenced.then_some(1_000);
        let server_time = Some(self.server_time());
        self.answer(context, Ok(AcquireReply::Acquired { server_time, fence }));
        self.acquired()
    }

    /// Request 1 is queued on the server. Returns its token.
    fn queue(&mut self, want: Want) -> Token {
        self.acquire(1, want);
        let (context, _) = self.next();
        self.busy(context);
        let (context, mode, _) = self.next_enter();
        assert_eq!(mode, AcquireMode::Wait);
        let token = context.token;
        self.busy(context);
        token
    }

    fn until(&self, cell: &LeaseCell) -> Time {
        match cell.peek(self.now) {
            CellState::Until(until) => until,
            other => panic!("not held: {other:?}"),
        }
    }
}

fn want() -> Want {
    Want {
        kind: crate::protocol::LockKind::Exclusive,
        ttl: TTL,
        renewal: Renewal::Keep,
        wait_limit: WaitLimit::Forever,
        unavailable_after: Duration::from_secs(3),
        fenced: false,
        max_waiters: None,
        max_hold: None,
        min_hold: None,
        linger: None,
        replaces: None,
        own_lease: false,
        collection: None,
        label: Cow::Borrowed("test"),
    }
}

fn fenced() -> Want {
    Want { fenced: true, ..want() }
}

fn error(failure: Failure) -> StoreError {
    StoreError::new(failure, "as the test says")
}
