//! The state of one server: whether it is connected, whether its replies count, and the commands that must still be
//! sent to it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::redis::{Mark, Origin, ServerNote};
use super::super::{Notifications, ServerTime, StoreError, Token};
use super::effect::{MemberRelease, Writing};
use crate::protocol::{Time, When, mutated};
use distlock_store::engine::{ClockOffset, Step};

/// The pause between two attempts to release the rest of a token on a connected server.
pub(super) const RELEASE_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The clocks of two servers agree if they differ by no more than this.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Whether a server's replies count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// It was never connected.
    Unknown,
    Eligible,
    /// It may have forgotten everything from before this time, because it was restarted or its data was deleted.
    TooYoung(Time),
    /// Its clock was set forward at this time, or before.
    ClockStepped(Time),
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) up: bool,
    pub(super) pushes: Notifications,
    pub(super) eligibility: Eligibility,
    pub(super) run_id: Option<String>,
    /// The offset of its wall clock, from its replies.
    pub(super) clock: ClockOffset,
    /// The reason why it can never be one of these servers with its present configuration, if there is one.
    pub(super) misconfigured: Option<StoreError>,
    /// The last reason why it was not connected.
    pub(super) cause: Option<StoreError>,
    /// At most one release for each token.
    pub(super) pending_releases: BTreeMap<Token, MemberRelease>,
    /// Commands of a former connection may arrive until this time.
    pub(super) former_commands_until: Option<Time>,
    /// The number of commands without a reply.
    pub(super) unanswered: u32,
    /// The time of its last reply, or of the first command after it had replied to all others.
    pub(super) heard: Option<Time>,
    /// The time at which the server had a note that it counts in this run. If the note vanishes later, the server's
    /// data was deleted.
    noted: Option<Time>,
    /// A note that it counts is being written.
    pub(super) noting: bool,
    /// It has a note that it counted in this run or in an earlier one. So not all of its data was lost.
    pub(super) remembers: bool,
    /// It was restarted, or its data was deleted, and it has not counted since then.
    pub(super) forgot: bool,
    /// When its notes were last prolonged.
    pub(super) kept: Option<Time>,
    /// When the last probe that it has answered was sent.
    pub(super) looked: Option<Time>,
    /// The beginning of the uninterrupted watch over its clock.
    pub(super) watched: Option<Time>,
    /// Its clock agreed with a majority when the watch began, or the watch has lasted long enough.
    pub(super) agrees: bool,
    /// When a process first met this run of the server, by the clocks of a majority.
    pub(super) met: Option<ServerTime>,
    /// The longest ttl that it has noted.
    pub(super) longest_ttl: Duration,
    /// Its counter of fencing tokens, as far as its replies showed it.
    pub(super) fences: u64,
}

/// The reason for a check of the pending releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A timer has fired.
    Timer,
    /// The server has just been connected.
    Connected,
}

/// The state of a server's memory, from its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerMemory {
    /// The server has kept its memory.
    Kept,
    /// It may have forgotten locks.
    Lost,
}

impl Member {
    pub(super) fn new() -> Member {
        Member {
            up: false,
            pushes: Notifications::Off,
            eligibility: Eligibility::Unknown,
            run_id: None,
            clock: ClockOffset::default(),
            misconfigured: None,
            cause: None,
            pending_releases: BTreeMap::new(),
            former_commands_until: None,
            unanswered: 0,
            heard: None,
            noted: None,
            noting: false,
            remembers: false,
            forgot: false,
            kept: None,
            looked: None,
            watched: None,
            agrees: false,
            met: None,
            longest_ttl: Duration::ZERO,
            fences: 0,
        }
    }

    /// Whether a command has been without a reply for longer than `limit`.
    pub(super) fn is_silent(&self, now: Time, limit: Duration) -> bool {
        self.unanswered > 0 && self.heard.is_some_and(|heard| now.duration_since(heard) > limit)
    }

    pub(super) fn counts(&self) -> bool {
        let trusted = self.agrees || mutated!(ClocksNotCompared);
        (self.eligibility == Eligibility::Eligible && trusted) || mutated!(YoungServersCount)
    }

    /// A note on its present run.
    pub(super) fn note(&self, mark: Mark, longest_ttl: Duration) -> Option<ServerNote> {
        let run_id = self.run_id.clone()?;
        Some(ServerNote { run_id, mark, longest_ttl, fences: 0, met: None })
    }

    /// It was connected, and its probe was sent at `sent`. The watch over its clock starts again.
    pub(super) fn joined(&mut self, now: Time, sent: Time, origin: &Origin) -> ServerMemory {
        let same = self.run_id.as_deref() == Some(origin.run_id.as_str());
        self.watched = Some(now);
        self.agrees = false;
        if same && self.eligibility != Eligibility::Unknown {
            return self.looked(now, sent, origin);
        }
        self.run_id = Some(origin.run_id.clone());
        // It is another clock: compared with that of the former run, it would seem to have been set.
        self.clock.forget();
        self.forgets(now);
        if origin.is_attested() {
            self.noted = Some(now);
            self.begins_to_count();
        }
        self.told(sent, origin);
        ServerMemory::Lost
    }

