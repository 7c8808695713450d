//! The two sides: a real server with a few processes connected, and the model.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Connection, FromRedisValue};

use super::Deed;
use crate::backend::memory::server::{ModelServer, News, Note, Sender};
use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_operations::{AnyOp, AnyReply};
use crate::backend::redis::test_server::{Rig, Seen, TestServer, block_on};
use crate::backend::{
    AcquireReply, Backend, BatchReply, LockKind, Notifications, Push, Remaining, RenewReply, ServerTime,
    Token, Tuning, kind_of, parse_owner,
};

/// The last of them has no subscription for its pushes.
pub(super) const CLIENTS: [&str; 4] = ["a", "b", "c", "deaf"];

/// The counter of fencing tokens begins ahead of every clock, so tokens do not depend on the time.
pub(super) const FIRST_FENCE: u64 = 4_000_000_000_000_000;

/// The times of both sides are equal if they differ by at most this many microseconds.
const TOLERANCE: u64 = 8_000_000;

/// The client and the number in a token's text.
pub(super) fn token_in(text: &str) -> Option<(usize, Token)> {
    let (client, token) = parse_owner(text)?;
    Some((CLIENTS.iter().position(|name| *name == client)?, token))
}

/// A holder: its text, and when its lease ends.
type Lease = (String, u64);
/// A waiter: token, claim in milliseconds, fences, `w` if it receives pushes, kind.
type Waiting = (String, u64, u32, bool, String);

pub(super) struct Sides {
    #[expect(dead_code, reason = "it lives as long as this")]
    server: TestServer,
    connection: Connection,
    rigs: Vec<Rig>,
    tuning: Tuning,
    model: ModelServer,
    /// Pushes to each client in this run.
    pushes: [usize; CLIENTS.len()],
    /// The same at its beginning.
    before: [usize; CLIENTS.len()],
    seed: u64,
    log: Vec<String>,
}

impl Sides {
    pub(super) fn start() -> Sides {
        let server = TestServer::start(&[]);
        let tuning = Tuning { queue_entry_ttl: Duration::from_secs(100), ..Tuning::default() };
        let mut connection = server.connection();
        let words = ["ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe"];
        let _: () = redis::Cmd::new().arg(&words).query(&mut connection).unwrap();
        let rig = |client: &&str| {
            let url = match *client {
                "deaf" => format!("redis://deaf:pw@127.0.0.1:{}/", server.port),
                _ => server.url(),
            };
            let config = RedisConfig::new(&url, client).unwrap();
            let rig = Rig::start(RedisConfig { tuning: tuning.clone(), ..config });
            if *client == "deaf" {
                assert_eq!(rig.wait_until_up().1, Notifications::Off);
            } else {
                rig.wait_until_pushed();
            }
            rig
        };
        let rigs: Vec<Rig> = CLIENTS.iter().map(rig).collect();
        let model = ModelServer::new(tuning.clone());
        let (pushes, before) = ([0; CLIENTS.len()], [0; CLIENTS.len()]);
        Sides { server, connection, rigs, tuning, model, pushes, before, seed: 0, log: Vec::new() }
    }

    /// Both sides are empty.
    pub(super) fn begin(&mut self, seed: u64) {
        self.run::<()>(&["FLUSHALL"]);
        self.run::<()>(&["SET", "dl1:f", &FIRST_FENCE.to_string()]);
        self.model = ModelServer::new(self.tuning.clone());
        self.model.raise_fence(FIRST_FENCE);
        for client in CLIENTS.iter().filter(|client| **client != "deaf") {
            self.model.subscribe(&Arc::from(*client));
        }
        self.before = std::array::from_fn(|client| self.pushes_seen(client));
        self.pushes = [0; CLIENTS.len()];
        self.seed = seed;
        self.log.clear();
    }

    /// Checks that there were no pushes that the model does not have.
    pub(super) fn end(&mut self) {
        for (client, name) in CLIENTS.iter().enumerate() {
            let count = self.pushes_seen(client) - self.before[client];
            let expected = self.pushes[client];
            self.same(&format!("the number of pushes to {name}"), &count, &expected);
        }
    }

    fn pushes_seen(&self, client: usize) -> usize {
        self.rigs[client].seen().iter().filter(|seen| matches!(seen, Seen::Push(_))).count()
    }

