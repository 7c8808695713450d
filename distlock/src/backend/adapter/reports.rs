//! The reports of the store, and the manager's reaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::StoreBackend;
use crate::backend::{Events, Failure, LinkEvent, Push, PushHint, ServerTime, parse_token};
use distlock_store::clock;
use distlock_store::engine::{Report, Time};
use distlock_store::{EarlierCommands, LockStore, Notifications, StoreError, StoreEvents};

/// The store's report about its connection.
#[derive(Debug)]
pub(super) struct StoreLink {
    state: State,
    /// Commands may have been sent.
    was_up: bool,
    /// It is up, and must be announced together with the session, because nothing can be acquired without a session.
    unannounced: Option<EarlierCommands>,
    notifications: Notifications,
}

impl Default for StoreLink {
    fn default() -> Self {
        StoreLink { state: State::NotYet, was_up: false, unannounced: None, notifications: Notifications::On }
    }
}

#[derive(Debug)]
enum State {
    NotYet,
    Up,
    Down(StoreError),
}

impl StoreLink {
    /// Whether commands may be sent now. The error is the cause, or `None` if the store has not connected yet.
    pub(super) fn is_usable(&self) -> Result<(), Option<StoreError>> {
        match &self.state {
            State::Up => Ok(()),
            State::NotYet => Err(None),
            State::Down(cause) => {
                Err(Some(StoreError { kind: Failure::NotSent, source: cause.source.clone() }))
            }
        }
    }

    /// Nothing is known now.
    pub(super) fn close(&mut self) {
        self.state = State::NotYet;
        self.unannounced = None;
    }
}

/// The receiver of the store's reports.
#[derive(Debug)]
pub(super) struct Reports {
    receiver: mpsc::UnboundedReceiver<Report>,
    hints: Arc<AtomicUsize>,
}

impl Reports {
    /// Creates both ends.
    pub(super) fn new<S: LockStore>(backend: &StoreBackend<S>) -> (StoreEvents, Reports) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let hints = Arc::new(AtomicUsize::new(0));
        let client = backend.translator.client.clone();
        let events = StoreEvents::new(client, sender, hints.clone(), backend.wanted.subscribe());
        (events, Reports { receiver, hints })
    }

    /// Passes the reports on, and never returns: a store that has dropped its end reports nothing more.
    pub(super) async fn deliver<S: LockStore>(mut self, backend: &StoreBackend<S>, events: &dyn Events) {
        while let Some(report) = self.receiver.recv().await {
            if matches!(report, Report::Released { .. } | Report::Granted { .. }) {
                self.hints.fetch_sub(1, Ordering::Relaxed);
            }
            backend.reported(report, events);
        }
        std::future::pending().await
    }
}

impl<S: LockStore> StoreBackend<S> {
    fn reported(&self, report: Report, events: &dyn Events) {
        match report {
            Report::Up(earlier) => self.is_up(earlier, events),
            Report::Down(cause) => self.is_down(cause, events),
            Report::Notifications(notifications) => self.notifications(notifications, events),
            Report::HeartbeatAnswered { sent, timeout } => {
                let Some(session) = self.translator.session() else { return };
                let now = clock::now();
                // It was over before this was noticed: holders may know already.
                if session.has_begun() && session.is_over(now) {
                    self.session_lost(now, events);
                }
                session.answered(sent, timeout);
                if !session.is_over(now) {
                    let unannounced = self.link.lock().unannounced.take();
                    unannounced.into_iter().for_each(|earlier| self.announce(earlier, events));
                }
            }
            Report::SessionLost { at } => self.session_lost(at, events),
            // Those about keys or owners of other clients are not passed on.
            Report::Released { key } => {
                let Some(key) = self.translator.logical(&key) else { return };
                events.notice(PushHint::Free { key });
            }
            Report::Granted { key, owner, fence, made } => {
                let (Some(key), Some(token)) =
                    (self.translator.logical(&key), parse_token(&self.translator.client, &owner))
                else {
                    return;
                };
                match made {
                    // On our clock, like the times of the store's answers.
                    Some(made) => {
                        let server_time = ServerTime(made.0 / 1_000);
                        let handoffs_began = server_time;
                        events.push(Push::Grant { key, token, server_time, handoffs_began, fence });
                    }
                    None => events.notice(PushHint::Unproven { key, token }),
                }
            }
        }
    }

    pub(super) fn session_lost(&self, at: Time, events: &dyn Events) {
        let Some(session) = self.translator.session() else { return };
        session.lose(at);
        events.session_lost();
    }

    fn is_up(&self, earlier: EarlierCommands, events: &dyn Events) {
        let mut link = self.link.lock();
        let earlier = if link.was_up { earlier } else { EarlierCommands::Ended };
        (link.state, link.was_up, link.notifications) = (State::Up, true, Notifications::On);
        let no_session = self.translator.session().is_some_and(|session| session.is_over(clock::now()));
        link.unannounced = no_session.then_some(earlier);
        drop(link);
        if !no_session {
            self.announce(earlier, events);
        }
    }

    fn announce(&self, earlier: EarlierCommands, events: &dyn Events) {
        let pushes = self.pushes(self.link.lock().notifications);
        events.link(LinkEvent::Up { earlier, pushes });
    }

    fn notifications(&self, notifications: Notifications, events: &dyn Events) {
        let mut link = self.link.lock();
        if !matches!(link.state, State::Up) || link.notifications == notifications {
            return;
        }
        link.notifications = notifications;
        // With the session, where that is not announced yet.
        let is_announced = link.unannounced.is_none();
        drop(link);
        if is_announced && self.abilities.waiting.is_told() {
            events.link(LinkEvent::Notifications(self.pushes(notifications)));
        }
    }

    fn pushes(&self, notifications: Notifications) -> Notifications {
        match notifications {
            Notifications::On if self.abilities.waiting.is_told() => Notifications::On,
            Notifications::On | Notifications::Off => Notifications::Off,
        }
    }

    fn is_down(&self, cause: StoreError, events: &dyn Events) {
        let mut link = self.link.lock();
        (link.state, link.unannounced) = (State::Down(cause.clone()), None);
        drop(link);
        events.link(LinkEvent::Down { cause });
    }
}
