//! One Redis server: at a fixed place, or wherever the sentinels say.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, Pipeline, ServerError, Value};
use tokio::sync::{Notify, watch};

use super::super::{
    Backend, BoxFuture, Events, Failure, Inspection, LinkEvent, Op, OpError, OpResult, Push, Pushes, Sending,
};
use super::command::{Form, Wire};
use super::config::{Address, Place, RedisConfig};
use super::greet::{Role, Server};
use super::link::Link;
use super::push::Listener;
use super::sentinel::Sentinels;
use super::supervise::{Connected, Keeper};
use super::{errors, push, reply, supervise};

/// Batches are cut into pieces of this many commands, so that others get in between.
const PIECE: usize = 500;
/// How long the first `Up` waits for the push connection, which is made at the same time.
const TOGETHER: Duration = Duration::from_millis(250);
/// The longest pause between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// The same while another server may take over at any time.
const LOOK: Duration = Duration::from_millis(150);

/// Locks on one Redis server.
pub(crate) struct RedisBackend {
    shared: Arc<Shared>,
}

impl RedisBackend {
    /// Nothing is connected before [`Backend::run`] is polled.
    ///
    /// # Errors
    ///
    /// A sentence that says what to change in `config`.
    pub(crate) fn new(config: RedisConfig) -> Result<Arc<RedisBackend>, String> {
        config.check()?;
        Ok(Arc::new(RedisBackend { shared: Arc::new(Shared::new(config)) }))
    }

    /// As if the greeting had told of a version before 7.0.
    #[cfg(test)]
    pub(super) fn pretend_old_server(&self) {
        self.shared.set_get.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisBackend").field(&self.describe()).finish()
    }
}

/// What the operations, the supervisor and the push connection share.
#[derive(Debug)]
struct Shared {
    config: RedisConfig,
    wire: Arc<Wire>,
    link: RwLock<Option<Arc<Link>>>,
    /// `SET NX GET` is a syntax error before 7.0.
    set_get: AtomicBool,
    /// Whether anybody wants to be connected.
    wanted: watch::Sender<bool>,
    state: Mutex<State>,
    /// Whether the first attempt to subscribe has come to an end.
    tried: watch::Sender<bool>,
    /// The command link leads to another server than the push connection.
    moved: Notify,
    /// Whom to ask where the server is.
    sentinels: Option<Arc<Sentinels>>,
}

/// Changed on the I/O thread only.
#[derive(Debug, Default)]
struct State {
    up: bool,
    /// Of the server that runs our commands.
    at: Option<Whereabouts>,
    listening: bool,
    /// Of the server that sends our pushes.
    push_at: Option<Whereabouts>,
}

/// Which server a connection leads to.
#[derive(Clone, Debug)]
pub(super) struct Whereabouts {
    pub(super) address: Address,
    pub(super) run_id: Option<String>,
}

impl Whereabouts {
    /// As far as is known.
    fn is_elsewhere(&self, other: &Whereabouts) -> bool {
        let known = self.run_id.is_some() && other.run_id.is_some();
        self.address != other.address || (known && self.run_id != other.run_id)
    }
}

impl State {
    /// Pushes count only if they come from the server that runs our commands, as far as is known.
    fn pushes(&self) -> Pushes {
        if self.listening && !self.split() { Pushes::On } else { Pushes::Off }
    }

    fn split(&self) -> bool {
        matches!((&self.at, &self.push_at), (Some(at), Some(push_at)) if at.is_elsewhere(push_at))
    }
}

