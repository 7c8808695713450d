//! Executes operations over a link and interprets the replies.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redis::{Arg, Cmd, Pipeline, ServerError, Value};

use super::command::{ScriptRef, Wire};
use super::handshake::ServerInfo;
use super::link::Link;
use super::operation::{Again, Encode, Encoding, Operation};
use super::{errors, reply};
use crate::backend::fail_all::fail_all;
use crate::backend::{AcquireReply, BatchReply, CurrentHolder, Failure, OpResult, StoreError, op};
use distlock_store::kit::contended::Contended;

/// Batches are cut into pieces of this many commands, so that other commands get in between.
pub(super) const MAX_COMMANDS_AT_ONCE: usize = 500;

/// A shorter script, by its text, then the script, by its text.
const MAX_ENCODINGS_TRIED: usize = 3;

/// The maximum number of locks that one command may acquire, because the server does nothing else meanwhile.
pub(super) const MOST_KEYS_AT_ONCE: usize = 100;

/// Executes the operations of one server.
#[derive(Debug)]
pub(super) struct Exec {
    pub(super) wire: Arc<Wire>,
    /// Whether the server knows `SET NX GET`, which is a syntax error before 7.0.
    set_get: AtomicBool,
    /// Whether one command may name keys that lie anywhere on the server.
    whole: AtomicBool,
    /// Locks for which others were found to wait.
    awaited: Contended,
    /// The reason why the server no longer runs scripts for this client, after a change of the permissions. Without
    /// scripts, a lock could be acquired, but not released.
    refusal: RwLock<Option<StoreError>>,
    is_refused: AtomicBool,
    /// If there are several servers: how this one is named in the grants that it pushes.
    from: RwLock<Option<Arc<str>>>,
}

impl Exec {
    pub(super) fn new(wire: Arc<Wire>) -> Exec {
        Exec {
            wire,
            set_get: AtomicBool::new(true),
            whole: AtomicBool::new(false),
            awaited: Contended::default(),
            refusal: RwLock::new(None),
            is_refused: AtomicBool::new(false),
            from: RwLock::new(None),
        }
    }

    /// Takes in what the handshake has learned about the server.
    pub(super) fn handshake_done(&self, server: &ServerInfo) {
        self.set_get.store(server.major.is_none_or(|major| major >= 7), Ordering::Relaxed);
        self.whole.store(server.is_whole, Ordering::Relaxed);
    }

    /// How many locks one command may acquire. A proxy that spreads keys over several servers routes by the first key
    /// only. The other locks would be on a server where no other client looks for them.
    pub(super) fn most_keys_at_once(&self) -> usize {
        if self.whole.load(Ordering::Relaxed) { MOST_KEYS_AT_ONCE } else { 1 }
    }

