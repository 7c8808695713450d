//! Checks how long a lock may be held, and by which process. The oracle checks this every time, not only when another
//! process acquires the lock.

use std::sync::Arc;
use std::time::Duration;

use super::config::{MILLI, Profile};
use super::workload::{Request, State};
use super::world::{Event, World};
use crate::engine::{Command, Context, LONGEST_CLAIM, RenewPurpose, Renewal};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell};
use crate::protocol::{LockKind, Time, Token, op, parse_owner, token_text};

impl World {
    pub(super) fn check_limits(&mut self) {
        let beyond = (0..self.requests.len()).find_map(|index| Some((index, self.beyond_limit(index)?)));
        if let Some((index, what)) = beyond {
            self.fail("limits", format!("request {index} {what}"));
        }
        (0..self.requests.len()).for_each(|index| self.watch_expiry(index));
        for c in 0..self.clients.len() {
            self.check_pending_releases(c);
            self.check_waiters(c);
        }
        self.check_orphans();
    }

    /// Until when a request believes that it holds the lock, if it does.
    pub(super) fn believed_until(&self, index: usize) -> Option<Time> {
        let request = &self.requests[index];
        match request.cell()?.peek(self.clients[request.client].clock.at(self.now)) {
            CellState::Until(until) => Some(until),
            CellState::Lost(_) | CellState::Released => None,
        }
    }

    /// Notes since when the lease of a request has been over before its process noticed. A thread that was preempted
    /// after it had read the clock may still extend it.
    fn watch_expiry(&mut self, index: usize) {
        let (request, now) = (&self.requests[index], self.now);
        let clock = self.clients[request.client].clock;
        let state = request.cell().map(|cell| cell.peek(clock.at(now)));
        let since = match state {
            Some(CellState::Lost(LostReason::Expired)) => request.expired_since.or(Some(now)),
            Some(CellState::Lost(_)) => request.expired_since,
            Some(CellState::Until(_) | CellState::Released) | None => None,
        };
        self.requests[index].expired_since = since;
    }

    fn beyond_limit(&self, index: usize) -> Option<String> {
        let request = &self.requests[index];
        let until = self.believed_until(index)?;
        // The limits of a request for several keys count from the time when it had all of them.
        let since = match (request.group, request.begun) {
            (Some(_), begun) => begun?,
            (None, _) => request.cell()?.held_since,
        };
        let beyond = |end: Time| until.duration_since(end).as_millis();
        let capped = request.max_hold.map_or(Time::MAX, |max| since.after(max));
        if until > capped {
            return Some(format!("holds the lock {} ms beyond max_hold", beyond(capped)));
        }
        let own = since.after(request.ttl).max(request.extended_until);
        if request.renewal == Renewal::Never && until > own {
            return Some(format!("holds the lock {} ms beyond its ttl", beyond(own)));
        }
        // A grant is short, and is nevertheless extended to the ttl once.
        let unclaimed = since.after(request.ttl);
        if !request.picked_up && until > unclaimed {
            return Some(format!("keeps the lock {} ms beyond its ttl, and nobody knows", beyond(unclaimed)));
        }
        None
    }

    /// Whether the lease has time left, and the lock was not lost or only for a reason that does not affect the lease.
    pub(super) fn lease_goes_on(&self, index: usize, cell: &LeaseCell) -> bool {
        let request = &self.requests[index];
        match request.was_lost {
            // No caller had taken it up.
            _ if !request.picked_up => false,
            None => true,
            Some(LostReason::MaxHold | LostReason::Shutdown) => {
                let (server_time, c) = (self.server_time(), request.client);
                let text = token_text(&self.clients[c].name, cell.token);
                let name = &self.keys[request.key].name;
                let leases = self.server.leases(server_time, name);
                let until = leases.iter().find(|(lease, ..)| **lease == *text).map_or(0, |lease| lease.2.0);
                let slack = request.ttl / 20 + Duration::from_nanos(self.reaction());
                server_time.0 + u64::try_from(slack.as_micros()).unwrap_or(0) < until
            }
            Some(LostReason::Expired | LostReason::Taken | LostReason::Released) => false,
        }
    }