impl Shared {
    fn new(config: RedisConfig) -> Shared {
        let wire = Wire::new(config.prefix.clone(), config.client.clone(), config.tuning.clone());
        Shared {
            wire: Arc::new(wire),
            link: RwLock::new(None),
            set_get: AtomicBool::new(true),
            wanted: watch::Sender::new(!config.lazy),
            state: Mutex::default(),
            tried: watch::Sender::new(false),
            moved: Notify::new(),
            sentinels: match &config.place {
                Place::Sentinel(place) => Some(Arc::new(Sentinels::new(place.clone()))),
                Place::Fixed(_) => None,
            },
            config,
        }
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn link_or_connect(&self) -> Result<Arc<Link>, OpError> {
        self.link().ok_or_else(|| {
            self.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
            errors::found(Failure::NotSent, format!("not connected to {}", self.config.place))
        })
    }

    fn set_link(&self, link: Option<Arc<Link>>) {
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first attempt to subscribe, but not for long.
    async fn wait_for_pushes(&self, most: Duration) {
        let mut tried = self.tried.subscribe();
        drop(tokio::time::timeout(most, tried.wait_for(|tried| *tried)).await);
    }

    /// Offers `link` to operations.
    fn offer(&self, link: Arc<Link>, address: &Address, server: &Server) -> Pushes {
        self.set_get.store(server.major.is_none_or(|major| major >= 7), Ordering::Relaxed);
        let mut state = self.state();
        state.up = true;
        state.at = Some(Whereabouts { address: address.clone(), run_id: server.run_id.clone() });
        let (pushes, split) = (state.pushes(), state.split());
        drop(state);
        if split {
            self.moved.notify_one();
        }
        self.set_link(Some(link));
        pushes
    }

    fn encode(&self, key: &str, op: &Op) -> (Cmd, Put) {
        match *op {
            Op::Set { token, ttl } if self.set_get.load(Ordering::Relaxed) => {
                (self.wire.set(key, token, ttl), Put::Native)
            }
            _ => (self.wire.script(Form::Hash, key, op), Put::Script),
        }
    }

    async fn carry_out(
        self: Arc<Self>,
        link: Arc<Link>,
        key: Arc<str>,
        op: Op,
        (cmd, put): (Cmd, Put),
    ) -> OpResult {
        match link.request(&cmd).await {
            // Boxed because it is rare: it would double the size of every operation.
            Ok(value) if self.again(&value, put) => Box::pin(self.retell(&link, &key, &op)).await,
            Ok(value) => self.decode(&link, &op, put, value),
            Err(error) => Err(broken(&link, error)),
        }
    }

    /// Sends an operation by the text of its script.
    async fn retell(&self, link: &Link, key: &str, op: &Op) -> OpResult {
        let value = self.ask(link, &self.wire.script(Form::Text, key, op)).await?;
        self.decode(link, op, Put::Script, value)
    }

    async fn ask(&self, link: &Link, cmd: &Cmd) -> Result<Value, OpError> {
        link.request(cmd).await.map_err(|error| broken(link, error))
    }

    /// Whether the server has certainly not executed the command, and knows another form of it.
    ///
    /// A command sent again has lost its place in the order: a `leave` may overtake the `enter` it undoes. The
    /// engine heals that, because it also answers a late reply to a dead token with `leave`; and scripts are
    /// loaded before a link is offered, so that it needs a SCRIPT FLUSH to happen.
    fn again(&self, value: &Value, put: Put) -> bool {
        let Value::ServerError(error) = value else { return false };
        match put {
            Put::Script => error.code() == "NOSCRIPT",
            Put::Native => {
                let unknown = error.details().is_some_and(|details| details.contains("syntax error"));
                if unknown {
                    self.set_get.store(false, Ordering::Relaxed);
                }
                unknown
            }
        }
    }

    fn decode(&self, link: &Link, op: &Op, put: Put, value: Value) -> OpResult {
        let client = &self.wire.client;
        let reply = match (value, put, op) {
            (Value::ServerError(error), Put::Native, _) if error.code() == "WRONGTYPE" => {
                Ok(reply::wrong_type())
            }
            (Value::ServerError(error), ..) => return Err(failed(link, error)),
            (value, Put::Native, Op::Set { token, .. }) => reply::of_set(client, *token, &value),
            (value, ..) => reply::of_script(client, op, &value),
        };
        reply.map_err(|reply::Garbled| garbled(link))
    }

    async fn batch(self: Arc<Self>, link: Arc<Link>, batch: Vec<(Arc<str>, Op)>) -> Vec<OpResult> {
        let mut results = Vec::with_capacity(batch.len());
        for piece in batch.chunks(PIECE) {
            if link.pulse.has_ended() {
                let lost = errors::found(Failure::NotSent, "the connection broke before this was sent");
                results.extend(piece.iter().map(|_| Err(lost.clone())));
                continue;
            }
            match self.piece(&link, piece).await {
                Ok(values) => results.extend(
                    piece
                        .iter()
                        .zip(values)
                        .map(|((_, op), (put, value))| self.decode(&link, op, put, value)),
                ),
                Err(error) => results.extend(piece.iter().map(|_| Err(error.clone()))),
            }
        }
        results
    }

    async fn piece(&self, link: &Link, piece: &[(Arc<str>, Op)]) -> Result<Vec<(Put, Value)>, OpError> {
        let (cmds, puts): (Vec<Cmd>, Vec<Put>) = piece.iter().map(|(key, op)| self.encode(key, op)).unzip();
        let values = self.ask_all(link, cmds).await?;
        let mut answers: Vec<_> = puts.into_iter().zip(values).collect();
        let again: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, (put, value))| self.again(value, *put))
            .map(|(at, _)| at)
            .collect();
        if again.is_empty() {
            return Ok(answers);
        }
        // The first text of a script teaches it to the server for the rest of the pipeline.
        let mut taught = Vec::new();
        let cmds = again.iter().filter_map(|at| piece.get(*at)).map(|(key, op)| {
            let script = Wire::script_of(op);
            let form = if taught.contains(&script) { Form::Hash } else { Form::Text };
            taught.push(script);
            self.wire.script(form, key, op)
        });
        let values = self.ask_all(link, cmds.collect()).await?;
        for (at, value) in again.into_iter().zip(values) {
            if let Some(answer) = answers.get_mut(at) {
                *answer = (Put::Script, value);
            }
        }
        Ok(answers)
    }

