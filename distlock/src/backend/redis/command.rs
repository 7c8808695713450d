//! Operations as commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, RedisWrite};

use super::names::{Name, Names, Tag};
use super::scripts::{Lua, SCRIPTS};
use super::spare;
use crate::backend::{AcquireMode, HoldNote, LockKind, Token, Tuning, Who, op, token_text, with_token_text};
use crate::protocol::records::{LONGEST_KEY, hold_record, process_record};

/// So much is read of a value, and of a token in a queue or among several holders.
const LONGEST_VALUE: usize = 4096;
const LONGEST_TOKEN: usize = 256;
/// The most holders and the most waiters of a lock that are read.
const MOST_TOKENS: usize = 1000;
/// One command reads at most this many names, because the server does nothing else meanwhile.
const NAMES_AT_ONCE: usize = 1000;

/// How long the record of a process lives. It is written again every five seconds.
pub(super) const PROCESS_RECORD_TTL: Duration = Duration::from_secs(60);

/// Turns operations into commands. Fixed for the life of a backend, except for the command that pushes.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(super) names: Names,
    pub(super) client: String,
    /// The lifetime of a queue entry in milliseconds.
    queue_entry_ttl: u64,
    /// `1` if a PUBLISH count of 0 proves that no client is subscribed (one server), else `0` (a cluster counts one
    /// node).
    counts: &'static str,
    /// The other settings of `leave`, in one argument, which ends with the prefix of the channels.
    settings: String,
    /// Scripts push by SPUBLISH. A node that does not know it pushes by PUBLISH nevertheless, as push.lua says.
    pushes_by_slot: AtomicBool,
}

/// The command by which scripts push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PushCommand {
    #[default]
    Publish,
    Spublish,
}

/// How a command names its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptRef {
    /// By its hash: EVALSHA.
    Hash,
    /// By its text, which the server stores: EVAL, for a server that does not know the hash.
    Text,
}

/// Whole milliseconds, rounded up. At least one, because the server refuses zero.
fn millis(duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    millis.clamp(1, i64::MAX as u64)
}

/// Whole milliseconds where zero means "none".
fn millis_or_none(duration: Duration) -> u64 {
    if duration.is_zero() { 0 } else { millis(duration) }
}

impl Wire {
    pub(super) fn new(names: Names, client: String, tuning: &Tuning) -> Wire {
        // If PUBLISH counts all subscribers, a count of zero proves that there is none. In a cluster, it counts only
        // the subscribers on one node.
        let counts = if names.clustered { "0" } else { "1" };
        let gap = millis_or_none(tuning.poll_gap);
        let every = u64::try_from(tuning.poll_gap_interval.as_micros()).unwrap_or(u64::MAX);
        let settings = format!("{counts} {gap} {every} {}", names.channel(Tag::none(), ""));
        let queue_entry_ttl = millis(tuning.queue_entry_ttl);
        Wire { names, client, queue_entry_ttl, counts, settings, pushes_by_slot: AtomicBool::new(false) }
    }

    pub(super) fn push_with(&self, command: PushCommand) {
        self.pushes_by_slot.store(command == PushCommand::Spublish, Ordering::Relaxed);
    }

    pub(super) fn pushes_by_slot(&self) -> bool {
        self.pushes_by_slot.load(Ordering::Relaxed)
    }

    /// The tag of the channels on which pushes about `key` are made.
    fn push_tag(&self, key: &str) -> Tag {
        if self.pushes_by_slot() { Tag::of_slot(self.names.slot(key)) } else { Tag::none() }
    }

    /// The channel on which this client receives grants.
    pub(super) fn channel(&self) -> String {
        self.names.channel(Tag::none(), &self.client).to_string()
    }

    /// The channel on which this client receives pushes about the locks of `slot` from the node that serves it.
    pub(super) fn channel_in(&self, slot: u16) -> String {
        self.names.channel(Tag::of_slot(slot), &self.client).to_string()
    }

