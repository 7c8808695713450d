//! The client, which a program passes to its manager.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::store::{
    Abilities, Ability, Acquire, AcquireReply, Busy, EarlierCommands, Fencing, Finding, Grant, LATE_COMMANDS,
    LeaseRule, List, LockStore, Publish, Release, ReleaseReply, Renew, RenewReply, Replace, ReplaceReply,
    ServerClock, Severity, StoreError, StoreEvents, StoredLock, StoredPage, Waiting,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::line::{Words, hex, kind_word, millis, unhex};
use crate::mistake::Mistake;

/// The pause before it connects again.
const PAUSE: Duration = Duration::from_millis(20);
/// A request that arrives later, by the server's clock, is not executed, because the link may delay it.
const LATEST: Duration = Duration::from_secs(4);
const _: () = assert!(LATEST.as_nanos() < LATE_COMMANDS.as_nanos());

/// Locks on a [`ToyServer`](crate::ToyServer).
#[derive(Debug)]
pub struct ToyStore {
    address: SocketAddr,
    /// Locks live as long as a session with this time-out. `None`: each has its ttl.
    session: Option<Duration>,
    queue: Waiting,
    clock: ServerClock,
    /// The id of this client, as soon as the store is used.
    client: Mutex<Option<String>>,
    /// Notified when the manager has ended.
    closed: Notify,
    /// `None`: not connected.
    connection: Mutex<Option<Connection>>,
    mistake: Option<Mistake>,
    /// The requests that a mistake sends again.
    unanswered: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Connection {
    lines: mpsc::UnboundedSender<String>,
    /// The callers that await a reply, by the numbers of their requests.
    awaited: HashMap<u64, oneshot::Sender<String>>,
    next: u64,
    /// The time of the server's clock, and when this process read it.
    shown: (Instant, Duration),
}

impl ToyStore {
    /// Locks on the server at this address. It connects when the manager is created.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        ToyStore {
            address,
            session: None,
            queue: Waiting::Notified,
            clock: ServerClock::new(),
            client: Mutex::default(),
            closed: Notify::new(),
            connection: Mutex::default(),
            mistake: None,
            unanswered: Mutex::default(),
        }
    }

    /// Like [`new`](Self::new), with a queue on the server, which a release serves.
    #[must_use]
    pub fn with_queue(address: SocketAddr) -> Self {
        ToyStore { queue: Waiting::Queued, ..ToyStore::new(address) }
    }

    /// Like [`new`](Self::new), with leases that live as long as the process's session.
    #[must_use]
    pub fn with_sessions(address: SocketAddr, timeout: Duration) -> Self {
        ToyStore { session: Some(timeout), ..ToyStore::new(address) }
    }

    /// Adds a mistake.
    #[must_use]
    pub fn mistaken(self, mistake: Option<Mistake>) -> Self {
        ToyStore { mistake, ..self }
    }

    fn client(&self) -> MutexGuard<'_, Option<String>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, request: String) -> Result<String, StoreError> {
        let (answer, reply) = oneshot::channel();
        match self.connection().as_mut() {
            // It was not sent.
            None => return Err(StoreError::not_sent("not connected")),
            Some(connection) => {
                let id = connection.next;
                connection.next += 1;
                connection.awaited.insert(id, answer);
                let (learnt, shown) = connection.shown;
                let until = (shown + learnt.elapsed() + LATEST).as_micros();
                // If the connection ends now, the reply reports it.
                drop(connection.lines.send(format!("{id} {until} {request}\n")));
            }
        }
        // The request may have been executed.
        let Ok(reply) = reply.await else {
            if self.mistake == Some(Mistake::SendsAgain) {
                self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
            return Err(StoreError::unknown("the connection was lost"));
        };
        if let Some(shown) = reply.strip_prefix("LATE ") {
            // The link has delayed the request, or the known clock comes from a reply that was delayed.
            let shown = Duration::from_micros(shown.parse().map_err(|_| garbled())?);
            if let Some(connection) = self.connection().as_mut() {
                connection.shown = (Instant::now(), shown);
            }
            return Err(StoreError::later("it has arrived too late"));
        }
        if reply == "REFUSED" {
            Err(StoreError::refused(format!("the server refuses `{request}`")))
        } else {
            Ok(reply)
        }
    }

    /// Exchanges lines until the connection ends.
    async fn talk(&self, events: &StoreEvents) -> io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        let greeting = lines.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let shown = greeting.strip_prefix('@').and_then(|shown| shown.parse().ok());
        let shown = (Instant::now(), Duration::from_micros(shown.ok_or(io::ErrorKind::InvalidData)?));
        let (sender, mut requests) = mpsc::unbounded_channel::<String>();
        *self.connection() = Some(Connection { lines: sender, awaited: HashMap::new(), next: 0, shown });
        // It may be another server.
        self.clock.forget();
        // Requests of an earlier connection may still be in flight.
        events.up(EarlierCommands::MayArrive);
        let unanswered = std::mem::take(&mut *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner));
        for again in unanswered {
            writer.write_all(format!("again - {again}\n").as_bytes()).await?;
        }
        loop {
            tokio::select! {
                Some(request) = requests.recv() => writer.write_all(request.as_bytes()).await?,
                line = lines.next_line() => {
                    let line = line?.ok_or(io::ErrorKind::UnexpectedEof)?;
                    self.heard(&line, events);
                }
            }
        }
    }

    async fn stay_connected(&self, events: &StoreEvents) {
        loop {
            let ended = self.talk(events).await;
            // The callers that await a reply get an error.
            *self.connection() = None;
            if self.mistake == Some(Mistake::RunReturns) {
                return;
            }
            let cause = ended.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
            events.down(StoreError::unknown(cause));
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn stay_in_session(&self, events: &StoreEvents) {
        let Some(timeout) = self.session else { return };
        let request = format!("SESSION {} {}", events.client(), millis(timeout));
        loop {
            // Taken before the heartbeat is sent, because the session's time is counted from here.
            let heartbeat = events.heartbeat();
            match self.ask(request.clone()).await.as_deref() {
                Ok("ALIVE") => {
                    heartbeat.answered(timeout);
                    tokio::time::sleep(timeout / 5).await;
                }
                // It is a new session, and its first heartbeat is the next one.
                Ok("NEW") => events.session_lost(),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn granted(&self, words: &mut Words<'_>, events: &StoreEvents) -> Option<()> {
        let (key, owner) = (unhex(words.text()?)?, words.text()?);
        let mut grant = self.clock.grant(Duration::from_micros(words.number()?));
        if self.mistake == Some(Mistake::GrantsAreAlwaysNew) {
            grant = Grant::new().at_most_old(Duration::ZERO);
        }
        let fence = words.number().filter(|fence| *fence > 0);
        // This also receives grants to other processes, which the manager ignores.
        events.granted(&key, owner, fence.map_or(grant, |fence| grant.fence(fence)));
        Some(())
    }

    fn heard(&self, line: &str, events: &StoreEvents) {
        if let Some(key) = line.strip_prefix('!') {
            if let Some(key) = unhex(key) {
                events.released(&key);
            }
            return;
        }
        if let Some(grant) = line.strip_prefix('+') {
            let _garbled: Option<()> = self.granted(&mut Words::of(grant), events);
            return;
        }
        let Some((id, answer)) = line.split_once(' ') else { return };
        let awaited = id.parse().ok().and_then(|id: u64| self.connection().as_mut()?.awaited.remove(&id));
        if let Some(awaited) = awaited {
            // The caller may have been dropped.
            drop(awaited.send(answer.to_owned()));
        }
    }
}

impl LockStore for ToyStore {
    fn abilities(&self) -> Abilities {
        let all = Abilities::default().fencing(Fencing::Blocks).waiting(self.queue).lists().publishes();
        let all = all.acquires_together(4).renews_together(4);
        match self.session {
            None => all.shared().limited().min_hold().replaces(),
            Some(_) => all
                .lease(LeaseRule::Session)
                .lacks(Ability::Shared, "a session is one holder")
                .lacks(Ability::Limited, "a session is one holder")
                .lacks(Ability::MinHold, "what has no session is not kept"),
        }
    }

    fn describe(&self) -> String {
        format!("the toy server at {}", self.address)
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let Acquire { key, owner, ttl, kind, fences, queue, .. } = request;
        let ttl = self.session.map_or_else(|| millis(*ttl).to_string(), |_| owner.client().to_owned());
        let (key, kind) = (hex(key), kind_word(*kind));
        let queue = queue.filter(|_| self.queue == Waiting::Queued);
        let place = queue
            .map_or(String::new(), |queue| format!("{} {}", millis(queue.claim), millis(queue.entry_ttl)));
        // Taken before the request is sent, because the reply contains the server's time.
        let asking = self.clock.asking();
        let reply = self.ask(format!("ACQUIRE {key} {owner} {ttl} {kind} {fences} {place}")).await?;
        let mut words = Words::of(&reply);
        let what = words.text();
        if what != Some("WRONG-KIND") {
            asking.answered(Duration::from_micros(words.number().ok_or_else(garbled)?));
        }
        let reply = match what {
            Some("ACQUIRED") => Some(AcquireReply::Acquired { fence: words.number() }),
            Some("HELD") => Some(AcquireReply::AlreadyHeld { fence: words.number() }),
            Some("WRONG-KIND") => words.kind().map(|found| AcquireReply::WrongKind { found }),
            Some("BUSY") => busy(&mut words).map(AcquireReply::Busy),
            _ => None,
        };
        reply.ok_or_else(garbled)
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, ttl, fences, .. } = request;
        let request = format!("REPLACE {} {holder} {owner} {} {fences}", hex(key), millis(*ttl));
        let reply = self.ask(request).await?;
        let mut words = Words::of(&reply);
        match words.text() {
            Some("REPLACED") => Ok(ReplaceReply::Replaced { fence: words.number() }),
            Some("HELD") => Ok(ReplaceReply::AlreadyHeld { fence: words.number() }),
            Some("NOT-HELD") => Ok(ReplaceReply::NotHeld),
            _ => Err(garbled()),
        }
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let Renew { key, owner, ttl, .. } = request;
        let ttl = self.session.map_or_else(|| millis(*ttl).to_string(), |_| String::new());
        match &*self.ask(format!("RENEW {} {owner} {ttl}", hex(key))).await? {
            "RENEWED" => Ok(RenewReply::Renewed),
            "NOT-HELD" => Ok(RenewReply::NotHeld),
            _ => Err(garbled()),
        }
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let is_ours = self.client().as_deref() == Some(request.owner.client());
        if self.mistake == Some(Mistake::ReleasesOnlyItsOwn) && !is_ours {
            return Ok(ReleaseReply::NotHeld);
        }
        let keep = request.keep.map(|keep| millis(keep).to_string()).unwrap_or_default();
        match &*self.ask(format!("RELEASE {} {} {keep}", hex(&request.key), request.owner)).await? {
            "RELEASED" => Ok(ReleaseReply::Released),
            "NOT-HELD" => Ok(ReleaseReply::NotHeld),
            _ => Err(garbled()),
        }
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let reply = self.ask(format!("INSPECT {}", hex(key))).await?;
        let mut words = Words::of(&reply);
        if words.text() == Some("FREE") {
            return Ok(None);
        }
        let kind = words.kind().ok_or_else(garbled)?;
        let text = words.text().and_then(|text| unhex(text.strip_prefix('/')?));
        let mut found = StoredLock::new(kind);
        for _ in 0..words.number::<usize>().ok_or_else(garbled)? {
            found = found.waiter(words.text().ok_or_else(garbled)?);
        }
        while let (Some(holder), remaining @ Some(_)) = (words.text(), words.span()) {
            found = found.holder(holder, remaining);
            // Only the one holder of an exclusive lock has a text.
            if let Some(text) = &text {
                found = found.published(holder, text.clone());
            }
        }
        Ok(Some(found))
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        let Publish { key, owner, value, .. } = request;
        self.ask(format!("PUBLISH {} {owner} /{}", hex(key), hex(value))).await.map(drop)
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        self.ask(format!("UNPUBLISH {} {}", hex(&request.key), request.owner)).await.map(drop)
    }

    /// One after the other, which a real store would do by one command.
    async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
        let mut replies = Vec::new();
        for request in requests {
            let reply = self.acquire(request).await?;
            let is_over = !reply.is_acquired() && self.mistake != Some(Mistake::TriesBehindABusyKey);
            replies.push(reply);
            if is_over {
                break;
            }
        }
        Ok(replies)
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let mut requests: Vec<&Renew> = requests.iter().collect();
        if self.mistake == Some(Mistake::AnswersInOrderOfKeys) {
            requests.sort_by_key(|request| request.key.clone());
        }
        let mut replies = Vec::new();
        for request in requests {
            replies.push(self.renew(request).await?);
            if self.mistake == Some(Mistake::RenewAllCreates) {
                self.acquire(&Acquire::new(request.key.clone(), &request.owner, request.ttl)).await?;
            }
        }
        Ok(replies)
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        let List { beginning, after, most, .. } = request;
        let after = after.as_ref().map(|after| hex(after)).unwrap_or_default();
        // Without the `/`, an empty text would not be a word.
        let reply = self.ask(format!("LIST /{} {most} {after}", hex(beginning))).await?;
        let keys: Option<Vec<String>> = reply.split(' ').skip(1).map(unhex).collect();
        let keys = keys.ok_or_else(garbled)?;
        let mut page = StoredPage::new();
        for key in &keys {
            // A lock that was released meanwhile is left out.
            if let Some(lock) = self.inspect(key).await? {
                page = page.lock(key.clone(), lock);
            }
        }
        Ok(if keys.len() >= *most { page.and_more() } else { page })
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        match &*self.ask("EXAMINE -".to_owned()).await? {
            "KEEPS-ALL" => {
                Ok(vec![Finding::new(Severity::Fine, "memory", "nothing is forgotten before its time")])
            }
            _ => Err(garbled()),
        }
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.ask(format!("FORCE {}", hex(key))).await? == "RELEASED")
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        *self.client() = Some(events.client().to_owned());
        tokio::join!(self.stay_connected(&events), async {
            // No new session begins after the last one was ended.
            tokio::select! {
                () = self.stay_in_session(&events) => {}
                () = self.closed.notified() => {}
            }
        });
    }

    async fn close(&self) {
        self.closed.notify_one();
        let client = self.client().take();
        if let Some(client) = client.filter(|_| self.session.is_some()) {
            // If this fails, the session expires.
            drop(self.ask(format!("END {client}")).await);
        }
    }
}

fn busy(words: &mut Words<'_>) -> Option<Busy> {
    let (place, holder, remaining) = (words.text()?, words.text()?, words.span()?);
    let busy = Busy::ours(holder).remaining(remaining);
    Some(if place == "FIRST" { busy } else { busy.behind_others() })
}

fn garbled() -> StoreError {
    StoreError::unknown("an answer that is not understood")
}