    async fn ask_all(&self, link: &Link, cmds: Vec<Cmd>) -> Result<Vec<Value>, OpError> {
        let mut pipeline = Pipeline::with_capacity(cmds.len());
        let expected = cmds.len();
        for cmd in cmds {
            pipeline.add_command(cmd);
        }
        let values = link.request_all(&pipeline).await.map_err(|error| broken(link, error))?;
        if values.len() == expected { Ok(values) } else { Err(garbled(link)) }
    }

    async fn inspect(self: Arc<Self>, link: Arc<Link>, key: Arc<str>) -> Result<Option<Inspection>, OpError> {
        let values = self.ask_all(&link, self.wire.inspect(&key).into()).await?;
        if let Some(Value::ServerError(error)) =
            values.iter().find(|value| matches!(value, Value::ServerError(_)))
        {
            return Err(failed(&link, error.clone()));
        }
        reply::of_inspect(&values).map_err(|reply::Garbled| garbled(&link))
    }

    async fn force(self: Arc<Self>, link: Arc<Link>, key: Arc<str>) -> Result<bool, OpError> {
        let mut value = self.ask(&link, &self.wire.force(Form::Hash, &key)).await?;
        if self.again(&value, Put::Script) {
            value = self.ask(&link, &self.wire.force(Form::Text, &key)).await?;
        }
        match value {
            Value::ServerError(error) => Err(failed(&link, error)),
            value => reply::of_force(&value).map_err(|reply::Garbled| garbled(&link)),
        }
    }
}

/// How an operation was put to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    /// As a plain command.
    Native,
    Script,
}

/// An error reply; if it says that we talk to the wrong server, the link is replaced.
fn failed(link: &Link, error: ServerError) -> OpError {
    let wrong_server = errors::is_wrong_server(&error);
    let error = errors::replied(error);
    if wrong_server {
        link.give_up(error.clone());
    }
    error
}

/// No reply; the reason why the link was given up says more than the error it left behind.
fn broken(link: &Link, error: redis::RedisError) -> OpError {
    if let Some(fault) = link.fault() {
        return OpError { kind: Failure::Unknown, source: Arc::clone(&fault.source) };
    }
    if error.is_unrecoverable_error() {
        let error = errors::unanswered(error);
        link.give_up(error.clone());
        return error;
    }
    errors::unanswered(error)
}

/// The answers on this link do not belong to their questions.
fn garbled(link: &Link) -> OpError {
    let error = errors::found(
        Failure::Unknown,
        "the server's answer is not one to this question: connection given up (is there a proxy in between?)",
    );
    link.give_up(error.clone());
    error
}

/// What [`Backend::run`] keeps, and to whom it reports.
struct Running {
    shared: Arc<Shared>,
    events: Arc<dyn Events>,
}

impl Deref for Running {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Running {
    /// While there is no link nothing is told: `Up` will say.
    fn tell(&self, before: Pushes) {
        let state = self.state();
        let (up, now) = (state.up, state.pushes());
        drop(state);
        if up && now != before {
            self.events.link(LinkEvent::Pushes(now));
        }
    }
}

impl Keeper for Running {
    fn config(&self) -> &RedisConfig {
        &self.config
    }

    fn place(&self) -> String {
        self.config.place.to_string()
    }

