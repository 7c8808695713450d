//! Decides which servers are connected, which of them count, and whether they are a majority.

use std::time::Duration;

use super::super::redis::{Mark, Origin, ServerNote};
use super::super::{
    EarlierCommands, Failure, LATE_COMMANDS, LinkEvent, Notifications, ServerTime, StoreError,
};
use super::coordinator::Coordinator;
use super::effect::{Effect, NewLink, Now, Writing};
use super::formation::FormationStage;
use super::member::{Eligibility, Member, Occasion, ServerMemory};
use super::round::majority;
use crate::protocol::mutated;
use crate::protocol::{Time, drift};

/// How long the first majority waits for the other servers.
const FIRST_MAJORITY_WAIT: Duration = Duration::from_millis(250);

/// How often the servers are probed. An old observation of a server's clock is useless.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// How often the servers are probed while there is a young server that another process may attest.
const YOUNG_PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// How often the notes on servers are prolonged.
const NOTE_RENEWAL_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Times by the clocks of two majorities differ by no more than this.
const MAJORITY_CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Fencing tokens follow the clocks of the processes, which are ahead of other clocks by less than this, in µs.
const CLOCKS_AHEAD: u64 = 60_000_000;

impl Coordinator {
    /// A server is ready for commands.
    pub(super) fn member_joined(&mut self, now: Now, node: usize, link: NewLink) {
        let NewLink { sent, earlier, pushes, origin } = link;
        let twin = (0..self.members.len()).find(|other| {
            *other != node && self.members[*other].run_id.as_deref() == Some(origin.run_id.as_str())
        });
        if let Some(twin) = twin {
            let text = format!(
                "{} and {} are the same server: a quorum needs different ones",
                self.names[twin], self.names[node]
            );
            return self.misconfigured(now, node, StoreError::new(Failure::Refused, text));
        }
        let Some(member) = self.members.get_mut(node) else { return };
        member.up = true;
        if earlier == EarlierCommands::MayArrive {
            member.former_commands_until = Some(now.time.after(LATE_COMMANDS));
        }
        member.misconfigured = None;
        member.cause = None;
        member.pushes = pushes;
        let memory = member.joined(now.time, sent, &origin);
        self.heard_origin(now, node, sent, &origin, memory);
        self.formation.untouched &= origin.attested.is_none();
        self.grow_up(now);
        self.keep_notes(now, node);
        self.look_soon(now);
        self.retry_releases(now, node, Occasion::Connected);
        self.refill(now, node);
        self.gather(now, None);
    }

    /// The reply to a probe that was sent at `sent`.
    pub(super) fn looked(&mut self, now: Now, node: usize, sent: Time, origin: &Origin) {
        let Some(member) = self.members.get_mut(node) else { return };
        let memory = member.looked(now.time, sent, origin);
        self.heard_origin(now, node, sent, origin, memory);
        self.grow_up(now);
        let is_old = |kept| now.time.duration_since(kept) > NOTE_RENEWAL_INTERVAL;
        if self.members.get(node).is_some_and(|member| member.kept.is_none_or(is_old)) {
            self.keep_notes(now, node);
        }
        self.look_soon(now);
    }

    fn heard_origin(&mut self, now: Now, node: usize, sent: Time, origin: &Origin, memory: ServerMemory) {
        if !mutated!(LongestTtlIsOurs) {
            self.longest_ttl = self.longest_ttl.max(origin.longest_ttl);
        }
        self.heard_of_memory(now, node, memory);
        if let Some(member) = self.members.get_mut(node) {
            let memory = member.heard_time(origin.server_time, sent, now.time);
            self.heard_of_memory(now, node, memory);
        }
    }

    /// If a server has forgotten locks that this process holds, they are acquired there again.
    pub(super) fn heard_of_memory(&mut self, now: Now, node: usize, memory: ServerMemory) {
        if memory == ServerMemory::Lost {
            self.all_missing(node);
            self.refill(now, node);
            self.look_soon(now);
        }
    }

