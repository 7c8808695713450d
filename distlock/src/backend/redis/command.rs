//! Operations as commands.

use std::time::Duration;

use redis::{Cmd, RedisWrite};

use super::super::{EnterMode, MARK, Op, Token, Tuning};
use super::names::{Name, Names};
use super::scripts::{Lua, SCRIPTS};

/// What turns operations into commands: fixed for the life of a backend.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) names: Names,
    pub(super) client: String,
    tuning: Tuning,
}

/// How a script is named to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By its hash: EVALSHA.
    Hash,
    /// By its text, which the server keeps: EVAL, for a server that does not know the hash.
    Text,
}

/// Whole milliseconds, rounded up, at least one: the server refuses zero.
fn millis(duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    millis.clamp(1, i64::MAX as u64)
}

/// Whole milliseconds where zero means "none".
fn millis_or_none(duration: Duration) -> u64 {
    if duration.is_zero() { 0 } else { millis(duration) }
}

impl Wire {
    pub(super) fn new(names: Names, client: String, tuning: Tuning) -> Wire {
        Wire { names, client, tuning }
    }

    /// Where this client listens for grants.
    pub(super) fn channel(&self) -> String {
        self.names.channel(&self.client).to_string()
    }

    /// `SET NX GET`: tells the holder in the same round trip, on servers from 7.0.
    pub(super) fn set(&self, key: &str, token: Token, ttl: Duration) -> Cmd {
        let lock = self.names.lock(key);
        let mut cmd = Cmd::with_capacity(7, 64 + lock.len() + self.client.len());
        cmd.arg("SET");
        cmd.write_arg_fmt(lock);
        self.token(&mut cmd, token);
        cmd.arg("NX").arg("GET").arg("PX").arg(millis(ttl));
        cmd
    }

    /// `op` as a call of its script; [`Op::Set`] as `enter` that does not queue.
    /// `from`: what the server is called in the grants that it pushes.
    pub(super) fn script(&self, form: Form, key: &str, op: &Op, from: Option<&str>) -> Cmd {
        match *op {
            Op::Set { token, ttl } => self.enter(form, key, token, ttl, ttl, EnterMode::Try, 0),
            Op::Enter { token, ttl, claim, mode, fences } => {
                self.enter(form, key, token, ttl, claim, mode, fences)
            }
            Op::Leave { token, hold, since } => {
                let mut cmd = self.on_queue(form, &SCRIPTS.leave, key);
                self.token(&mut cmd, token);
                cmd.arg(hold.map_or(0, millis_or_none));
                cmd.write_arg_fmt(self.names.channel(""));
                cmd.arg(self.counts());
                cmd.arg(millis_or_none(self.tuning.gap));
                cmd.arg(u64::try_from(self.tuning.every.as_micros()).unwrap_or(u64::MAX));
                cmd.arg(since.0);
                cmd.arg(from.unwrap_or_default());
                cmd
            }
            Op::Renew { token, ttl } => {
                let mut cmd = call(form, &SCRIPTS.renew, &[self.names.lock(key)], 64 + self.client.len());
                self.token(&mut cmd, token);
                cmd.arg(millis(ttl));
                cmd
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "they are the script's own")]
    fn enter(
        &self,
        form: Form,
        key: &str,
        token: Token,
        ttl: Duration,
        claim: Duration,
        mode: EnterMode,
        fences: u32,
    ) -> Cmd {
        let mut cmd = self.on_queue(form, &SCRIPTS.enter, key);
        self.token(&mut cmd, token);
        cmd.arg(millis(ttl)).arg(millis(claim)).arg(millis(self.tuning.keep)).arg(fences);
        cmd.arg(match mode {
            EnterMode::Try => "try",
            EnterMode::Wait => "wait",
            EnterMode::Poll => "poll",
            EnterMode::WaitAgain => "held",
            EnterMode::PollAgain => "heldpoll",
        });
        cmd
    }

    pub(super) fn force(&self, form: Form, key: &str, from: Option<&str>) -> Cmd {
        let mut cmd = self.on_queue(form, &SCRIPTS.force, key);
        cmd.write_arg_fmt(self.names.channel(""));
        cmd.arg(self.counts());
        cmd.arg(from.unwrap_or_default());
        cmd
    }

    /// Where PUBLISH counts all subscribers, a count of zero means that nobody listens. In a cluster it counts
    /// those of one node.
    fn counts(&self) -> &'static str {
        if self.names.is_clustered() { "0" } else { "1" }
    }

    /// Holder, time to live, length of the queue.
    pub(super) fn inspect(&self, key: &str) -> [Cmd; 3] {
        let (names, tag) = (&self.names, self.names.tag(key));
        [("GET", names.lock(key)), ("PTTL", names.lock(key)), ("LLEN", names.queue(tag, key))].map(
            |(verb, name)| {
                let mut cmd = redis::cmd(verb);
                cmd.write_arg_fmt(name);
                cmd
            },
        )
    }

    /// The hash of the script that carries out `op`.
    pub(super) fn script_of(op: &Op) -> &'static str {
        match op {
            Op::Set { .. } | Op::Enter { .. } => &SCRIPTS.enter.hash,
            Op::Leave { .. } => &SCRIPTS.leave.hash,
            Op::Renew { .. } => &SCRIPTS.renew.hash,
        }
    }

    fn on_queue(&self, form: Form, script: &Lua, key: &str) -> Cmd {
        let (names, tag) = (&self.names, self.names.tag(key));
        let keys = [names.lock(key), names.queue(tag, key), names.entries(tag, key), names.fence(tag)];
        call(form, script, &keys, 96 + self.client.len() + names.channel("").len())
    }

    fn token(&self, cmd: &mut Cmd, token: Token) {
        cmd.write_arg_fmt(format_args!("{MARK}{}:{}", self.client, token.0));
    }
}

fn call(form: Form, script: &Lua, keys: &[Name<'_>], room: usize) -> Cmd {
    let (verb, body) = match form {
        Form::Hash => ("EVALSHA", script.hash.as_str()),
        Form::Text => ("EVAL", script.code),
    };
    let names: usize = keys.iter().map(Name::len).sum();
    let mut cmd = Cmd::with_capacity(16, verb.len() + body.len() + names + room);
    cmd.arg(verb).arg(body).arg(keys.len());
    for key in keys {
        cmd.write_arg_fmt(key);
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
        let wire = Wire::new(Names::new("shop:".into()), "c".into(), Tuning::default());
        let cmd = wire.set("order:42", Token(7), Duration::from_secs(10));
        let text = String::from_utf8(cmd.get_packed_command()).unwrap();
        let words: Vec<_> = text.split("\r\n").skip(2).step_by(2).collect();
        assert_eq!(words, ["SET", "shop:order:42", "dl1:c:7", "NX", "GET", "PX", "10000"]);
    }
}
