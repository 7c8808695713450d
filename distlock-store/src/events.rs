//! What a store reports by itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::error::StoreError;
use crate::time::Time;

/// So many hints may wait to be delivered; more are dropped, since hints may be lost.
const MOST_HINTS: usize = 1 << 16;

/// Whether commands of earlier connections may still be carried out.
///
/// ```no_run
/// # use distlock::store::*;
/// # async fn run(events: StoreEvents) {
/// events.up(EarlierCommands::MayArrive);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierCommands {
    /// The server has ended them, or there were none: nothing that was sent before can be carried out any more.
    Ended,
    /// Some may be, within 5 s. Releases that may have overtaken what they undo are sent once more after that.
    MayArrive,
}

/// Whether what the store reports by itself reaches this process.
///
/// ```no_run
/// # use distlock::store::*;
/// # async fn run(events: StoreEvents) {
/// events.notifications(Notifications::Off);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notifications {
    /// It does, apart from single reports that may be lost.
    On,
    /// It does not: waiters poll, as with [`Waiting::Polling`](super::Waiting::Polling).
    Off,
}

/// One report, on its way to the manager.
#[doc(hidden)]
#[derive(Debug)]
pub enum Report {
    Up(EarlierCommands),
    Down(StoreError),
    Notifications(Notifications),
    Released { key: String },
    Granted { key: String, owner: String, fence: Option<u64>, made: Option<Time> },
    HeartbeatAnswered { sent: Time, timeout: Duration },
    SessionLost { at: Time },
}

/// Where [`LockStore::run`](super::LockStore::run) reports what it sees. May be cloned and used on any thread;
/// reports are taken in the order in which they are made, on the manager's own thread.
///
/// ```no_run
/// use distlock::store::{EarlierCommands, StoreError, StoreEvents};
/// # struct Connection;
/// # impl Connection {
/// #     async fn open() -> Result<Connection, std::io::Error> { Ok(Connection) }
/// #     async fn next_released_key(&mut self) -> Result<String, std::io::Error> { Ok("k".into()) }
/// # }
///
/// /// What `LockStore::run` of a store with notifications does.
/// async fn run(events: StoreEvents) {
///     loop {
///         events.wanted().await;
///         let cause = match Connection::open().await {
///             Ok(mut connection) => {
///                 events.up(EarlierCommands::MayArrive);
///                 loop {
///                     match connection.next_released_key().await {
///                         Ok(key) => events.released(&key),
///                         Err(error) => break error,
///                     }
///                 }
///             }
///             Err(error) => error,
///         };
///         events.down(StoreError::not_sent(cause));
///         tokio::time::sleep(std::time::Duration::from_millis(500)).await;
///     }
/// }
/// ```
#[derive(Clone)]
pub struct StoreEvents {
    client: Arc<str>,
    reports: mpsc::UnboundedSender<Report>,
    hints: Arc<AtomicUsize>,
    wanted: watch::Receiver<bool>,
}