    /// Prolongs the notes, so that they outlive the processes that wrote them.
    fn keep_notes(&mut self, now: Now, node: usize) {
        let longest_ttl = self.longest_ttl;
        let Some(member) = self.members.get_mut(node) else { return };
        if let Some(note) = member.note(Mark::Keep, longest_ttl)
            && member.counts()
        {
            member.kept = Some(now.time);
            member.longest_ttl = member.longest_ttl.max(longest_ttl);
            self.out.push(Effect::Note { node, note });
        }
    }

    /// A note on a server was written, or could not be.
    pub(super) fn noted(&mut self, now: Now, node: usize, note: &ServerNote, writing: Writing) {
        let after = self.grown_after();
        let Some(member) = self.members.get_mut(node) else { return };
        if writing == Writing::Failed {
            member.longest_ttl = Duration::ZERO;
        }
        if note.mark == Mark::Count {
            member.was_noted(now.time, &note.run_id, writing, after);
        }
    }

    /// Notes a longer ttl on a server before the first lease with this ttl is requested there. A process that waits
    /// until the server can have forgotten no lease needs it.
    pub(super) fn note_ttl(&mut self, node: usize, ttl: Duration) {
        let Some(member) = self.members.get_mut(node) else { return };
        if member.longest_ttl < ttl
            && let Some(note) = member.note(Mark::None, ttl)
        {
            member.longest_ttl = ttl;
            self.out.push(Effect::Note { node, note });
        }
    }

    /// A server is not connected, or an attempt to connect to it has failed.
    pub(super) fn member_left(&mut self, now: Now, node: usize, cause: StoreError) {
        if cause.kind == Failure::Refused {
            return self.misconfigured(now, node, cause);
        }
        let Some(member) = self.members.get_mut(node) else { return };
        let was_up = std::mem::replace(&mut member.up, false);
        member.cause = Some(cause.clone());
        if was_up {
            self.move_on(now, node);
        }
        self.gather(now, Some(cause));
    }

    fn misconfigured(&mut self, now: Now, node: usize, cause: StoreError) {
        let Some(member) = self.members.get_mut(node) else { return };
        member.up = false;
        member.cause = Some(cause.clone());
        member.misconfigured = Some(cause.clone());
        self.gather(now, Some(cause));
    }

    pub(super) fn listens(&mut self, now: Now, node: usize, pushes: Notifications) {
        if let Some(member) = self.members.get_mut(node) {
            member.pushes = pushes;
        }
        self.move_on(now, node);
        self.gather(now, None);
    }

    /// Lets a server count as soon as every lease that it may have forgotten has expired. If no server was ever used,
    /// all of them count.
    fn grow_up(&mut self, now: Now) {
        let met = self.members.iter().all(|member| member.eligibility != Eligibility::Unknown);
        if self.formation.untouched && met {
            return self.first_use(now);
        }
        self.compare_clocks(now);
        self.note_meetings(now);
        for node in 0..self.members.len() {
            self.may_grow_up(now, node);
        }
        if self.members.iter().any(|member| member.eligibility == Eligibility::Eligible) {
            self.formation.untouched = false;
        }
    }

    fn first_use(&mut self, now: Now) {
        self.formation.untouched = false;
        for node in 0..self.members.len() {
            let member = &mut self.members[node];
            if let Some(note) = member.note(Mark::Count, self.longest_ttl) {
                member.begins_to_count();
                member.agrees = true;
                member.kept = Some(now.time);
                member.longest_ttl = self.longest_ttl;
                self.out.push(Effect::Note { node, note });
            }
        }
    }

    fn may_grow_up(&mut self, now: Now, node: usize) {
        let member = &self.members[node];
        let (Eligibility::TooYoung(since) | Eligibility::ClockStepped(since), Some(note)) =
            (member.eligibility, member.note(Mark::Count, self.longest_ttl))
        else {
            return;
        };
        if member.noting || !member.up || now.time.duration_since(since) < self.grown_after() {
            return;
        }
        let Some(fences) = self.counter_elsewhere(now, node, since) else { return };
        let member = &mut self.members[node];
        member.noting = true;
        member.kept = Some(now.time);
        member.longest_ttl = note.longest_ttl;
        let fences = if mutated!(CounterNotHandedOver) { 0 } else { fences };
        self.out.push(Effect::Note { node, note: ServerNote { fences, ..note } });
    }