    /// Its probe was sent at `sent`.
    pub(super) fn looked(&mut self, now: Time, sent: Time, origin: &Origin) -> ServerMemory {
        if self.run_id.as_deref() != Some(origin.run_id.as_str()) {
            // The connection is about to break.
            return ServerMemory::Kept;
        }
        let vanished = origin.attested.is_none() && self.noted.is_some_and(|noted| noted < sent);
        let lost = vanished && !mutated!(VanishedMarkIgnored);
        if lost {
            self.forgets(now);
        } else if origin.is_attested() {
            self.noted.get_or_insert(now);
            if matches!(self.eligibility, Eligibility::TooYoung(since) if since < sent) {
                self.begins_to_count();
            }
        }
        self.told(sent, origin);
        if lost { ServerMemory::Lost } else { ServerMemory::Kept }
    }

    fn told(&mut self, sent: Time, origin: &Origin) {
        self.looked = self.looked.max(Some(sent));
        self.remembers = origin.attested.is_some();
        self.met = origin.met;
        self.longest_ttl = origin.longest_ttl;
        self.has_counter(origin.fences);
    }

    /// It has reported that its counter is at `last`.
    pub(super) fn has_counter(&mut self, last: u64) {
        self.fences = self.fences.max(last);
    }

    /// It was restarted, or its data was deleted without a restart.
    fn forgets(&mut self, now: Time) {
        self.eligibility = Eligibility::TooYoung(now);
        self.forgot = true;
        self.noted = None;
        self.noting = false;
        self.met = None;
        self.fences = 0;
    }

    pub(super) fn begins_to_count(&mut self) {
        self.eligibility = Eligibility::Eligible;
        self.forgot = false;
    }

    /// A note that it counts was written, or could not be.
    pub(super) fn was_noted(&mut self, now: Time, run_id: &str, writing: Writing, after: Duration) {
        if self.run_id.as_deref() != Some(run_id) {
            return;
        }
        let grown = match self.eligibility {
            Eligibility::TooYoung(since) | Eligibility::ClockStepped(since) => {
                self.noting && now.duration_since(since) >= after
            }
            Eligibility::Eligible => true,
            Eligibility::Unknown => false,
        };
        if writing == Writing::Done && grown {
            self.begins_to_count();
            self.noted = Some(now);
        }
        self.noting = false;
    }

    /// It reported its time between `sent` and `seen`. A clock that was set forward has ended leases early,
    /// as if the server had forgotten them.
    pub(super) fn heard_time(&mut self, server_time: ServerTime, sent: Time, seen: Time) -> ServerMemory {
        match self.clock.observe(server_time, sent, seen) {
            Some(Step::Forward(_)) if !mutated!(ServerStepIgnored) => {
                self.eligibility = Eligibility::ClockStepped(seen);
                ServerMemory::Lost
            }
            _ => ServerMemory::Kept,
        }
    }

    /// Whether its clock and that of `other` may show the same time.
    pub(super) fn shows_the_time_of(&self, other: &Member, now: Time) -> bool {
        let (Some(mine), Some(theirs)) = (self.clock.offset(now), other.clock.offset(now)) else {
            return false;
        };
        let tolerance = CLOCK_TOLERANCE.as_nanos().cast_signed();
        mine.0 - theirs.1 <= tolerance && theirs.0 - mine.1 <= tolerance
    }

    /// The time that its clock shows, in microseconds.
    pub(super) fn time(&self, now: Time) -> Option<u64> {
        let (low, high) = self.clock.offset(now)?;
        u64::try_from((i128::from(now.0) + (low + high) / 2) / 1_000).ok()
    }

    /// Schedules a release after a pause if the server is connected. Otherwise it is sent when the server connects.
    pub(super) fn schedule_release(&mut self, now: Time, release: MemberRelease) {
        let at = if self.up { When::At(now.after(RELEASE_RETRY_PAUSE)) } else { When::OnLinkUp };
        if release.until > now {
            self.schedule_release_at(at, release);
        }
    }

    pub(super) fn schedule_release_at(&mut self, at: When, release: MemberRelease) {
        let known = self
            .pending_releases
            .entry(release.token)
            .or_insert_with(|| MemberRelease { at, ..release.clone() });
        known.at = known.at.or_earlier(at);
        known.round = known.round.max(release.round);
        known.until = known.until.max(release.until);
    }

    /// The releases that are due now. There are none while the server is not connected. When it has just connected, all
    /// are due.
    pub(super) fn take_due(&mut self, now: Time, occasion: Occasion) -> Vec<MemberRelease> {
        let (mut due, up) = (Vec::new(), self.up);
        self.pending_releases.retain(|_, release| {
            let has_come = release.at.time().is_some_and(|at| at <= now);
            if has_come && !up {
                release.at = When::OnLinkUp;
            }
            let is_due = match release.at {
                When::At(_) => has_come,
                When::OnLinkUp => occasion == Occasion::Connected,
            };
            if is_due {
                due.push(release.clone());
                return false;
            }
            release.until > now
        });
        due
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let due =
            |release: &MemberRelease| release.at.time().map_or(release.until, |at| at.min(release.until));
        self.pending_releases.values().map(due).min()
    }
}
