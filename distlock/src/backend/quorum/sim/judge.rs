//! The judge: conditions that must always hold, and the required end of a run.

use super::config::{MILLI, SECOND};
use super::world::{Believer, World};
use crate::backend::{Token, parse_owner, token_text};
use crate::protocol::Time;
use crate::simulation::Notice;

/// A lock that was held for this long without a fault is on every reachable server.
const WIDE: u64 = 1_500 * MILLI;
/// The longest time of a request for a lock without faults.
const ASKING: u64 = 300 * MILLI;
/// Locks with shorter leases than this may be lost because of a few slow replies, in milliseconds.
const SHORT: u64 = 1_000;
/// At most this many later requests may get a key before an earlier one.
const OVERTAKEN: u32 = 40;

impl World {
    /// From now on, a process believes that it holds the key.
    pub(super) fn believes(&mut self, process: usize, key: usize, token: Token, until: Time) {
        let believers = std::mem::take(&mut self.keys[key].believers);
        let still = believers
            .into_iter()
            .filter(|other| self.processes[other.process].clock.at(self.now) < other.until);
        let still: Vec<Believer> = still.collect();
        if let Some(other) = still.first().filter(|_| !self.cfg.unrepaired) {
            self.fail(format!(
                "overlap: process {process} holds k{key} with {token:?} and so does {other:?}"
            ));
        }
        if self.keys[key].closed_until > self.now {
            self.fail(format!("min_hold: process {process} holds k{key}, which nobody may have yet"));
        }
        if still.is_empty() && self.cfg.is_calm() && self.cfg.drift == 0 {
            self.judge_progress(process, key);
        }
        if still.is_empty() {
            self.judge_stall(process, key);
        }
        self.keys[key].believers = still;
        self.keys[key].believers.push(Believer { process, token, until, since: self.kernel.now });
    }

    fn judge_progress(&mut self, process: usize, key: usize) {
        let since = self.processes[process].wanted_since(key);
        let waited = self.now.saturating_sub(self.keys[key].free_since.max(since));
        if waited > 4 * SECOND {
            self.fail(format!(
                "progress: k{key} stayed free for {} ms while somebody waited",
                waited / MILLI
            ));
        }
        for other in (0..self.processes.len()).filter(|other| *other != process) {
            let overtaken = self.processes[other].is_overtaken(key, since);
            self.stats.overtaken = self.stats.overtaken.max(overtaken);
            if overtaken > OVERTAKEN {
                self.fail(format!("starvation: {overtaken} got k{key} before process {other}"));
            }
        }
    }

    /// Checks that a key was not free for too long before a waiting process got it.
    fn judge_stall(&mut self, process: usize, key: usize) {
        let since = self.processes[process].wanted_since(key).max(self.keys[key].free_since);
        let waited = self.now.saturating_sub(since) / MILLI;
        if self.cfg.stall.is_some_and(|most| waited > most) {
            self.fail(format!("stall: process {process} waited {waited} ms for k{key}, which was free"));
        }
        let waited = self.now.saturating_sub(self.processes[process].wanted_since(key)) / MILLI;
        if self.cfg.longest_wait.is_some_and(|most| waited > most) {
            self.fail(format!("wait: process {process} waited {waited} ms for k{key}"));
        }
    }

    /// Checks that a wait costs only a few commands, for any number of waiters.
    pub(super) fn judge_cost(&mut self) {
        let Some(most) = self.cfg.most_commands else { return };
        let (commands, sections) = (self.stats.commands, self.stats.acquired);
        if commands > most * sections {
            self.fail(format!("cost: {commands} commands for {sections} sections"));
        }
    }

    /// From now on, a holder uses this block of fencing tokens.
    pub(super) fn uses_fences(&mut self, process: usize, key: usize, token: Token, first: u64, count: u32) {
        let watch = &mut self.keys[key];
        if !watch.believers.iter().any(|one| one.process == process && one.token == token) {
            return;
        }
        let last = watch.last_fence;
        watch.last_fence = first + u64::from(count) - 1;
        if first <= last {
            self.fail(format!("fence: process {process} got {first} for k{key} after {last}"));
        }
    }

    pub(super) fn extends(&mut self, process: usize, key: usize, token: Token, until: Time) {
        for believer in &mut self.keys[key].believers {
            if believer.token == token && believer.process == process {
                believer.until = believer.until.max(until);
            }
        }
    }

    pub(super) fn gives_up(&mut self, process: usize, key: usize, token: Token) {
        self.judge_width(process, key, token);
        self.measure_overlaps(process, key, token);
        let watch = &mut self.keys[key];
        watch.believers.retain(|one| one.process != process || one.token != token);
        if watch.believers.is_empty() {
            watch.free_since = self.kernel.now;
        }
    }

    /// Measures overlaps when this process stops believing that it holds the lock.
    fn measure_overlaps(&mut self, process: usize, key: usize, token: Token) {
        let is_it = |one: &&Believer| one.process == process && one.token == token;
        let believers = &self.keys[key].believers;
        let Some(since) = believers.iter().find(is_it).map(|one| one.since) else { return };
        for other in believers.iter().filter(|one| !is_it(one)) {
            let both = self.kernel.now - since.max(other.since);
            self.stats.overlaps += 1;
            self.stats.longest_overlap = self.stats.longest_overlap.max(both);
        }
    }