    /// The highest counter of fencing tokens on the other servers. `None`: since `since`, neither a majority of servers
    /// with their data nor all other servers were probed. One server of such a set knows every token that this server
    /// has forgotten. After a time limit, a number is returned that is most likely above all of these, if this server
    /// may have forgotten some.
    fn counter_elsewhere(&self, now: Now, node: usize, since: Time) -> Option<u64> {
        let others = || self.members.iter().enumerate().filter(|(other, _)| *other != node);
        let told = || others().filter(|(_, member)| member.looked >= Some(since));
        let remembering = told().filter(|(_, member)| member.remembers || !member.forgot).count();
        let highest = self.members.iter().map(|member| member.fences).max().unwrap_or(0);
        if remembering >= majority(self.members.len()) || told().count() == others().count() {
            return Some(highest);
        }
        let is_over = now.time.duration_since(since) >= self.grown_after() * 2;
        let latest = self.time_of_most(now).unwrap_or(0).max(now.wall).saturating_add(CLOCKS_AHEAD);
        is_over.then_some(if self.members[node].forgot { highest.max(latest) } else { highest })
    }

    /// If a clock differs from those of a majority, it may have been set while no process watched it.
    fn compare_clocks(&mut self, now: Now) {
        let most = majority(self.members.len());
        let after = self.grown_after();
        for node in 0..self.members.len() {
            let member = &self.members[node];
            if member.agrees || member.eligibility == Eligibility::Unknown {
                continue;
            }
            let same =
                self.members.iter().filter(|other| other.up && member.shows_the_time_of(other, now.time));
            let is_watched_long =
                || member.watched.is_some_and(|began| now.time.duration_since(began) >= after);
            let agrees = member.up && (same.count() >= most || is_watched_long());
            self.members[node].agrees = agrees;
        }
    }