    /// `SET NX GET`: replies with the holder in the same round trip, on servers from 7.0.
    pub(super) fn set(&self, key: &str, op: &op::TryAcquire) -> Cmd {
        let lock = self.names.lock(key);
        let mut cmd = spare::command(7, 64 + lock.len() + self.client.len());
        cmd.arg("SET");
        lock.add_to(&mut cmd);
        self.token(&mut cmd, op.token);
        cmd.arg("NX").arg("GET").arg("PX").arg(millis(op.ttl));
        cmd
    }

    /// Releases a lock that no request waits for.
    pub(super) fn leave_alone(&self, script_ref: ScriptRef, key: &str, token: Token) -> Cmd {
        let (names, tag) = (&self.names, self.names.tag(key));
        let keys = [names.lock(key), names.queue(tag, key)];
        let mut cmd = call(script_ref, &SCRIPTS.leave_alone, &keys, 32 + self.client.len());
        self.token(&mut cmd, token);
        cmd
    }

    /// `from`: how the server is named in the grants that it pushes.
    pub(super) fn leave(
        &self,
        script_ref: ScriptRef,
        key: &str,
        op: &op::Release,
        from: Option<&str>,
    ) -> Cmd {
        let mut cmd = self.on_queue(script_ref, &SCRIPTS.leave, key);
        self.token(&mut cmd, op.token);
        // Every argument costs the server time, and nearly always these say nothing.
        if op.keep_taken_for.is_some() || op.handoffs_began.is_some() || from.is_some() {
            // To the script, zero means "none".
            let handoffs_began = op.handoffs_began.map_or(0, |began| began.0);
            cmd.arg(op.keep_taken_for.map_or(0, millis_or_none)).arg(handoffs_began);
        }
        cmd.write_arg_fmt(format_args!("{}{}", self.settings, self.push_tag(key)));
        if let Some(from) = from {
            cmd.arg(from);
        }
        cmd
    }

    pub(super) fn renew(&self, script_ref: ScriptRef, key: &str, op: &op::Renew) -> Cmd {
        let room = 64 + self.client.len();
        let lock = self.names.lock(key);
        let mut cmd = if op.kind == LockKind::Exclusive {
            call(script_ref, &SCRIPTS.renew, &[lock], room)
        } else {
            let members = self.names.members(self.names.tag(key), key);
            call(script_ref, &SCRIPTS.renew_n, &[lock, members], room)
        };
        self.token(&mut cmd, op.token);
        cmd.arg(millis(op.ttl));
        cmd
    }

    pub(super) fn replace(&self, script_ref: ScriptRef, key: &str, op: &op::Replace) -> Cmd {
        let names = [self.names.lock(key), self.names.fence(self.names.tag(key))];
        let room = 64 + self.client.len() + op.holder.len();
        let mut cmd = call(script_ref, &SCRIPTS.replace, &names, room);
        self.token(&mut cmd, op.token);
        cmd.arg(millis(op.ttl)).arg(op.fences).arg(&*op.holder);
        cmd
    }

    pub(super) fn fence(&self, script_ref: ScriptRef, key: &str, op: &op::Fence) -> Cmd {
        let names = [self.names.lock(key), self.names.fence(self.names.tag(key))];
        let mut cmd = call(script_ref, &SCRIPTS.fence, &names, 96 + self.client.len());
        self.token(&mut cmd, op.token);
        cmd.arg(op.first).arg(op.count);
        cmd
    }

    /// The keys, apart from the lock, to which a waiter writes.
    pub(super) fn names_of_waiting(&self, key: &str, kind: LockKind) -> Vec<String> {
        let (names, tag) = (&self.names, self.names.tag(key));
        let members = (kind != LockKind::Exclusive).then(|| names.members(tag, key).to_string());
        [names.queue(tag, key), names.entries(tag, key)]
            .iter()
            .map(ToString::to_string)
            .chain(members)
            .collect()
    }