    /// Checks that a request that gets the lock has time to renew it, or the full time that it asked for.
    pub(super) fn check_remaining(&mut self, c: usize, index: usize, cell: &Arc<LeaseCell>) {
        let request = &self.requests[index];
        let calm = self.cfg.is_whole() && self.cfg.in_order() && !self.cfg.is_short();
        if !calm || self.fault_at > 0 {
            return;
        }
        let local = self.clients[c].clock.at(self.now);
        let CellState::Until(until) = cell.peek(local) else { return };
        let least = match request.renewal {
            Renewal::Keep => LONGEST_CLAIM.min(request.ttl) / 2,
            Renewal::Never if request.group.is_none() => request.ttl.mul_f64(0.99),
            Renewal::Never => LONGEST_CLAIM.min(request.ttl) / 2,
        };
        let least = least.min(request.max_hold.unwrap_or(least));
        let least = least.saturating_sub(Duration::from_nanos(self.reaction()));
        if until.duration_since(local) < least {
            let what = format!("request {index} got {} ms of it", until.duration_since(local).as_millis());
            self.fail("short lease", what);
        }
    }

    /// Checks that a renewal asks for the longest time that any holder wanted when the engine created it. If an
    /// extension overtakes it on the way to the wire, it may ask for less: no store shortens a lease by a renewal, and
    /// the engine counts the answer from when the renewal was created.
    pub(super) fn check_renewal(&mut self, c: usize, context: &Context, command: &Command) {
        let Command::Renew(RenewPurpose { ticket: None, .. }, op::Renew { ttl, .. }) = command else {
            return;
        };
        self.clients[c].renewed.insert(context.token, self.kernel.now);
        let short = (0..self.requests.len()).find(|index| {
            let request = &self.requests[*index];
            let mine = request.client == c
                && request.renewal == Renewal::Keep
                && request.max_hold.is_none()
                && request.picked_up
                && request
                    .cell()
                    .is_some_and(|cell| cell.token == context.token && cell.held_since < context.sent);
            let wanted = request.longest.filter(|(asked, _)| *asked < context.sent);
            let wanted = wanted.map_or(request.ttl, |(_, ttl)| ttl);
            mine && wanted > *ttl && self.believed_until(*index).is_some()
        });
        if let Some(index) = short {
            self.fail("renewal", format!("request {index} wants more than {} ms", ttl.as_millis()));
        }
    }

    /// Checks that a lease that lasts longer than its hold is not released before its body has ended, except if
    /// `min_hold` keeps the key. (A group of readers ends with the first that leaves after the loss.)
    pub(super) fn check_body(&mut self, c: usize, context: &Context, command: &Command) {
        let Command::Release(_, op::Release { keep_taken_for: None, .. }) = command else { return };
        // With a session, the process releases the lease when its ttl is over. The server's lease lasts longer if the
        // server's clock was set back, or if a renewal was in flight at the loss.
        let is_renewed = self.cfg.sessions && self.clients[c].renewed.contains_key(&context.token);
        if is_renewed || self.stepped_at > 0 {
            return;
        }
        let early = (0..self.requests.len()).find(|index| {
            let request = &self.requests[*index];
            let is_extended = self.cfg.sessions && request.extend.is_some();
            let is_lost = request.client == c && request.was_lost.is_some() && !is_extended;
            let cell = request.cell().filter(|cell| cell.token == context.token);
            is_lost
                && request.kind != LockKind::Shared
                && cell.is_some_and(|cell| self.lease_goes_on(*index, cell))
        });
        if let Some(index) = early {
            self.fail("lost lease", format!("it is released although request {index} has not ended"));
        }
    }

    /// The process has just learned that the server's clock went forward: it renews what it holds.
    pub(super) fn watch_renewal_after_step(&mut self, c: usize) {
        let (life, since) = (self.clients[c].life, self.now);
        let late = self.reaction();
        if self.cfg.profile == Profile::Forward {
            self.after(late, Event::RenewalIsDue { client: c, life, since });
        }
    }