    /// The time that a majority of clocks shows.
    fn time_of_most(&self, now: Now) -> Option<u64> {
        let agreeing = self.members.iter().filter(|member| member.up && member.agrees);
        let mut times: Vec<u64> = agreeing.filter_map(|member| member.time(now.time)).collect();
        if times.len() < majority(self.members.len()) {
            return None;
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// Notes when a run of a server was first met, and uses such notes. So a process that ends before a server is old
    /// enough still helps the next process.
    fn note_meetings(&mut self, now: Now) {
        let Some(server_time) = self.time_of_most(now) else { return };
        for node in 0..self.members.len() {
            let member = &mut self.members[node];
            let (Eligibility::TooYoung(since), Some(note), true) =
                (member.eligibility, member.note(Mark::None, Duration::ZERO), member.up)
            else {
                continue;
            };
            if let Some(met) = member.met {
                let age = Duration::from_micros(server_time.saturating_sub(met.0))
                    .saturating_sub(MAJORITY_CLOCK_TOLERANCE);
                member.eligibility = Eligibility::TooYoung(since.min(now.time.before(age)));
            } else {
                member.met = Some(ServerTime(server_time));
                self.out.push(Effect::Note { node, note: ServerNote { met: member.met, ..note } });
            }
        }
    }

    /// After this time, no process can hold a lock that the server has forgotten.
    fn grown_after(&self) -> Duration {
        self.longest_ttl + drift(self.longest_ttl)
    }

    pub(super) fn membership_due(&self) -> Option<Time> {
        let grown = self.members.iter().filter_map(|member| match member.eligibility {
            // It is checked again at this time, even if it also waits for another event.
            Eligibility::TooYoung(at) | Eligibility::ClockStepped(at) if !member.noting => {
                Some(at.after(self.grown_after())).filter(|at| Some(*at) > self.formation.fired)
            }
            Eligibility::Eligible if member.up && !member.agrees => {
                member.watched.map(|began| began.after(self.grown_after()))
            }
            _ => None,
        });
        let forming = match self.formation.stage {
            FormationStage::Forming(until) => until,
            FormationStage::Up | FormationStage::Down => None,
        };
        grown.chain(forming).chain([self.formation.look_at]).min()
    }

    /// A process that starts while another process begins to use new servers finds only some of the attestation marks.
    /// So it probes again soon.
    fn look_soon(&mut self, now: Now) {
        let waits = |m: &Member| {
            m.up && matches!(m.eligibility, Eligibility::TooYoung(_) | Eligibility::ClockStepped(_))
        };
        if self.members.iter().any(waits) {
            self.formation.look_at = self.formation.look_at.min(now.time.after(YOUNG_PROBE_INTERVAL));
        }
    }

    fn look(&mut self, now: Now) {
        if self.formation.look_at <= now.time {
            self.formation.look_at = now.time.after(PROBE_INTERVAL);
            self.look_soon(now);
            let here = (0..self.members.len()).filter(|node| self.members[*node].up);
            self.out.extend(here.map(|node| Effect::Probe { node }));
        }
    }

    /// Probes all servers immediately, because a server seems to have lost its data.
    pub(super) fn look_now(&mut self, now: Now) {
        self.formation.look_at = self.formation.look_at.min(now.time);
    }

    pub(super) fn fire_membership(&mut self, now: Now) {
        self.formation.fired = Some(now.time);
        self.grow_up(now);
        self.look(now);
        if matches!(self.formation.stage, FormationStage::Forming(Some(_))) {
            self.gather(now, None);
        }
    }

    /// Reports when a majority is reached or lost. `cause` is the reason why a server is missing, if it is new.
    fn gather(&mut self, now: Now, cause: Option<StoreError>) {
        let (all, here) = (self.members.len(), self.members.iter().filter(|member| member.up).count());
        let most = majority(all);
        match self.formation.stage {
            FormationStage::Forming(until) => {
                let misconfigured = self.members.iter().find_map(|member| member.misconfigured.clone());
                let failed = self.members.iter().filter(|member| member.cause.is_some()).count();
                if let Some(cause) = misconfigured {
                    self.formation.stage = FormationStage::Forming(None);
                    self.out.push(Effect::Link(LinkEvent::Down { cause }));
                } else if here >= most
                    && (here + failed == all || until.is_some_and(|until| until <= now.time))
                {
                    self.is_up();
                } else if here >= most {
                    let until = until.unwrap_or(now.time.after(FIRST_MAJORITY_WAIT));
                    self.formation.stage = FormationStage::Forming(Some(until));
                } else {
                    // The next majority waits for the others again. A time in the past would fire without end.
                    self.formation.stage = FormationStage::Forming(None);
                    if all - failed < most {
                        self.is_down(cause);
                    }
                }
            }
            FormationStage::Down if here >= most => self.is_up(),
            FormationStage::Up if here < most => {
                self.formation.stage = FormationStage::Down;
                self.is_down(cause);
            }
            FormationStage::Down => {
                if cause.is_some() {
                    self.is_down(cause);
                }
            }
            FormationStage::Up => {
                let pushes = self.pushes();
                if self.formation.pushes != pushes {
                    self.formation.pushes = pushes;
                    self.out.push(Effect::Link(LinkEvent::Notifications(pushes)));
                }
            }
        }
    }

    fn is_up(&mut self) {
        self.formation.stage = FormationStage::Up;
        self.formation.pushes = self.pushes();
        // The effects of earlier commands are released on each server separately.
        let pushes = self.formation.pushes;
        self.out.push(Effect::Link(LinkEvent::Up { earlier: EarlierCommands::Ended, pushes }));
    }

    fn is_down(&mut self, cause: Option<StoreError>) {
        let all = self.members.len();
        let here = self.members.iter().filter(|member| member.up).count();
        let cause = cause.or_else(|| self.members.iter().find_map(|member| member.cause.clone()));
        let text = format!("{here} of {all} servers are reachable, and {} are needed", majority(all));
        let cause = match cause {
            Some(cause) => StoreError::new(Failure::NotSent, format!("{text}; {cause}")),
            None => StoreError::new(Failure::NotSent, text),
        };
        self.out.push(Effect::Link(LinkEvent::Down { cause }));
    }

    /// Pushes of one server are enough.
    fn pushes(&self) -> Notifications {
        let hears = |member: &Member| member.up && member.pushes == Notifications::On;
        if self.members.iter().any(hears) { Notifications::On } else { Notifications::Off }
    }
}