    pub(super) fn enter(&self, script_ref: ScriptRef, key: &str, op: &op::Acquire) -> Cmd {
        let op::Acquire { token, kind, ttl, claim, mode, fences } = *op;
        let script = if kind == LockKind::Exclusive { &SCRIPTS.enter } else { &SCRIPTS.enter_n };
        let mut cmd = self.on_queue(script_ref, script, key);
        self.token(&mut cmd, token);
        cmd.arg(millis(ttl)).arg(millis(claim)).arg(self.queue_entry_ttl).arg(fences);
        cmd.arg(match mode {
            AcquireMode::Try => "try",
            AcquireMode::Wait => "wait",
            AcquireMode::Poll => "poll",
            AcquireMode::WaitAgain => "held",
            AcquireMode::PollAgain => "heldpoll",
        });
        word(&mut cmd, kind);
        self.names.channel(self.push_tag(key), "").add_to(&mut cmd);
        cmd
    }

    /// `owner`: only if that is a holder.
    pub(super) fn force(
        &self,
        script_ref: ScriptRef,
        key: &str,
        from: Option<&str>,
        owner: Option<&str>,
    ) -> Cmd {
        let mut cmd = self.on_queue(script_ref, &SCRIPTS.force, key);
        self.names.channel(self.push_tag(key), "").add_to(&mut cmd);
        cmd.arg(self.counts).arg(from.unwrap_or_default());
        if let Some(owner) = owner {
            cmd.arg(owner);
        }
        cmd
    }

    /// A script that names the keys of one lock, as all other scripts do, and touches none.
    pub(super) fn probe(&self) -> Cmd {
        let (names, key) = (&self.names, "dl1:probe");
        let tag = names.tag(key);
        let mut cmd = redis::cmd("EVAL");
        cmd.arg("return 1").arg(2);
        names.lock(key).add_to(&mut cmd);
        names.queue(tag, key).add_to(&mut cmd);
        cmd
    }

    /// Reads a lock, who holds it, and who waits.
    pub(super) fn look(&self, script_ref: ScriptRef, key: &str) -> Cmd {
        let (names, tag) = (&self.names, self.names.tag(key));
        let keys = [names.lock(key), names.queue(tag, key), names.members(tag, key)];
        let mut cmd = call(script_ref, &SCRIPTS.look, &keys, 32);
        cmd.arg(LONGEST_VALUE).arg(LONGEST_TOKEN).arg(MOST_TOKENS);
        cmd
    }

    /// Reads a record: that with the name of `key`, or what the holder with this token has written about that lock.
    pub(super) fn read(&self, script_ref: ScriptRef, key: &str, holder: Option<&str>) -> Cmd {
        let names = &self.names;
        let name = holder.map_or_else(|| names.lock(key), |token| names.hold(names.tag(key), token));
        let mut cmd = call(script_ref, &SCRIPTS.look, &[name], 32);
        cmd.arg(LONGEST_VALUE);
        cmd
    }

    /// Looks through a part of the names on a server.
    pub(super) fn scan(&self, script_ref: ScriptRef, cursor: &str, pattern: &str) -> Cmd {
        let mut cmd = call(script_ref, &SCRIPTS.scan, &[], 64 + pattern.len());
        cmd.arg(cursor).arg(pattern).arg(NAMES_AT_ONCE).arg(self.names.lock("").len() + LONGEST_KEY);
        cmd
    }

    /// Writes who this process is.
    pub(super) fn introduce(&self, who: &Who) -> Cmd {
        let text = process_record(PROCESS_RECORD_TTL, who);
        self.set_record(self.names.process(&self.client), &text, PROCESS_RECORD_TTL)
    }

    /// Writes the part of a lease that other processes may read.
    pub(super) fn note(&self, note: &HoldNote) -> Cmd {
        let HoldNote { key, hold, ttl, value } = note;
        let token = token_text(&self.client, hold.token);
        let name = self.names.hold(self.names.tag(key), &token);
        self.set_record(name, &hold_record(*ttl, hold, value.as_deref()), *ttl)
    }

    fn set_record(&self, name: Name<'_>, text: &str, ttl: Duration) -> Cmd {
        let mut cmd = Cmd::with_capacity(5, 32 + name.len() + text.len());
        cmd.arg("SET");
        name.add_to(&mut cmd);
        cmd.arg(text).arg("PX").arg(millis(ttl));
        cmd
    }