    fn same<T: std::fmt::Debug + PartialEq>(&self, what: &str, real: &T, model: &T) {
        assert!(
            real == model,
            "seed {}: {what}\nreal:  {real:?}\nmodel: {model:?}\n{}",
            self.seed,
            self.log.join("\n")
        );
    }

    pub(super) fn run<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::Cmd::new().arg(words).query(&mut self.connection).unwrap()
    }

    pub(super) fn now(&mut self) -> ServerTime {
        let (seconds, micros): (u64, u64) = self.run(&["TIME"]);
        ServerTime(seconds * 1_000_000 + micros)
    }

    /// The holder and the waiters of the key in the model.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let (server_time, key) = (ServerTime(0), Arc::from(key));
        let holders = self.model.leases(server_time, &key).into_iter().map(|(text, ..)| text.to_string());
        let queue = self.model.queue(server_time, &key);
        let queue = queue.iter().map(|entry| crate::backend::token_text(&entry.client, entry.token));
        holders.chain(queue).collect()
    }

    /// Does it on both sides, and compares everything.
    pub(super) fn both(&mut self, deed: Deed) {
        self.log.push(format!("{deed:?}"));
        let server_time = self.now();
        let mut notes = Vec::new();
        match deed {
            Deed::Send { client, key, op } => {
                let real = self.rigs[client].send(key, op);
                let (client, key) = (CLIENTS[client].into(), key.into());
                let from = Sender { client: &client, key: &key };
                let model = match op {
                    AnyOp::Ask(op) => {
                        AnyReply::Acquire(self.model.acquire(server_time, &from, &op, &mut notes))
                    }
                    AnyOp::Release(op) => {
                        AnyReply::Release(self.model.release(server_time, &from, &op, &mut notes))
                    }
                    AnyOp::Renew(op) => AnyReply::Renew(self.model.renew(server_time, &from, &op)),
                    AnyOp::Fence(op) => AnyReply::Fence(self.model.fence(server_time, &from, &op)),
                };
                self.log.push(format!("    {real:?}"));
                self.same_reply(&real.map_err(|error| error.to_string()), &Ok(model));
            }
            Deed::Replace { client, key, op } => {
                let real = self.rigs[client].send(key, op.clone());
                let from = Sender { client: &CLIENTS[client].into(), key: &key.into() };
                let model = self.model.replace(server_time, &from, &op);
                self.log.push(format!("    {real:?}"));
                let real = real.map(AnyReply::Acquire).map_err(|error| error.to_string());
                self.same_reply(&real, &Ok(AnyReply::Acquire(model)));
            }
            Deed::Together { client, batch } => {
                let real = block_on(self.rigs[client].backend.send_acquire_all(batch.clone()));
                let model = self.model.acquire_all(server_time, &CLIENTS[client].into(), &batch, &mut notes);
                self.log.push(format!("    {real:?}"));
                for (real, model) in real.into_iter().zip(model) {
                    match (real, model) {
                        (Ok(BatchReply::Tried(real)), BatchReply::Tried(model)) => {
                            self.same_reply(&Ok(AnyReply::Acquire(real)), &Ok(AnyReply::Acquire(model)));
                        }
                        (real, model) => {
                            self.same("the reply", &real.map_err(|error| error.to_string()), &Ok(model));
                        }
                    }
                }
            }
            Deed::ForceRelease { client, key, owner } => {
                let (key, backend) = (Arc::from(key), &self.rigs[client].backend);
                let (real, model) = match owner {
                    None => (
                        block_on(backend.force_release(&key)),
                        self.model.force_release(server_time, &key, &mut notes),
                    ),
                    Some(owner) => (
                        block_on(backend.force_release_from(&key, &owner)),
                        self.model.force_release_from(server_time, &key, &owner, &mut notes),
                    ),
                };
                let real = real.unwrap();
                self.same("whether there was a lock", &real, &model);
            }
            other => self.expire(server_time, other),
        }
        self.same_pushes(notes);
        for key in ["e", "p", "s", "t"] {
            self.same_state(key);
        }
        self.same_fence();
    }

    fn expire(&mut self, server_time: ServerTime, deed: Deed) {
        match deed {
            Deed::SetPlainly { key, ttl } => {
                let millis = ttl.as_millis().to_string();
                let real: Option<String> = self.run(&["SET", key, "py:1", "NX", "PX", &millis]);
                let model = self.model.set_plainly(server_time, &key.into(), "py:1", ttl);
                self.same("whether the key was free", &real.is_some(), &model);
            }
            Deed::LoseValue { key, whole } => {
                let members = format!("dl1:m:{key}");
                let words = ["DEL", key, &members];
                self.run::<()>(&words[..if whole { 3 } else { 2 }]);
                self.model.delete_key(server_time, &key.into());
            }
            Deed::ExpireMember { key } => {
                let value: Option<String> = self.run(&["GET", key]);
                let (members, past) = (format!("dl1:m:{key}"), (server_time.0 - 1_000_000).to_string());
                let alive = self.real_members(key, value.as_deref(), server_time);
                if let Some((text, _)) = alive.iter().min_by_key(|(_, until)| *until) {
                    self.run::<()>(&["ZADD", &members, "XX", &past, text]);
                    self.model.expire_member(server_time, &key.into(), text);
                }
                if alive.len() == 1 {
                    // The marker expires with the last of them.
                    self.run::<()>(&["DEL", key, &members]);
                }
            }
            Deed::ExpireEntry { key, client, token } => {
                let (entries, text) = (format!("dl1:e:{key}"), format!("dl1:{client}:{token}"));
                let entry: Option<String> = self.run(&["HGET", &entries, &text]);
                if let Some((_, rest)) = entry.as_deref().and_then(|entry| entry.split_once(' ')) {
                    self.run::<()>(&[
                        "HSET",
                        &entries,
                        &text,
                        &format!("{} {rest}", server_time.0 - 1_000_000),
                    ]);
                }
                self.model.expire_entry(server_time, &key.into(), &client, token);
            }
            Deed::LoseQueue { key, entries } => {
                let words = ["DEL", &format!("dl1:q:{key}"), &format!("dl1:e:{key}")];
                self.run::<()>(&words[..if entries { 3 } else { 2 }]);
                self.model.lose_queue(&key.into());
            }
            Deed::Send { .. } | Deed::Together { .. } | Deed::Replace { .. } | Deed::ForceRelease { .. } => {}
        }
    }

    fn same_reply(&self, real: &Result<AnyReply, String>, model: &Result<AnyReply, String>) {
        let same = match (real, model) {
            (Ok(AnyReply::Acquire(real)), Ok(AnyReply::Acquire(model))) => same_acquire_reply(real, model),
            (
                Ok(AnyReply::Renew(RenewReply::Renewed { server_time })),
                Ok(AnyReply::Renew(RenewReply::Renewed { server_time: other })),
            ) => near(Some(*server_time), Some(*other)),
            (real, model) => real == model,
        };
        if !same {
            self.same("the reply", real, model);
        }
    }

    fn same_pushes(&mut self, notes: Vec<Note>) {
        for note in notes {
            let index = CLIENTS.iter().position(|name| **name == *note.client).unwrap();
            if note.news == News::Wanted && &*note.client == "deaf" {
                continue;
            }
            self.pushes[index] += 1;
            let real = self.rigs[index].wait_for_push();
            let model = note.push();
            let same = match (&real, &model) {
                (
                    Push::Grant { key, token, server_time, handoffs_began, fence },
                    Push::Grant {
                        key: name,
                        token: number,
                        server_time: at,
                        handoffs_began: from,
                        fence: first,
                    },
                ) => {
                    (key, token, fence) == (name, number, first)
                        && server_time.0.abs_diff(at.0) < TOLERANCE
                        && handoffs_began.0.abs_diff(from.0) < TOLERANCE
                }
                (real, model) => real == model,
            };
            if !same {
                self.same("the push", &real, &model);
            }
        }
    }

    fn same_fence(&mut self) {
        let real: u64 = self.run(&["GET", "dl1:f"]);
        self.same("the counter of fencing tokens", &real, &self.model.fence_counter());
    }

    fn same_state(&mut self, key: &'static str) {
        let server_time = self.now();
        let name: Arc<str> = key.into();
        let value: Option<String> = self.run(&["GET", key]);
        let model = self.model.value(server_time, &name);
        self.same(&format!("the value of {key}"), &value, &model.as_ref().map(|(text, _)| text.to_string()));
        for part in ["q", "e", "m"] {
            let left: i64 = self.run(&["PTTL", &format!("dl1:{part}:{key}")]);
            self.same(&format!("whether dl1:{part}:{key} expires"), &(left != -1), &true);
        }
        let left: i64 = self.run(&["PTTL", key]);
        let ends = model.map_or(0, |(_, until)| until.0);
        let real_ends = if left < 0 { 0 } else { server_time.0 + left.unsigned_abs() * 1_000 };
        let near = ends.abs_diff(real_ends) < TOLERANCE;
        self.same(&format!("when {key} expires: {real_ends} and {ends}"), &near, &true);
        let real = self.real_members(key, value.as_deref(), server_time);
        let mut model: Vec<Lease> = Vec::new();
        if value.is_some_and(|value| kind_of(&value) != LockKind::Exclusive) {
            model.extend(
                self.model
                    .leases(server_time, &name)
                    .into_iter()
                    .map(|(text, _, until)| (text.to_string(), until.0)),
            );
        }
        model.sort();
        let texts = |leases: &[Lease]| leases.iter().map(|lease| lease.0.clone()).collect::<Vec<_>>();
        self.same(&format!("who holds {key}"), &texts(&real), &texts(&model));
        let near = real.iter().zip(&model).all(|(real, model)| real.1.abs_diff(model.1) < TOLERANCE);
        self.same(&format!("until when {key} is held: {real:?} and {model:?}"), &near, &true);
        let real = self.real_queue(key, server_time);
        let model: Vec<Waiting> = self.model.entries(server_time, &name);
        self.same(&format!("who waits for {key}"), &real, &model);
    }

    fn real_members(&mut self, key: &str, value: Option<&str>, server_time: ServerTime) -> Vec<Lease> {
        if value.is_none_or(|value| kind_of(value) == LockKind::Exclusive) {
            return Vec::new();
        }
        let all: Vec<(String, u64)> = self.run(&["ZRANGE", &format!("dl1:m:{key}"), "0", "-1", "WITHSCORES"]);
        let mut alive: Vec<Lease> = all.into_iter().filter(|(_, until)| *until > server_time.0).collect();
        alive.sort();
        alive
    }

    fn real_queue(&mut self, key: &str, server_time: ServerTime) -> Vec<Waiting> {
        let queue: Vec<String> = self.run(&["LRANGE", &format!("dl1:q:{key}"), "0", "-1"]);
        let entries: HashMap<String, String> = self.run(&["HGETALL", &format!("dl1:e:{key}")]);
        let waiting = |token: String| {
            let entry: Vec<&str> = entries.get(&token)?.split(' ').collect();
            let [until, claim, fences, how, kind] = entry[..] else { return None };
            let alive = until.parse::<u64>().ok()? > server_time.0;
            alive.then_some((token, claim.parse().ok()?, fences.parse().ok()?, how == "w", kind.to_owned()))
        };
        queue.into_iter().filter_map(waiting).collect()
    }
}

fn near(a: Option<ServerTime>, b: Option<ServerTime>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.0.abs_diff(b.0) < TOLERANCE,
        (a, b) => a == b,
    }
}

fn same_acquire_reply(real: &AcquireReply, model: &AcquireReply) -> bool {
    match (real, model) {
        (
            AcquireReply::Acquired { server_time, fence },
            AcquireReply::Acquired { server_time: other, fence: same },
        )
        | (
            AcquireReply::AlreadyHeld { server_time, fence },
            AcquireReply::AlreadyHeld { server_time: other, fence: same },
        ) => near(*server_time, *other) && fence == same,
        (
            AcquireReply::Busy { server_time, holder, remaining, front },
            AcquireReply::Busy { server_time: other, holder: name, remaining: left, front: first },
        ) => {
            near(*server_time, *other)
                && holder == name
                && front == first
                && same_remaining(*remaining, *left)
        }
        (real, model) => real == model,
    }
}

fn same_remaining(real: Remaining, model: Remaining) -> bool {
    match (real, model) {
        (Remaining::For(real), Remaining::For(model)) => {
            real.abs_diff(model) < Duration::from_micros(TOLERANCE)
        }
        (real, model) => real == model,
    }
}