    /// Whether, since then, the connection of a process to a server never broke, and neither of them had a fault.
    fn is_steady(&self, process: usize, node: usize, since: u64) -> bool {
        let link = &self.processes[process].links[node];
        let undisturbed = self.nodes[node].troubled_until.max(self.processes[process].troubled_until);
        link.is_sound_since().is_some_and(|sound| sound <= since) && undisturbed <= since
    }

    fn holder_at(&self, node: usize, key: usize) -> Option<std::sync::Arc<str>> {
        let name = super::process::key_name(key);
        self.nodes[node].server.value(self.server_time(node), &name).map(|(text, _)| text)
    }

    /// Whether the process that left this on a server could have released it long ago.
    fn can_give_back(&self, text: &str, node: usize) -> bool {
        let Some((name, _)) = parse_owner(text) else { return false };
        if self.nodes[node].unheard.iter().any(|unheard| unheard == text) {
            return false;
        }
        let process = self.processes.iter().position(|process| &*process.name == name);
        process.is_some_and(|process| self.is_steady(process, node, self.now - WIDE))
    }

    fn judge_width(&mut self, process: usize, key: usize, token: Token) {
        let believer =
            self.keys[key].believers.iter().find(|one| one.process == process && one.token == token);
        let Some(&Believer { since, until, .. }) = believer else { return };
        let left = self.processes[process].clock.at(self.now) < until;
        if !left || self.now - since < WIDE || self.cfg.later > 0.0 || self.cfg.unrepaired {
            return;
        }
        let text = token_text(&self.processes[process].name, token);
        for node in 0..self.nodes.len() {
            let steady = !self.nodes[node].set_back
                && self.nodes[node].unnoticed_until < self.now
                && self.is_steady(process, node, self.now - WIDE)
                && self.cfg.slow.is_none_or(|(at, _)| at != node);
            if steady && self.holder_at(node, key).as_deref() != Some(text.as_str()) {
                let found = self.holder_at(node, key);
                if found.as_ref().is_some_and(|text| !self.can_give_back(text, node)) {
                    continue;
                }
                self.fail(format!(
                    "width: k{key} of process {process} is not on server {node} but {found:?}"
                ));
            }
        }
    }

    /// Judges the loss of a lock whose lease its holder renews.
    pub(super) fn judge_loss(&mut self, process: usize, key: usize, token: Token, ttl: u64) {
        let believer =
            self.keys[key].believers.iter().find(|one| one.process == process && one.token == token);
        let Some(&Believer { since, .. }) = believer else { return };
        if ttl < SHORT || self.cfg.later > 0.0 || self.cfg.slow.is_some() || self.cfg.unrepaired {
            return;
        }
        // Servers may have forgotten their replies to the request since then.
        let since = since.max(self.now.saturating_sub(ttl * MILLI + SECOND)).saturating_sub(ASKING);
        let text = token_text(&self.processes[process].name, token);
        let good = (0..self.nodes.len()).filter(|node| {
            let free = self.holder_at(*node, key).is_none_or(|holder| *holder == *text);
            free && self.is_steady(process, *node, since)
        });
        let good = good.count();
        if good > self.nodes.len() / 2 {
            self.fail(format!("needless loss: process {process} lost k{key} with {good} servers steady"));
        }
    }

    /// Whether the promise still holds if this server loses its data now. It does if a majority of the others has the
    /// same locks, and at most a minority is without its data at the same time.
    pub(super) fn may_forget(&self, node: usize, notice: Notice) -> bool {
        let others = || (0..self.nodes.len()).filter(move |other| *other != node);
        let most = self.nodes.len() / 2 + 1;
        let without = others().filter(|other| self.nodes[*other].forgot).count();
        if without + 1 > self.cfg.minority() {
            return false;
        }
        let counter = self.nodes[node].server.counter();
        if notice == Notice::Comes || self.cfg.unrepaired {
            return true;
        }
        let know = others().filter(|other| self.nodes[*other].server.counter() >= counter).count();
        know >= most
            && (0..self.keys.len()).all(|key| match self.holder_at(node, key) {
                None => true,
                Some(text) => {
                    others().filter(|other| self.holder_at(*other, key).as_ref() == Some(&text)).count()
                        >= most
                }
            })
    }

    /// Checks that all locks were released on all servers, except those of crashed processes.
    pub(super) fn look_for_residue(&mut self) {
        for at in (0..self.nodes.len()).filter(|at| !self.nodes[*at].set_back).collect::<Vec<_>>() {
            let server_time = self.server_time(at);
            for (key, text) in self.nodes[at].server.contents(server_time) {
                let Some((name, _)) = parse_owner(&text) else { continue };
                if self.processes.iter().any(|process| &*process.name == name) {
                    self.fail(format!("residue: {text} is left in {key} of server {at}"));
                }
            }
        }
        for index in 0..self.processes.len() {
            if let Some(rest) = self.processes[index].coordinator.unfinished() {
                self.fail(format!("residue: process {index} still has something to do: {rest}"));
            }
        }
    }
}