    /// The holder of a shared or limited lock that expires last.
    pub(super) fn last_member(&self, key: &str) -> Cmd {
        let mut cmd = redis::cmd("ZREVRANGE");
        self.names.members(self.names.tag(key), key).add_to(&mut cmd);
        cmd.arg(0).arg(0);
        cmd
    }

    /// Operations `Acquire` of one kind and ttl that do not queue, as one command.
    pub(super) fn enter_all(&self, script_ref: ScriptRef, batch: &[(Arc<str>, op::Acquire)]) -> Cmd {
        let (kind, ttl) =
            batch.first().map_or((LockKind::Exclusive, Duration::ZERO), |(_, op)| (op.kind, op.ttl));
        let mut names = Vec::with_capacity(4 * batch.len());
        for (key, _) in batch {
            names.push(self.names.lock(key));
            if kind != LockKind::Exclusive {
                let tag = self.names.tag(key);
                names.push(self.names.queue(tag, key));
                names.push(self.names.entries(tag, key));
                names.push(self.names.members(tag, key));
            }
        }
        let script = if kind == LockKind::Exclusive { &SCRIPTS.enter_all } else { &SCRIPTS.enter_all_n };
        let mut cmd = call(script_ref, script, &names, 32 + batch.len() * (32 + self.client.len()));
        cmd.arg(millis(ttl));
        word(&mut cmd, kind);
        let first = batch.first().map_or("", |(key, _)| key);
        self.names.channel(self.push_tag(first), "").add_to(&mut cmd);
        for (_, op) in batch {
            self.token(&mut cmd, op.token);
        }
        cmd
    }

    fn on_queue(&self, script_ref: ScriptRef, script: &Lua, key: &str) -> Cmd {
        let (names, tag) = (&self.names, self.names.tag(key));
        let keys = [
            names.lock(key),
            names.queue(tag, key),
            names.entries(tag, key),
            names.fence(tag),
            names.members(tag, key),
        ];
        call(script_ref, script, &keys, 96 + self.client.len() + self.settings.len())
    }

    fn token(&self, cmd: &mut Cmd, token: Token) {
        with_token_text(&self.client, token, |text| {
            cmd.arg(text);
        });
    }
}

/// Adds the name of a kind for scripts. Exclusive locks have separate scripts, without a kind.
fn word(cmd: &mut Cmd, kind: LockKind) {
    match kind {
        LockKind::Exclusive => {}
        LockKind::Shared => {
            cmd.arg("s");
        }
        LockKind::Limited { max_holders: limit } => cmd.write_arg_fmt(format_args!("p:{limit}")),
    }
}

fn call(script_ref: ScriptRef, script: &Lua, keys: &[Name<'_>], room: usize) -> Cmd {
    let (verb, body) = match script_ref {
        ScriptRef::Hash => ("EVALSHA", script.hash.as_str()),
        ScriptRef::Text => ("EVAL", script.code),
    };
    let names: usize = keys.iter().map(Name::len).sum();
    let mut cmd = spare::command(16, verb.len() + body.len() + names + room);
    cmd.arg(verb).arg(body).arg(keys.len());
    for key in keys {
        key.add_to(&mut cmd);
    }
    cmd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_milliseconds_and_never_zero() {
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(Duration::from_micros(1_001)), 2);
        assert_eq!(millis(Duration::from_secs(3)), 3_000);
        assert_eq!(millis(Duration::MAX), i64::MAX as u64);
        assert_eq!(millis_or_none(Duration::ZERO), 0);
    }

    #[test]
    fn set_is_one_plain_command_on_exactly_the_users_key() {
        let wire = Wire::new(Names::new("shop:".into()), "c".into(), &Tuning::default());
        let cmd = wire.set("order:42", &op::TryAcquire { token: Token(7), ttl: Duration::from_secs(10) });
        let text = String::from_utf8(cmd.get_packed_command()).unwrap();
        let words: Vec<_> = text.split("\r\n").skip(2).step_by(2).collect();
        assert_eq!(words, ["SET", "shop:order:42", "dl1:c:7", "NX", "GET", "PX", "10000"]);
    }
}
