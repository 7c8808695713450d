//! The connection for pushes: it breaks, and pushes are lost, late, doubled or out of order.

use super::client::What;
use super::config::{MILLI, SECOND};
use super::faults::Fault;
use super::world::{Event, World};
use crate::backend::memory::server::{News, Note};
use crate::engine::Context;
use crate::protocol::{LinkEvent, Notifications, Push, PushHint, Token};
use crate::simulation::Notice;

/// The connection for pushes.
#[derive(Debug)]
pub(super) struct PushLink {
    pub(super) subscription: u32,
    /// Whether messages of the server arrive.
    pub(super) works: bool,
    /// What the process knows of the connection.
    pub(super) heard: Notifications,
    last: u64,
}

impl Default for PushLink {
    fn default() -> Self {
        PushLink { subscription: 0, works: false, heard: Notifications::Off, last: 0 }
    }
}

impl PushLink {
    /// Whether the process knows the real state of the connection.
    pub(super) fn is_known(&self) -> bool {
        self.works == (self.heard == Notifications::On)
    }
}

impl World {
    pub(super) fn publish(&mut self, notes: Vec<Note>) {
        for Note { client: name, key, token, news } in notes {
            match news {
                News::Grant { .. } => self.stats.grants += 1,
                News::Gap => self.stats.gaps += 1,
                News::Wanted => self.stats.wanted += 1,
            }
            let index = self.key_index(&key);
            let found = self.clients.iter().position(|client| client.alive && client.name == name);
            let Some(c) = found.filter(|c| self.clients[*c].push.works) else {
                self.is_not_delivered(index, found, token, news);
                continue;
            };
            // If the server refuses permanently to remove a place in the queue, the place outlives its attempt.
            let forgotten = matches!(news, News::Gap) && !self.clients[c].knows(&key, token);
            if !self.is_able(c) || forgotten {
                self.nobody_was_told(index);
            }
            if self.chance(self.cfg.push_loss) {
                note!(self, "server: push to {name} is lost: {token} {news:?}");
                self.is_not_delivered(index, Some(c), token, news);
                continue;
            }
            if matches!(news, News::Grant { .. }) {
                self.watch_grant(index, c, token);
            }
            let push = Note { client: name, key, token, news }.push();
            let twice = self.chance(self.cfg.push_twice);
            self.push_leaves(index, c, push.clone());
            if twice {
                self.push_leaves(index, c, push);
            }
        }
    }

    /// Handles a push that reaches no process.
    fn is_not_delivered(&mut self, index: usize, to: Option<usize>, token: Token, news: News) {
        if news != News::Wanted {
            return self.nobody_was_told(index);
        }
        // A process that knows that it gets no pushes keeps no lock without a section. The promise to a writer behind
        // readers does not depend on pushes.
        if token.linger().is_some() && to.is_some_and(|c| self.clients[c].push.heard == Notifications::On) {
            self.stays_untold(index);
        }
    }

    /// Notes that a holder that may keep the lock without a section does not know that another process wants it.
    fn stays_untold(&mut self, index: usize) {
        self.nobody_was_told(index);
        self.keys[index].untold_until = self.now + self.cfg.longest_linger() + 10 * SECOND;
    }

    fn push_leaves(&mut self, index: usize, c: usize, push: Push) {
        let mut at = self.now + self.delay();
        if self.chance(self.cfg.push_late) {
            // Out of order, too.
            at += self.some(600 * MILLI);
            self.nobody_was_told(index);
        } else {
            at = at.max(self.clients[c].push.last + 1);
            self.clients[c].push.last = at;
        }
        let subscription = self.clients[c].push.subscription;
        self.at(at, Event::PushArrives { client: c, subscription, push });
    }

    pub(super) fn push_arrives(&mut self, c: usize, subscription: u32, push: Push) {
        let client = &self.clients[c];
        let index = self.key_index(push.key());
        if client.push.subscription != subscription || !client.push.works || !client.alive {
            match push {
                Push::Wanted { token, .. }
                    if client.push.heard == Notifications::Off || token.linger().is_none() => {}
                Push::Wanted { .. } => self.stays_untold(index),
                Push::Grant { .. } | Push::Gap { .. } => self.nobody_was_told(index),
            }
            return;
        }
        let late = self.some(self.cfg.notice * 200);
        self.post(c, late, What::Push(push));
    }

    /// A store may hint at any time, and as often as it likes, that a lock may be free, or was granted.
    pub(super) fn hint(&mut self, c: usize, more: u32) {
        let asking = self.open_acquisitions(c).next().map(|job| job.context.clone());
        if let Some(Context { key, token, .. }) = asking {
            let hint =
                if self.rng.bool() { PushHint::Free { key } } else { PushHint::Unproven { key, token } };
            self.post(c, 0, What::Hint(hint));
        }
        if more > 0 {
            let late = self.some(5 * MILLI);
            self.after(late, Event::Fault(Fault::Hint(c, more - 1)));
        }
    }

    pub(super) fn break_push(&mut self, c: usize, notice: Notice) {
        if !self.clients[c].push.works {
            return;
        }
        note!(self, "process {c}: push connection breaks");
        self.clients[c].push.works = false;
        self.clients[c].disturbed_at = self.now;
        let subscription = self.clients[c].push.subscription;
        if notice == Notice::Comes {
            let late = super::config::pick(&mut self.rng, &[0, 3 * SECOND]);
            let name = self.clients[c].name.clone();
            self.after(late, Event::Unsubscribe { client: c, name });
            let most = super::config::pick(&mut self.rng, &[MILLI, 500 * MILLI]);
            let late = self.some(most);
            self.after(late, Event::PushNotice { client: c, subscription });
        }
    }

    pub(super) fn unsubscribe(&mut self, c: usize, name: &std::sync::Arc<str>) {
        // A new subscription of the same life has the same channel.
        let subscribed_again = self.clients[c].name == *name && self.clients[c].push.works;
        if !subscribed_again {
            self.server.unsubscribe(name);
        }
    }

    pub(super) fn notice_deafness(&mut self, c: usize, subscription: u32) {
        let client = &mut self.clients[c];
        if !client.alive || client.push.subscription != subscription || client.push.works {
            return;
        }
        client.push.heard = Notifications::Off;
        client.disturbed_at = self.kernel.now;
        let (up, life) = (client.link.up, client.life);
        if up {
            self.post(c, 0, What::Link(LinkEvent::Notifications(Notifications::Off)));
        }
        let most = super::config::pick(&mut self.rng, &[5 * MILLI, 800 * MILLI]);
        let late = 1 + self.some(most);
        self.after(late, Event::Subscribe { client: c, life });
    }

    pub(super) fn subscribe(&mut self, c: usize, life: u32) {
        let client = &self.clients[c];
        if !client.alive || client.life != life || client.push.works {
            return;
        }
        if client.paused_until > self.now || !self.server_is_up {
            let late = 50 * MILLI + self.some(200 * MILLI);
            self.after(late, Event::Subscribe { client: c, life });
            return;
        }
        let name = client.name.clone();
        self.server.subscribe(&name);
        let client = &mut self.clients[c];
        client.push.subscription += 1;
        client.push.works = true;
        client.push.heard = Notifications::On;
        client.push.last = self.kernel.now;
        client.disturbed_at = self.kernel.now;
        if client.link.up {
            self.post(c, 0, What::Link(LinkEvent::Notifications(Notifications::On)));
        }
    }
}
