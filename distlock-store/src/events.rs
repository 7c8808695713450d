//! The events that a store reports.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::error::StoreError;
use crate::time::Time;

/// The number of hints that may wait for delivery. More are dropped, because hints may be lost.
const MOST_HINTS: usize = 1 << 16;

/// Whether commands of earlier connections may still be executed.
///
/// ```no_run
/// # use distlock::store::*;
/// # async fn run(events: StoreEvents) {
/// events.up(EarlierCommands::MayArrive);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierCommands {
    /// The server has closed them, or there were none. No earlier command can still be executed.
    Ended,
    /// Earlier commands may still be executed, within 5 s. After that, releases that may have overtaken the
    /// acquisitions that they undo are sent again.
    MayArrive,
}

/// Whether the store's reports of releases and grants reach this process.
///
/// ```no_run
/// # use distlock::store::*;
/// # async fn run(events: StoreEvents) {
/// events.notifications(Notifications::Off);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notifications {
    /// They do, apart from single reports that may be lost.
    On,
    /// They do not, so waiters poll, as with [`Waiting::Polling`](super::Waiting::Polling).
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

/// The channel for the reports of [`LockStore::run`](super::LockStore::run). It can be cloned and used on any thread.
/// The manager's own thread handles the reports in the order of the calls.
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

    /// The client id of this process, which is a part of its owner tokens: [`Owner::client`](super::Owner::client).
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

    /// Becomes ready when the store is needed: at once, or with the first request if the manager was made by
    /// `connect_lazy`. Await it before you connect. Cancel-safe.
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

    /// Reports that commands can be sent. No command is sent before the first `up`, or between [`down`](Self::down) and
    /// the next `up`.
    ///
    /// With [sessions](super::LeaseRule::Session), it takes effect at the first answered heartbeat of a session. No
    /// lock is acquired before that.
    ///
    /// Every waiter asks again, and every lease is renewed, because reports may have been missed in the meantime.
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

    /// Reports that the connection is lost, or could not be made. Leases continue until their deadlines.
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

    /// Reports that notifications have stopped, or work again, while commands can be sent. For stores that get
    /// notifications on a separate connection. Call it after [`up`](Self::up), which implies that notifications work.
    /// It has no effect while the store is [`down`](Self::down).
    ///
    /// When notifications work again, every waiter asks once, because notifications were missed in the meantime.
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

    /// Reports that `key` (with its prefix) may be free. It is a hint: it may be late, doubled, or missing. It is
    /// ignored if there is no waiter for the key.
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

    /// Reports that the store has granted `key` (with its prefix) to `owner`, who was in its queue, for the claim time.
    /// It is a hint: it may be late, doubled, or missing. It is ignored if the owner belongs to another process. A
    /// grant without a waiter is released.
    ///
    /// ```no_run
    /// # use distlock::store::*;
    /// # async fn run(events: StoreEvents) {
    /// let owner = "dl1:checkout.0a1b:7"; // as the server reports it
    /// events.granted("shop:order:42", owner, Grant::new().fence(1_790_000_000_000_000));
    /// # }
    /// ```
    pub fn granted(&self, key: &str, owner: &str, grant: Grant) {
        let Grant { fence, made } = grant;
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

    /// Reports that the session has ended, or may have ended. Every lock is lost. Call it before a new session begins.
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
        // Without a manager, no report is read.
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

/// The data of a grant that [`StoreEvents::granted`] reports.
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
    /// It was made at this time or later.
    made: Option<Time>,
}

impl Grant {
    /// A grant of unknown age. The owner checks it with the store first, which costs a round trip.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new();
    /// # let _ = grant;
    /// ```
    pub fn new() -> Self {
        Grant::default()
    }

    /// The first of the reserved fencing tokens, as in [`AcquireReply::Acquired`](super::AcquireReply::Acquired). Their
    /// number is the number in the owner's last request for the queue.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new().fence(17);
    /// # let _ = grant;
    /// ```
    pub fn fence(self, first: u64) -> Self {
        Grant { fence: Some(first), ..self }
    }

    /// At most this time has passed since the store made the grant, until this call. The owner then holds the lock at
    /// once, for the rest of the claim.
    ///
    /// If the age is too small, there can be two holders, because the claim ends in the store while its owner relies on
    /// it. Measure it with one clock, or with two clocks that have a bounded difference, as
    /// [`ServerClock`](super::ServerClock) does. On Linux, [`Instant`](std::time::Instant) stops while the machine is
    /// suspended, and the store's clock does not: use [`clock::now`]. If the age is too large, it costs a round trip.
    ///
    /// ```
    /// let grant = distlock::store::Grant::new().at_most_old(std::time::Duration::from_millis(3));
    /// # let _ = grant;
    /// ```
    pub fn at_most_old(self, age: Duration) -> Self {
        self.made_at(clock::now().before(age))
    }

    /// The store made the grant at this time or later.
    #[doc(hidden)]
    pub fn made_at(self, made: Time) -> Self {
        Grant { made: Some(made), ..self }
    }
}

/// A heartbeat of the session that waits for its reply.
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
    /// Reports that the store has answered. The session lives for at least `timeout` after the begin of the heartbeat.
    /// The server may grant a different time-out for each heartbeat.
    ///
    /// If `timeout` is longer than the store's time-out, there can be two holders.
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