    fn role(&self) -> Role {
        Role::Master
    }

    fn longest_pause(&self) -> Duration {
        if self.sentinels.is_some() { LOOK } else { PAUSE }
    }

    async fn wanted(&self) {
        // Fails only without a sender, which is ours.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
    }

    async fn locate(&self) -> Result<Address, OpError> {
        match (&self.config.place, &self.sentinels) {
            (Place::Fixed(address), _) => Ok(address.clone()),
            (Place::Sentinel(_), Some(sentinels)) => sentinels.locate().await,
            (Place::Sentinel(_), None) => Err(errors::found(Failure::NotSent, "there are no sentinels")),
        }
    }

    async fn deposed(&self, address: &Address) -> OpError {
        match &self.sentinels {
            Some(sentinels) => sentinels.deposed(address).await,
            None => std::future::pending().await,
        }
    }

    async fn up(&self, found: &Connected) {
        if let Some(sentinels) = &self.sentinels {
            sentinels.found();
        }
        self.wait_for_pushes(TOGETHER).await;
        let pushes = self.offer(Arc::clone(&found.link), &found.address, &found.server);
        self.events.link(LinkEvent::Up { settled: found.settled, pushes });
    }

    fn down(&self, cause: OpError) {
        self.ended();
        self.events.link(LinkEvent::Down { cause });
    }

    fn ended(&self) {
        self.set_link(None);
        self.state().up = false;
    }
}

impl Listener for Running {
    fn config(&self) -> &RedisConfig {
        &self.config
    }

    fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    fn place(&self) -> String {
        self.config.place.to_string()
    }

    async fn wanted(&self) {
        Keeper::wanted(self).await;
    }

    /// Where the commands go, if they go anywhere.
    async fn locate(&self) -> Result<Address, OpError> {
        let at = {
            let state = self.state();
            state.at.as_ref().filter(|_| state.up).map(|at| at.address.clone())
        };
        match at {
            Some(address) => Ok(address),
            None => Keeper::locate(self).await,
        }
    }

    fn listening(&self, at: Whereabouts) {
        let before = self.state().pushes();
        let mut state = self.state();
        state.listening = true;
        state.push_at = Some(at);
        let split = state.split();
        drop(state);
        self.tell(before);
        if split {
            self.moved.notify_one();
        }
        self.tried.send_replace(true);
    }

    fn deaf(&self) {
        let before = self.state().pushes();
        self.state().listening = false;
        self.tell(before);
        self.tried.send_replace(true);
    }

    async fn moved(&self) {
        loop {
            self.moved.notified().await;
            // The notice may be older than this connection.
            if self.state().split() {
                return;
            }
        }
    }

    fn push(&self, push: Push) {
        self.events.push(push);
    }
}

impl Backend for RedisBackend {
    fn send(&self, key: &Arc<str>, op: Op) -> Sending {
        let shared = &self.shared;
        match shared.link_or_connect() {
            Ok(link) => {
                let put = shared.encode(key, &op);
                Sending::Pending(Box::pin(Arc::clone(shared).carry_out(link, Arc::clone(key), op, put)))
            }
            Err(error) => Sending::Ready(Err(error)),
        }
    }

    fn send_batch(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>> {
        match self.shared.link_or_connect() {
            Ok(link) => Box::pin(Arc::clone(&self.shared).batch(link, batch)),
            Err(error) => Box::pin(async move { batch.iter().map(|_| Err(error.clone())).collect() }),
        }
    }

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<Inspection>, OpError>> {
        match self.shared.link_or_connect() {
            Ok(link) => Box::pin(Arc::clone(&self.shared).inspect(link, Arc::clone(key))),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, OpError>> {
        match self.shared.link_or_connect() {
            Ok(link) => Box::pin(Arc::clone(&self.shared).force(link, Arc::clone(key))),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        let running = Arc::new(Running { shared: Arc::clone(&self.shared), events });
        Box::pin(async move {
            let ask = async {
                if let Some(sentinels) = running.sentinels.clone() {
                    Keeper::wanted(&*running).await;
                    sentinels.watch().await;
                }
            };
            tokio::join!(supervise::keep(Arc::clone(&running)), push::listen(Arc::clone(&running)), ask);
        })
    }

    fn prefix(&self) -> &str {
        &self.shared.config.prefix
    }

    fn describe(&self) -> String {
        format!("redis at {}, database {}", self.shared.config.place, self.shared.config.login.db())
    }
}
