//! The actions of engines, as lines. `spec/Trace.tla` checks these lines and those of the server against the
//! specification.
//!
//! A machine whose client has a recorder writes a line about each event of the recorder's key while its mutex is held,
//! so the lines of a client are in the order of its events. `scripts/trace.py` describes the lines.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::state::{Env, KeyState};
use super::step::Step;
use super::{Answer, Command, Context};
use crate::protocol::mutant::{self, Mutant};
use crate::protocol::{AcquireReply, Push, ReleaseReply, RenewReply, Time, Token, shared_token_text};
use distlock_store::clock;

static RECORDERS: Mutex<Vec<Weak<Recorder>>> = Mutex::new(Vec::new());

/// The lines of one run, and the rule that its engines break.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The prefix of the names of its clients.
    name: String,
    key: Arc<str>,
    mutant: Option<Mutant>,
    /// The difference from the clock of the engines to the wall clock, which the server's lines use.
    ahead: i128,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    lines: Vec<String>,
    /// Clients that have crashed: what they do afterwards is not part of the run.
    crashed: BTreeSet<Arc<str>>,
    is_over: bool,
}

impl Recorder {
    pub(crate) fn start(name: &str, key: &str, mutant: Option<Mutant>) -> Arc<Recorder> {
        let (name, key, ahead) = (format!("{name}."), key.into(), wall_clock_ahead());
        let recorder = Arc::new(Recorder { name, key, mutant, ahead, written: Mutex::default() });
        RECORDERS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&recorder));
        recorder
    }

    /// By how much the wall clock was set during the run.
    pub(crate) fn clock_was_set_by(&self) -> Duration {
        Duration::from_micros(u64::try_from((wall_clock_ahead() - self.ahead).abs()).unwrap_or(u64::MAX))
    }

    /// All lines of the run, which ends here.
    pub(crate) fn end(&self) -> Vec<String> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.is_over = true;
        std::mem::take(&mut written.lines)
    }

    pub(crate) fn crash(&self, client: &Arc<str>) {
        self.write(client, self.micros(clock::now()), r#""ev":"crash""#);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).crashed.insert(client.clone());
    }

    fn write(&self, client: &Arc<str>, micros: i128, rest: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if !written.is_over && !written.crashed.contains(client) {
            written.lines.push(format!(r#"{{"t":{micros},"p":"{client}",{rest}}}"#));
        }
    }

    fn micros(&self, at: Time) -> i128 {
        i128::from(at.0 / 1000) + self.ahead
    }
}

/// In microseconds: the smallest of several measurements, because the thread may have been preempted during one.
fn wall_clock_ahead() -> i128 {
    let look = || {
        let before = clock::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = clock::now().duration_since(before);
        (took, i128::try_from(wall.as_micros()).unwrap_or_default() - i128::from(before.0 / 1000))
    };
    (0..100).map(|_| look()).min().map_or(0, |(_, ahead)| ahead)
}

/// The lines that a machine writes, if its client has a recorder.
#[derive(Debug)]
pub(crate) struct Record {
    recorder: Arc<Recorder>,
    /// The event that is being handled, if it is a reply or a push.
    event: String,
    is_stale: bool,
    enters: Vec<String>,
    leaves: Vec<String>,
    renews: Vec<u128>,
    /// The state of the key in the last line.
    before: String,
    has_key: bool,
}

pub(crate) fn of(client: &Arc<str>) -> Option<Record> {
    let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    recorders.retain(|recorder| recorder.strong_count() > 0);
    let mut known = recorders.iter().filter_map(Weak::upgrade);
    let recorder = known.find(|recorder| client.starts_with(&recorder.name))?;
    Some(Record {
        recorder,
        event: String::new(),
        is_stale: false,
        enters: Vec::new(),
        leaves: Vec::new(),
        renews: Vec::new(),
        before: String::new(),
        has_key: false,
    })
}

impl Env {
    /// The link has changed. The events of the keys come after it.
    pub(super) fn record_link(&mut self, now: Time) {
        let up = !self.link.is_down();
        let Some(record) = self.record.as_ref().filter(|record| record.has_key) else { return };
        let rest = format!(r#""ev":"link","up":{up}"#);
        record.recorder.write(&self.client, record.recorder.micros(now), &rest);
    }
}

impl<W> Step<'_, W> {
    pub(super) fn begin_record(&mut self) {
        if let Some(record) = &self.env.record {
            mutant::switch(record.recorder.mutant);
        }
    }

    pub(super) fn end_record(&mut self) {
        let (client, up) = (self.env.client.clone(), !self.env.link.is_down());
        let Some(record) = &mut self.env.record else { return };
        mutant::switch(None);
        if *record.recorder.key != **self.key {
            return;
        }
        record.has_key = true;
        let (absolute, state) = state_of(self.state, &client, self.now);
        let is_news = !record.event.is_empty() || absolute != record.before;
        if is_news
            || [&record.enters, &record.leaves].iter().any(|sent| !sent.is_empty())
            || !record.renews.is_empty()
        {
            let event = if record.event.is_empty() { r#""ev":"other""# } else { &record.event };
            let Record { is_stale, enters, leaves, renews, .. } = &record;
            let sent = format!(r#""enters":{enters:?},"leaves":{leaves:?},"renews":{renews:?}"#);
            let rest = format!(r#"{event},"stale":{is_stale},"up":{up},{state},{sent}"#);
            record.recorder.write(&client, record.recorder.micros(self.now), &rest);
        }
        record.before = absolute;
        record.event.clear();
        record.is_stale = false;
        record.enters.clear();
        record.leaves.clear();
        record.renews.clear();
    }

    pub(super) fn record_sent(&mut self, token: Token, command: &Command) {
        let token = shared_token_text(&self.env.client, token).to_string();
        let Some(record) = &mut self.env.record else { return };
        match command {
            Command::Acquire(..) | Command::Replace(..) => record.enters.push(token),
            Command::Release(..) => record.leaves.push(token),
            Command::Renew(_, op) => record.renews.push(op.ttl.as_millis()),
        }
    }

    /// The reply that is being handled says nothing new.
    pub(super) fn record_stale(&mut self) {
        if let Some(record) = &mut self.env.record {
            record.is_stale = true;
        }
    }

    pub(super) fn record_reply(&mut self, context: &Context, answer: &Answer) {
        let token = shared_token_text(&self.env.client, context.token);
        let Some(record) = &mut self.env.record else { return };
        let mut ttl = 0;
        let (command, code) = match answer {
            Answer::Acquire(_, Ok(AcquireReply::Acquired { .. })) => ("enter", "FRESH"),
            Answer::Acquire(_, Ok(AcquireReply::AlreadyHeld { .. })) => ("enter", "MINE"),
            Answer::Acquire(_, Ok(AcquireReply::Busy { .. })) => ("enter", "BUSY"),
            Answer::Acquire(..) | Answer::AcquireInBatch(..) => ("enter", "failed"),
            Answer::Release(_, Ok(ReleaseReply::Released { .. })) => ("leave", "RELEASED"),
            Answer::Release(_, Ok(ReleaseReply::Cancelled)) => ("leave", "CANCELLED"),
            Answer::Release(_, Ok(ReleaseReply::NotHeld)) => ("leave", "NOT_YOURS"),
            Answer::Release(..) => ("leave", "failed"),
            Answer::Renew(asked, result) => {
                ttl = asked.ttl.as_millis();
                let code = match result {
                    Ok(RenewReply::Renewed { .. }) => "RENEWED",
                    Ok(RenewReply::NotHeld) => "NOT_YOURS",
                    Err(_) => "failed",
                };
                ("renew", code)
            }
        };
        let us = answer.server_time().map_or(0, |time| time.0);
        record.event =
            format!(r#""ev":"reply","cmd":"{command}","n":"{token}","code":"{code}","ttl":{ttl},"us":{us}"#);
    }

    pub(super) fn record_push(&mut self, push: &Push) {
        let (command, token) = match push {
            Push::Grant { token, .. } => ("grant", *token),
            Push::Gap { token, .. } => ("gap", *token),
            Push::Wanted { token, .. } => ("wanted", *token),
        };
        let token = shared_token_text(&self.env.client, token);
        if let Some(record) = &mut self.env.record {
            record.event = format!(r#""ev":"push","cmd":"{command}","n":"{token}""#);
        }
    }
}

/// The state of a key, twice: with absolute times, to be compared, and with the times as the line has them.
fn state_of<W>(state: &KeyState<W>, client: &Arc<str>, now: Time) -> (String, String) {
    let (mut phase, mut token, mut until, mut section) = ("idle", None, now, None);
    if let Some(lease) = state.leases.first() {
        section = lease.holders.first().map(|holder| (holder.cell.ticket, holder.cell.fence.unwrap_or(0)));
        phase = if section.is_some() { "held" } else { "linger" };
        token = Some(lease.grant.token);
        until = lease.holders.iter().map(|holder| holder.until).min().unwrap_or(lease.grant.deadline);
    } else if let Some(attempt) = &state.attempt {
        (phase, token) = ("wait", Some(attempt.token));
    }
    let token = token.map(|token| shared_token_text(client, token));
    let token = token.as_deref().unwrap_or_default();
    let (ticket, fence) = section.map_or((0, 0), |(ticket, fence)| (ticket.0, fence));
    let inside: usize = state.leases.iter().map(|lease| lease.holders.len()).sum();
    let mut absolute = String::new();
    let rest =
        format!(r#""ph":"{phase}","tok":"{token}","fence":{fence},"section":{ticket},"inside":{inside}"#);
    write!(absolute, "{rest}{}", if phase == "held" || phase == "linger" { until.0 } else { 0 })
        .unwrap_or_default();
    let left = until.duration_since(now).as_micros();
    (absolute, format!(r#"{rest},"dl":{left}"#))
}