    pub(super) fn call_it(&self, name: Option<Arc<str>>) {
        *self.from.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub(super) fn name(&self) -> Option<Arc<str>> {
        self.from.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn script(&self, script_ref: ScriptRef, key: &str, op: &dyn Encode) -> Cmd {
        op.script(&self.wire, script_ref, key, self.name().as_deref())
    }

    pub(super) fn force_cmd(&self, script_ref: ScriptRef, key: &str, owner: Option<&str>) -> Cmd {
        self.wire.force(script_ref, key, self.name().as_deref(), owner)
    }

    /// A single operation, in its shortest form.
    pub(super) fn encode_alone(&self, key: &str, op: &dyn Encode) -> (Cmd, Encoding) {
        let short = if self.awaited.is(key) { None } else { op.short(&self.wire, ScriptRef::Hash, key) };
        short.map_or_else(|| self.encode(key, op), |cmd| (cmd, Encoding::Short))
    }

    /// The reason why the server runs no scripts for this client, if a reply has shown it.
    pub(super) fn refusal(&self) -> Option<StoreError> {
        self.refusal.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A script was run, or was not permitted.
    fn scripts_are(&self, refused: Option<StoreError>) {
        let is_refused = refused.is_some();
        if is_refused || self.is_refused.load(Ordering::Relaxed) {
            *self.refusal.write().unwrap_or_else(PoisonError::into_inner) = refused;
            self.is_refused.store(is_refused, Ordering::Relaxed);
        }
    }

    pub(super) fn encode(&self, key: &str, op: &dyn Encode) -> (Cmd, Encoding) {
        let may_be_native = self.set_get.load(Ordering::Relaxed) && !self.is_refused.load(Ordering::Relaxed);
        let native = if may_be_native { op.native(&self.wire, key) } else { None };
        match native {
            Some(cmd) => (cmd, Encoding::Native),
            None => (self.script(ScriptRef::Hash, key, op), Encoding::Script),
        }
    }

    pub(super) async fn carry_out<O: Operation>(
        self: Arc<Self>,
        link: Arc<Link>,
        key: Arc<str>,
        op: O,
        (cmd, encoding): (Cmd, Encoding),
    ) -> OpResult<O::Reply> {
        match link.request(cmd).await {
            Ok(value) => match self.again(&key, &value, encoding) {
                None => self.decode(&link, &key, &op, encoding, value),
                // Boxed, because it is rare and would double the size of every operation.
                Some(again) => Box::pin(self.resend(&link, &key, &op, again)).await,
            },
            Err(error) => Err(broken(&link, error)),
        }
    }

    /// Requests a lock. The reply names a holder, whatever kind of lock the key has.
    pub(super) async fn acquire(
        self: Arc<Self>,
        link: Arc<Link>,
        key: Arc<str>,
        op: op::Ask,
        encoded: (Cmd, Encoding),
    ) -> OpResult<AcquireReply> {
        let reply = Arc::clone(&self).carry_out(Arc::clone(&link), Arc::clone(&key), op, encoded).await?;
        Ok(if reply.names_a_marker() { Box::pin(self.named(&link, &key, reply)).await } else { reply })
    }

    /// If a reply has only the marker of a shared or limited lock, replaces the marker by a holder's token.
    pub(super) async fn named(&self, link: &Link, key: &str, reply: AcquireReply) -> AcquireReply {
        let AcquireReply::Busy { server_time, holder, remaining, front } = reply else { return reply };
        let found = link.request(self.wire.last_member(key)).await;
        let member = found.ok().as_ref().and_then(reply::of_last_member);
        let holder = member.map_or(holder, CurrentHolder::from);
        AcquireReply::Busy { server_time, holder, remaining, front }
    }

    /// Requests a lock, with the server's time in the reply. This is the cheapest way to get that time.
    pub(super) async fn set_with_time(
        self: Arc<Self>,
        link: Arc<Link>,
        key: Arc<str>,
        op: op::TryAcquire,
    ) -> OpResult<AcquireReply> {
        let op = op::Ask::Plain(op);
        let (cmd, encoding) = self.encode(&key, op.encoder());
        let mut answers = ask_all(&link, vec![cmd, redis::cmd("TIME")]).await?;
        let time = answers.pop().as_ref().and_then(reply::of_time);
        let Some(answer) = answers.pop() else { return Err(garbled(&link)) };
        let mut reply = match self.again(&key, &answer, encoding) {
            None => self.decode(&link, &key, &op, encoding, answer)?,
            Some(again) => Box::pin(self.resend(&link, &key, &op, again)).await?,
        };
        if let AcquireReply::Acquired { server_time, .. }
        | AcquireReply::AlreadyHeld { server_time, .. }
        | AcquireReply::Busy { server_time, .. } = &mut reply
        {
            *server_time = server_time.or(time);
        }
        Ok(reply)
    }

    /// Sends an operation again, in other forms, until the server knows one.
    async fn resend<O: Operation>(
        &self,
        link: &Link,
        key: &str,
        op: &O,
        mut again: Again,
    ) -> OpResult<O::Reply> {
        for _ in 0..MAX_ENCODINGS_TRIED {
            let (cmd, encoding) = self.encode_again(key, op.encoder(), again);
            let value = ask(link, cmd).await?;
            match self.again(key, &value, encoding) {
                None => return self.decode(link, key, op, encoding, value),
                Some(next) => again = next,
            }
        }
        Err(garbled(link))
    }

    pub(super) fn encode_again(&self, key: &str, op: &dyn Encode, again: Again) -> (Cmd, Encoding) {
        let script_ref = match again {
            Again::Script(script_ref) => script_ref,
            Again::Short => match op.short(&self.wire, ScriptRef::Text, key) {
                Some(cmd) => return (cmd, Encoding::Short),
                None => ScriptRef::Hash,
            },
        };
        (self.script(script_ref, key, op), Encoding::Script)
    }

    /// If the server has certainly not executed the command, and knows another form of it: that form.
    ///
    /// A command that is sent a second time has lost its place in the order: a `leave` may overtake the `enter` that it
    /// undoes. The engine corrects this, because it also answers a late reply for an unused token with a `leave`. It is
    /// rare: it needs a lock that others have begun to wait for, and a SCRIPT FLUSH, because scripts are loaded before
    /// a link is used.
    pub(super) fn again(&self, key: &str, value: &Value, encoding: Encoding) -> Option<Again> {
        match (encoding, value) {
            (Encoding::Short, Value::Nil) => {
                self.awaited.noted(key);
                Some(Again::Script(ScriptRef::Hash))
            }
            (Encoding::Short, value) => is_unknown_script(value).then_some(Again::Short),
            (Encoding::Script, value) => is_unknown_script(value).then_some(Again::Script(ScriptRef::Text)),
            (Encoding::Native, Value::ServerError(error)) => {
                let unknown = error.details().is_some_and(|details| details.contains("syntax error"));
                if unknown {
                    self.set_get.store(false, Ordering::Relaxed);
                }
                unknown.then_some(Again::Script(ScriptRef::Text))
            }
            (Encoding::Native, _) => None,
        }
    }

    pub(super) fn decode<O: Operation>(
        &self,
        link: &Link,
        key: &str,
        op: &O,
        encoding: Encoding,
        value: Value,
    ) -> OpResult<O::Reply> {
        let value = match value {
            Value::ServerError(error) => {
                let is_read = encoding == Encoding::Native && error.code() == "WRONGTYPE";
                if !is_read {
                    return Err(self.refused(link, key, op.encoder(), encoding, error));
                }
                Value::ServerError(error)
            }
            value => value,
        };
        if encoding != Encoding::Native {
            self.scripts_are(None);
        }
        op.read(&self.wire.client, encoding, &value).map_err(|reply::Garbled| garbled(link))
    }

    /// An error reply to an operation.
    fn refused(
        &self,
        link: &Link,
        key: &str,
        op: &dyn Encode,
        encoding: Encoding,
        error: ServerError,
    ) -> StoreError {
        if encoding != Encoding::Native && errors::forbids_scripts(&error) {
            self.scripts_are(Some(errors::replied(error.clone())));
        }
        match op.queues_for().filter(|_| encoding == Encoding::Script) {
            // The script has checked the lock itself before, so another key is the cause.
            Some(kind) if errors::is_wrong_type(&error) => {
                errors::foreign_value(&self.wire.names_of_waiting(key, kind), error)
            }
            _ => failed(link, error),
        }
    }

    pub(super) async fn batch<O: Operation>(
        self: Arc<Self>,
        link: Arc<Link>,
        batch: Vec<(Arc<str>, O)>,
    ) -> Vec<OpResult<O::Reply>> {
        let mut results = Vec::with_capacity(batch.len());
        for piece in batch.chunks(MAX_COMMANDS_AT_ONCE) {
            if link.liveness.has_ended() {
                let lost = errors::found(Failure::NotSent, "the connection broke before this was sent");
                results.extend(fail_all(piece.len(), &lost));
                continue;
            }
            match self.piece(&link, piece).await {
                Ok(values) => results.extend(
                    piece
                        .iter()
                        .zip(values)
                        .map(|((key, op), (encoding, value))| self.decode(&link, key, op, encoding, value)),
                ),
                Err(error) => results.extend(fail_all(piece.len(), &error)),
            }
        }
        results
    }

    async fn piece<O: Operation>(
        &self,
        link: &Link,
        piece: &[(Arc<str>, O)],
    ) -> Result<Vec<(Encoding, Value)>, StoreError> {
        let (cmds, encodings): (Vec<Cmd>, Vec<Encoding>) =
            piece.iter().map(|(key, op)| self.encode(key, op.encoder())).unzip();
        let values = ask_all(link, cmds).await?;
        let mut answers: Vec<_> = encodings.into_iter().zip(values).collect();
        let again: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(at, (encoding, value))| {
                piece.get(*at).is_some_and(|(key, _)| self.again(key, value, *encoding).is_some())
            })
            .map(|(at, _)| at)
            .collect();
        if again.is_empty() {
            return Ok(answers);
        }
        // The first text of a script loads it on the server for the rest of the pipeline.
        let mut loaded = HashSet::new();
        let cmds = again.iter().filter_map(|at| piece.get(*at)).map(|(key, op)| {
            let by_hash = self.script(ScriptRef::Hash, key, op.encoder());
            if loaded.insert(hash_in(&by_hash)) {
                self.script(ScriptRef::Text, key, op.encoder())
            } else {
                by_hash
            }
        });
        let values = ask_all(link, cmds.collect()).await?;
        for (at, value) in again.into_iter().zip(values) {
            if let Some(answer) = answers.get_mut(at) {
                *answer = (Encoding::Script, value);
            }
        }
        Ok(answers)
    }

    /// Several locks by one command.
    pub(super) async fn acquires_all(
        self: Arc<Self>,
        link: Arc<Link>,
        batch: Vec<(Arc<str>, op::Acquire)>,
    ) -> Vec<OpResult<BatchReply>> {
        match self.ask_acquire_all(&link, &batch).await {
            Ok(replies) => self.all_named(&link, &batch, replies).await.into_iter().map(Ok).collect(),
            Err(error) => fail_all(batch.len(), &error),
        }
    }

    /// As [`named`](Exec::named): at most one of the replies names another holder.
    pub(super) async fn all_named(
        &self,
        link: &Link,
        batch: &[(Arc<str>, op::Acquire)],
        mut replies: Vec<BatchReply>,
    ) -> Vec<BatchReply> {
        for ((key, _), reply) in batch.iter().zip(&mut replies) {
            if let BatchReply::Tried(tried) = reply
                && tried.names_a_marker()
            {
                *tried = self.named(link, key, tried.clone()).await;
            }
        }
        replies
    }

    async fn ask_acquire_all(
        &self,
        link: &Link,
        batch: &[(Arc<str>, op::Acquire)],
    ) -> OpResult<Vec<BatchReply>> {
        let value = self.run(link, |script_ref| self.wire.enter_all(script_ref, batch)).await?;
        self.decode_acquire_all(link, batch, &value)
    }

    pub(super) fn decode_acquire_all(
        &self,
        link: &Link,
        batch: &[(Arc<str>, op::Acquire)],
        value: &Value,
    ) -> OpResult<Vec<BatchReply>> {
        match value {
            Value::ServerError(error) => Err(failed(link, error.clone())),
            value => {
                reply::of_enter_all(&self.wire.client, batch, value).map_err(|reply::Garbled| garbled(link))
            }
        }
    }

    /// Looks through a part of the names on this server: where the next part begins (`0`: there is none), and the
    /// names.
    pub(super) async fn scan(
        &self,
        link: &Link,
        cursor: &str,
        pattern: &str,
    ) -> Result<(String, Vec<String>), StoreError> {
        match self.run(link, |script_ref| self.wire.scan(script_ref, cursor, pattern)).await? {
            Value::ServerError(error) => Err(errors::not_listed(error)),
            value => reply::of_scan(&value).map_err(|reply::Garbled| garbled(link)),
        }
    }

    /// Writes records, for which no request waits. One that is lost is written again.
    pub(super) async fn write(link: Arc<Link>, records: Vec<Cmd>) {
        for piece in records.chunks(MAX_COMMANDS_AT_ONCE) {
            let mut pipeline = Pipeline::with_capacity(piece.len());
            for record in piece {
                pipeline.add_command(record.clone());
            }
            if link.request_all(&pipeline).await.is_err() {
                return;
            }
        }
    }

    /// A script, by its hash, or by its text if the server does not know it.
    async fn run(&self, link: &Link, cmd: impl Fn(ScriptRef) -> Cmd) -> Result<Value, StoreError> {
        let value = ask(link, cmd(ScriptRef::Hash)).await?;
        if is_unknown_script(&value) { ask(link, cmd(ScriptRef::Text)).await } else { Ok(value) }
    }

    /// `owner`: only if that is a holder.
    pub(super) async fn force(
        self: Arc<Self>,
        link: Arc<Link>,
        key: Arc<str>,
        owner: Option<Arc<str>>,
    ) -> Result<bool, StoreError> {
        match self.run(&link, |script_ref| self.force_cmd(script_ref, &key, owner.as_deref())).await? {
            Value::ServerError(error) => Err(failed(&link, error)),
            value => reply::of_force(&value).map_err(|reply::Garbled| garbled(&link)),
        }
    }
}

pub(super) async fn ask(link: &Link, cmd: Cmd) -> Result<Value, StoreError> {
    link.request(cmd).await.map_err(|error| broken(link, error))
}

/// Sends `cmds` in one write, and returns one value for each.
pub(super) async fn ask_all(link: &Link, cmds: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
    let mut pipeline = Pipeline::with_capacity(cmds.len());
    let expected = cmds.len();
    for cmd in cmds {
        pipeline.add_command(cmd);
    }
    let values = link.request_all(&pipeline).await.map_err(|error| broken(link, error))?;
    if values.len() == expected { Ok(values) } else { Err(garbled(link)) }
}

/// The hash in a call of a script by its hash.
fn hash_in(call: &Cmd) -> Option<Vec<u8>> {
    match call.args_iter().nth(1)? {
        Arg::Simple(hash) => Some(hash.to_vec()),
        _ => None,
    }
}

fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// An error reply. If it shows that this is the wrong server, the link is replaced.
pub(super) fn failed(link: &Link, error: ServerError) -> StoreError {
    let wrong_server = errors::is_wrong_server(&error);
    let error = errors::replied(error);
    if wrong_server {
        link.give_up(error.clone());
    }
    error
}

/// No reply. The reason why the link was given up is more informative than the error that resulted from it.
pub(super) fn broken(link: &Link, error: redis::RedisError) -> StoreError {
    if let Some(fault) = link.fault() {
        return StoreError { kind: Failure::Unknown, source: Arc::clone(&fault.source) };
    }
    if error.is_unrecoverable_error() {
        let error = errors::unanswered(error);
        link.give_up(error.clone());
        return error;
    }
    errors::unanswered(error)
}

/// The replies on this link do not belong to their commands.
pub(super) fn garbled(link: &Link) -> StoreError {
    let error = errors::found(
        Failure::Unknown,
        "the server's answer does not belong to this command: the connection was closed (is there a proxy in \
         between?)",
    );
    link.give_up(error.clone());
    error
}