    pub(super) fn renewal_is_due(&mut self, c: usize, life: u32, since: u64) {
        let client = &self.clients[c];
        if client.life != life || !self.is_able(c) || client.disturbed_at >= since || self.stepped_at >= since
        {
            return;
        }
        let forgotten = (0..self.requests.len()).find(|index| {
            let request = &self.requests[*index];
            let renews = request.renewal == Renewal::Keep && request.max_hold.is_none() && request.picked_up;
            // The lease of a holder that took the lock up later is renewed in time, but not at once.
            let held_since_before =
                request.client == c && request.acquired < self.stepped_at && request.in_hand_since < since;
            let renewed = |token: Token| client.renewed.get(&token).is_some_and(|at| *at >= self.stepped_at);
            renews
                && held_since_before
                && self.believed_until(*index).is_some()
                && request.cell().is_some_and(|cell| !renewed(cell.token))
        });
        if let Some(index) = forgotten {
            self.fail("renewal", format!("request {index} is not renewed after a step"));
        }
    }

    /// Checks that every waiter of a process belongs to a living request: dropped requests are cancelled.
    fn check_waiters(&mut self, c: usize) {
        if !self.clients[c].alive {
            return;
        }
        for key in 0..self.keys.len() {
            let waits = self.clients[c].waiting_here(&self.keys[key].name);
            let mine = |request: &&Request| request.client == c && request.key == key;
            let wanted = self.requests.iter().filter(mine).filter(|request| !request.is_over()).count();
            if waits > wanted {
                self.fail("waiters", format!("{waits} wait in process {c}, for {wanted} requests"));
            }
        }
    }

    /// At most one release is pending for each token that may have been applied.
    fn check_pending_releases(&mut self, c: usize) {
        if !self.clients[c].alive {
            return;
        }
        let mut pending = self.clients[c].pending_releases();
        let count = pending.len();
        pending.sort();
        pending.dedup();
        if pending.len() < count {
            let what = format!("process {c} has {count} for {} tokens", pending.len());
            self.fail("pending releases", what);
        }
    }

    /// Checks that the server has no token of a living process that does not want it, and does not release it.
    fn check_orphans(&mut self) {
        let server_time = self.server_time();
        let mut orphans = Vec::new();
        for key in 0..self.keys.len() {
            let name = self.keys[key].name.clone();
            let leases = self.server.leases(server_time, &name).into_iter().map(|(text, ..)| text);
            let queue = self.server.queue(server_time, &name);
            let queue = queue.iter().map(|entry| token_text(&entry.client, entry.token).into());
            for text in leases.chain(queue) {
                if self.is_orphan(key, &text) {
                    let since = self.orphans.get(&(key, text.clone())).copied().unwrap_or(self.now);
                    orphans.push(((key, text), since));
                }
            }
        }
        self.orphans = orphans.into_iter().collect();
        let most = self.reaction() + 2_500 * MILLI;
        let old = self.orphans.iter().filter(|(_, since)| self.now > **since + most).min();
        if let Some(((key, text), since)) = old {
            let what =
                format!("{text} is left in {} for {} ms", self.keys[*key].name, (self.now - since) / MILLI);
            self.fail("orphan", what);
        }
    }

    fn is_orphan(&self, key: usize, text: &str) -> bool {
        let Some((name, token)) = parse_owner(text) else { return false };
        let Some(c) = self.clients.iter().position(|c| c.alive && *c.name == *name) else { return false };
        let calm = self.is_able(c) && !self.tickets.contains_key(text);
        let client = &self.clients[c];
        let key = &self.keys[key].name;
        let known = client.knows(key, token) || client.pending_releases().contains(&(key.clone(), token));
        calm && !known && !self.is_leaving(c, token) && !self.is_in_hand(c, token)
    }

    /// Whether a caller still has the guard, lost or not.
    fn is_in_hand(&self, c: usize, token: Token) -> bool {
        self.requests.iter().any(|request| {
            request.client == c && matches!(&request.state, State::Holding(cell) if cell.token == token)
        })
    }
}