impl StoreEvents {
    /// The other end takes one from `hints` for every hint that it takes out.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        client: Arc<str>,
        reports: mpsc::UnboundedSender<Report>,
        hints: Arc<AtomicUsize>,
        wanted: watch::Receiver<bool>,
    ) -> Self {
        StoreEvents { client, reports, hints, wanted }
    }

    /// This process, as its owners name it: [`Owner::client`](super::Owner::client).
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// println!("connected as {}", events.client());
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Becomes ready when somebody needs the store: at once, unless the manager was made by `connect_lazy`; then
    /// with the first request. Await it before connecting. Cancel-safe.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.wanted().await;
    /// // connect
    /// # }
    /// ```
    pub async fn wanted(&self) {
        let mut wanted = self.wanted.clone();
        // The manager's end drops this future too.
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Commands can be sent. Nothing is sent before this is said for the first time, nor between
    /// [`down`](Self::down) and this.
    ///
    /// With [sessions](super::LeaseRule::Session) it counts from the first heartbeat of a session on that is answered;
    /// until then nothing is acquired.
    ///
    /// Everybody who waits asks again, and every lease is renewed: what was reported in between may have been
    /// missed.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.up(EarlierCommands::Ended);
    /// # }
    /// ```
    pub fn up(&self, earlier: EarlierCommands) {
        self.report(Report::Up(earlier));
    }

    /// The connection is lost, or could not be made. Leases go on until their deadlines.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.down(StoreError::not_sent("connection refused"));
    /// # }
    /// ```
    pub fn down(&self, cause: StoreError) {
        self.report(Report::Down(cause));
    }

    /// Commands can be sent, but what the store reports by itself does not come, or comes again: for stores that hear
    /// it on a connection of its own. To be said after [`up`](Self::up), which implies that it comes; without meaning
    /// while the store is [`down`](Self::down).
    ///
    /// When it comes again everybody who waits asks once: what was reported in between has been missed.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.notifications(Notifications::On);
    /// # }
    /// ```
    pub fn notifications(&self, notifications: Notifications) {
        self.report(Report::Notifications(notifications));
    }

    /// `key` (with its prefix) may be free. A hint: it may be late, doubled, or missing, and is ignored where
    /// nobody waits for the key.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.released("shop:order:42");
    /// # }
    /// ```
    pub fn released(&self, key: &str) {
        self.hint(Report::Released { key: key.to_owned() });
    }

    /// The store has given `key` (with its prefix) to `owner`, who stood in its queue, for the claim time. A hint:
    /// it may be late, doubled, or missing, and is ignored if the owner is of another process. A grant that nobody
    /// waits for any more is released.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// let owner = "dl1:checkout.0a1b:7"; // as the server reports it
    /// events.granted("shop:order:42", owner, Grant::new().fence(1_790_000_000_000_000));
    /// # }
    /// ```
    pub fn granted(&self, key: &str, owner: &str, grant: Grant) {
        let made = grant.age.map(|age| clock::now().before(age));
        let Grant { fence, .. } = grant;
        self.hint(Report::Granted { key: key.to_owned(), owner: owner.to_owned(), fence, made });
    }

    /// Begins a heartbeat of the session. Call it before the heartbeat is sent, and
    /// [`answered`](Heartbeat::answered) when the store has confirmed it.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// # async fn ask_the_server() -> Result<(), StoreError> { Ok(()) }
    /// let heartbeat = events.heartbeat();
    /// if ask_the_server().await.is_ok() {
    ///     heartbeat.answered(std::time::Duration::from_secs(10));
    /// }
    /// # }
    /// ```
    #[must_use = "a heartbeat counts when it is answered"]
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat { sent: clock::now(), reports: self.reports.clone() }
    }

    /// The session has ended, or may have: every lock is lost. To be said before a new session is begun.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.session_lost();
    /// // begin the next session
    /// # }
    /// ```
    pub fn session_lost(&self) {
        // Heartbeats that are begun from now on are the next session's, whenever this is read.
        self.report(Report::SessionLost { at: clock::now() });
    }

    fn report(&self, report: Report) {
        // Without a manager there is nobody to tell.
        drop(self.reports.send(report));
    }

    fn hint(&self, hint: Report) {
        if self.hints.fetch_add(1, Ordering::Relaxed) >= MOST_HINTS {
            self.hints.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.report(hint);
    }
}

impl fmt::Debug for StoreEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreEvents").field("client", &self.client).finish_non_exhaustive()
    }
}

/// How [`StoreEvents::granted`] tells of a grant.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::Grant;
///
/// let grant = Grant::new().fence(17).at_most_old(Duration::from_millis(3));
/// assert_ne!(grant, Grant::new());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Grant {
    fence: Option<u64>,
    age: Option<Duration>,
}

impl Grant {
    /// A grant of unknown age: its owner asks the store before it believes it, which costs a round trip.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new();
    /// # let _ = grant;
    /// ```
    pub fn new() -> Self {
        Grant::default()
    }

    /// The first of the fencing tokens that were reserved, as in
    /// [`AcquireReply::Acquired`](super::AcquireReply::Acquired): as many as the owner asked for when it last
    /// queued.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new().fence(17);
    /// # let _ = grant;
    /// ```
    pub fn fence(self, first: u64) -> Self {
        Grant { fence: Some(first), ..self }
    }

    /// No more time than this has passed since the store made the grant. Its owner then holds the lock at once,
    /// for what is left of the claim.
    ///
    /// An age that is too small makes two holders: the claim ends in the store while its owner relies on it. Take
    /// it from one clock, or from two whose difference is bounded, as [`ServerClock`](super::ServerClock) does. An age
    /// that is too large costs a round trip.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new().at_most_old(std::time::Duration::from_millis(3));
    /// # let _ = grant;
    /// ```
    pub fn at_most_old(self, age: Duration) -> Self {
        Grant { age: Some(age), ..self }
    }
}

/// A heartbeat of the session, on its way.
///
/// ```no_run
/// # use distlock::store::*;
/// # async fn run(events: StoreEvents) {
/// let heartbeat = events.heartbeat(); // before it is sent
/// // … the server has answered:
/// heartbeat.answered(std::time::Duration::from_secs(10));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a heartbeat counts when it is answered"]
pub struct Heartbeat {
    sent: Time,
    reports: mpsc::UnboundedSender<Report>,
}

impl Heartbeat {
    /// The store has answered: the session lives for `timeout` from the moment at which the heartbeat was begun,
    /// at least. Each heartbeat may name another time-out, as the server grants it.
    ///
    /// A time-out longer than the store's makes two holders.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// events.heartbeat().answered(std::time::Duration::from_secs(10));
    /// # }
    /// ```
    pub fn answered(self, timeout: Duration) {
        drop(self.reports.send(Report::HeartbeatAnswered { sent: self.sent, timeout }));
    }
}
