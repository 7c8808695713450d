//! The faults of one run: drawn from the seed, within a profile.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use crate::protocol::session::Session;
use crate::protocol::{LeaseEnds, LockKind, Time, Tuning};

pub(super) use crate::simulation::kernel::chance;
pub(super) use crate::simulation::{MICRO, MILLI, SECOND};

/// The faults that a run looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// Nothing goes wrong but cancellations.
    Calm,
    /// Everything in one process.
    Alone,
    /// Pushes are lost, late, doubled, reordered.
    Pushes,
    /// Push connections break and come back; while they are up nothing is lost.
    Deaf,
    /// No pushes at all.
    Polling,
    /// The number of listeners that a push reached is not known.
    Cluster,
    /// Links break, and former links are killed.
    Links,
    /// Links break, and late commands arrive afterwards.
    FormerLinksAlive,
    /// Processes crash, restart, and are not scheduled for a while.
    Crashes,
    /// Leases about as short as a round trip, clocks at the bounds of drift.
    Short,
    /// Plain `SET NX PX` clients.
    Foreign,
    /// An operator deletes locks by force.
    Forced,
    /// The server's clock is set back.
    Backward,
    /// The server's clock is set forward.
    Forward,
    /// The server restarts, with its data.
    Restart,
    /// The server loses its data.
    Wiped,
    /// Another server takes over, whose clock is ahead.
    Failover,
    /// Links break again and again.
    Flapping,
    /// The server answers with refusals, temporarily or permanently.
    Refusing,
    /// Machines are stopped, with their clocks.
    Stopped,
    /// Hundreds wait for one key.
    Crowd,
    /// Everything that the promises cover.
    Mixed,
}

pub(super) const PROFILES: [Profile; 22] = [
    Profile::Calm,
    Profile::Alone,
    Profile::Pushes,
    Profile::Deaf,
    Profile::Polling,
    Profile::Cluster,
    Profile::Links,
    Profile::FormerLinksAlive,
    Profile::Crashes,
    Profile::Short,
    Profile::Foreign,
    Profile::Forced,
    Profile::Backward,
    Profile::Forward,
    Profile::Restart,
    Profile::Wiped,
    Profile::Failover,
    Profile::Flapping,
    Profile::Refusing,
    Profile::Stopped,
    Profile::Crowd,
    Profile::Mixed,
];

/// The use of one key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    Exclusive,
    /// This part of the requests are readers.
    Readers(f64),
    Limited(u32),
    /// Also kinds that must not hold the key together.
    Clashing(u32),
}

impl Use {
    pub(super) fn draw(rng: &mut Rng) -> Use {
        match rng.u32(0..16) {
            0 => Use::Exclusive,
            1..9 => Use::Readers(pick(rng, &[0.3, 0.7, 0.7, 0.95, 1.0])),
            9..15 => Use::Limited(rng.u32(1..5)),
            _ => Use::Clashing(rng.u32(1..4)),
        }
    }

    pub(super) fn kind(self, rng: &mut Rng) -> LockKind {
        match self {
            Use::Exclusive => LockKind::Exclusive,
            Use::Readers(share) if chance(rng, share) => LockKind::Shared,
            Use::Readers(_) => LockKind::Exclusive,
            Use::Limited(limit) => LockKind::Limited { max_holders: limit },
            Use::Clashing(limit) => match rng.u32(0..6) {
                0 => LockKind::Exclusive,
                1 => LockKind::Shared,
                2 => LockKind::Limited { max_holders: limit + 1 },
                _ => LockKind::Limited { max_holders: limit },
            },
        }
    }
}

/// The uses of the keys of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Uses {
    All(Use),
    /// The use is drawn for each key.
    Drawn,
}

/// What executes the effects of the engines of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The world: it can preempt a thread wherever a thread can be preempted.
    Engine,
    /// The real driver.
    Driver,
}

/// Probabilities are between 0 and 1, counts are per run.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) profile: Profile,
    pub(super) uses: Uses,
    pub(super) level: Level,
    pub(super) clients: usize,
    pub(super) keys: usize,
    pub(super) pollers: usize,
    pub(super) requests: usize,
    pub(super) tuning: Tuning,
    /// The number of shards of each engine.
    pub(super) shards: usize,
    /// Faults and requests happen before this time, in nanoseconds.
    pub(super) horizon: u64,
    /// In milliseconds; each request has one of them.
    pub(super) ttls: Vec<u64>,
    /// In milliseconds.
    pub(super) longest_hold: u64,
    /// One way, in microseconds.
    pub(super) delay: (u64, u64),
    /// How much later a task may notice its answer, in microseconds.
    pub(super) notice: u64,
    /// How late a timer may be now and then, in milliseconds.
    pub(super) late: u64,
    /// How far local clocks may differ from the server's, in parts per million.
    pub(super) drift: i64,

    pub(super) pushes: bool,
    pub(super) counts: bool,
    pub(super) push_loss: f64,
    pub(super) push_twice: f64,
    pub(super) push_late: f64,
    pub(super) push_breaks: u32,
    /// Times at which many hints come that say nothing new.
    pub(super) hints: u32,

    pub(super) breaks: u32,
    /// Links that break again and again for a while.
    pub(super) flaps: u32,
    pub(super) former_links_dead: bool,
    /// Periods in which the server refuses commands.
    pub(super) refusals: u32,
    pub(super) pauses: u32,
    /// Pauses in which the local clock is stopped, too.
    pub(super) stops: u32,
    pub(super) crashes: u32,
    pub(super) shutdowns: u32,
    pub(super) forces: u32,
    pub(super) steps_back: u32,
    pub(super) steps_forward: u32,
    pub(super) restarts: u32,
    pub(super) wiped: bool,
    /// By how much the clock of the server after a restart is ahead, in milliseconds.
    pub(super) ahead: u64,

    /// An idempotent command is executed twice.
    pub(super) resend: f64,
    /// A script has to be sent once more, and loses its place in the order.
    pub(super) misplaced: f64,
    /// Replies on a connection get out of step with their requests.
    pub(super) shifted: f64,
    /// A thread is preempted between reading the clock and stepping the engine.
    pub(super) stale: f64,
    /// A thread is preempted between stepping the engine and sending.
    pub(super) preempt: f64,

    pub(super) cancel: f64,
    pub(super) once: f64,
    pub(super) forever: f64,
    pub(super) fenced: f64,
    pub(super) no_renew: f64,
    pub(super) max_hold: f64,
    pub(super) min_hold: f64,
    pub(super) extend: f64,
    pub(super) careless: f64,
    /// The caller looks at a completed request later, or never.
    pub(super) unpolled: f64,
    /// A request accepts only a limited number of waiters before it.
    pub(super) bounded: f64,
    /// A request is for several keys.
    pub(super) several: f64,
    /// A request lets the lease stay after it …
    pub(super) linger: f64,
    /// … for one of these times, in milliseconds.
    pub(super) lingers: Vec<u64>,
    /// The part of the holders that hand the lock over.
    pub(super) hands_over: f64,
    /// The part of the tickets that two requests use.
    pub(super) used_twice: f64,
    /// A request needs its own lease, which no other request of its process had.
    pub(super) own_lease: f64,
    /// Leases end with a session, as the processes know. The server ends them with their ttl nevertheless.
    pub(super) sessions: bool,
}

impl Config {
    pub(super) fn draw(profile: Profile, rng: &mut Rng) -> Config {
        let mut c = Config::calm(profile, rng);
        match profile {
            Profile::Calm => {}
            Profile::Alone => {
                c.clients = 1;
                c.longest_hold = rng.u64(1..40);
                c.requests = rng.usize(8..40);
                c.horizon = rng.u64(1..3) * SECOND;
            }
            Profile::Pushes => c.bad_pushes(rng),
            Profile::Deaf => c.push_breaks = rng.u32(1..5),
            Profile::Polling => c.pushes = false,
            Profile::Cluster => {
                c.counts = false;
                c.push_breaks = rng.u32(0..3);
            }
            Profile::Links => {
                c.breaks = rng.u32(1..6);
                c.shifted = pick(rng, &[0.0, 0.02]);
            }
            Profile::FormerLinksAlive => {
                c.breaks = rng.u32(1..5);
                c.former_links_dead = false;
            }
            Profile::Crashes => {
                c.crashes = rng.u32(0..4);
                c.pauses = rng.u32(0..4);
            }
            Profile::Short => c.short(rng),
            Profile::Foreign => {
                c.pollers = rng.usize(1..3);
                c.push_loss = pick(rng, &[0.0, 0.0, 0.2]);
            }
            Profile::Forced => c.forces = rng.u32(1..4),
            Profile::Backward => c.steps_back = rng.u32(1..4),
            Profile::Forward => {
                c.steps_forward = rng.u32(1..3);
                c.ttls = vec![rng.u64(3..20) * 1000];
                c.longest_hold = 8_000;
                c.no_renew = 0.5;
                c.keys = 2;
            }
            Profile::Restart => c.restarts = rng.u32(1..3),
            Profile::Wiped => {
                c.restarts = rng.u32(1..3);
                c.wiped = true;
            }
            Profile::Failover => {
                c.restarts = 1;
                c.ahead = rng.u64(1_000..20_000);
            }
            Profile::Flapping => {
                c.flaps = rng.u32(1..4);
                c.former_links_dead = rng.u32(0..3) == 0;
                c.horizon = rng.u64(5..20) * SECOND;
            }
            Profile::Refusing => {
                c.refusals = rng.u32(1..6);
                c.breaks = pick(rng, &[0, 0, 2]);
            }
            Profile::Stopped => c.stops = rng.u32(1..4),
            Profile::Crowd => c.crowd(rng),
            Profile::Mixed => c.mixed(rng),
        }
        c
    }

    fn calm(profile: Profile, rng: &mut Rng) -> Config {
        let ttls = match rng.u32(0..4) {
            0 => vec![10_000],
            1 => vec![rng.u64(300..3_000)],
            2 => vec![rng.u64(3_000..30_000)],
            _ => vec![rng.u64(200..1_000), rng.u64(1_000..5_000), 20_000],
        };
        let every = pick(rng, &[1_000, 1_000, 200]);
        // Values that are drawn with `rng` stay the same as before this setting was added.
        let mut aside = rng.clone();
        Config {
            profile,
            uses: Uses::All(Use::Exclusive),
            level: Level::Engine,
            clients: rng.usize(1..5),
            keys: pick(rng, &[1, 2, 2, 4]),
            pollers: 0,
            requests: rng.usize(4..24),
            tuning: Tuning {
                queue_entry_ttl: Duration::from_secs(10),
                poll_gap: Duration::from_millis(if rng.u32(0..8) == 0 { 0 } else { 10 }),
                poll_gap_interval: Duration::from_millis(every),
                ..Tuning::default()
            },
            shards: pick(rng, &[1, 2, 4]),
            horizon: rng.u64(2..12) * SECOND,
            ttls,
            longest_hold: pick(rng, &[5, 50, 400, 3_000]),
            delay: pick(rng, &[(50, 300), (200, 2_000), (1_000, 20_000)]),
            notice: pick(rng, &[10, 500, 20_000]),
            late: 10,
            drift: pick(rng, &[0, 100, 9_000]),
            pushes: true,
            counts: true,
            push_loss: 0.0,
            push_twice: 0.0,
            push_late: 0.0,
            push_breaks: 0,
            hints: 0,
            breaks: 0,
            flaps: 0,
            former_links_dead: true,
            refusals: 0,
            pauses: 0,
            stops: 0,
            crashes: 0,
            shutdowns: u32::from(rng.u32(0..10) == 0),
            forces: 0,
            steps_back: 0,
            steps_forward: 0,
            restarts: 0,
            wiped: false,
            ahead: 0,
            resend: pick(rng, &[0.0, 0.0, 0.05]),
            misplaced: pick(rng, &[0.0, 0.0, 0.02]),
            shifted: 0.0,
            stale: pick(rng, &[0.0, 0.1]),
            preempt: pick(rng, &[0.0, 0.0, 0.1]),
            cancel: pick(rng, &[0.0, 0.1, 0.4]),
            once: pick(rng, &[0.0, 0.1, 0.3]),
            forever: 0.5,
            fenced: pick(rng, &[0.0, 0.5, 1.0]),
            no_renew: pick(rng, &[0.0, 0.2]),
            max_hold: pick(rng, &[0.0, 0.1]),
            min_hold: pick(rng, &[0.0, 0.1]),
            extend: pick(rng, &[0.0, 0.2]),
            careless: pick(rng, &[0.0, 0.3]),
            unpolled: pick(rng, &[0.0, 0.0, 0.0, 0.1]),
            bounded: pick(rng, &[0.0, 0.0, 0.2]),
            several: 0.0,
            linger: pick(&mut aside, &[0.0, 0.0, 0.5, 1.0]),
            hands_over: 0.0,
            used_twice: 0.0,
            lingers: pick(&mut aside, &[vec![20], vec![50, 200], vec![20, 1_000], vec![5_000]]),
            sessions: aside.u32(0..4) == 0,
            own_lease: pick(&mut aside, &[0.0, 0.0, 0.2]),
        }
    }

    fn crowd(&mut self, rng: &mut Rng) {
        self.keys = 1;
        self.requests = if rng.u32(0..6) == 0 { rng.usize(100..400) } else { rng.usize(40..100) };
        self.longest_hold = rng.u64(2..8);
        self.horizon = rng.u64(1..4) * SECOND;
        self.once = pick(rng, &[0.0, 0.1]);
        self.no_renew = 0.0;
    }

    fn bad_pushes(&mut self, rng: &mut Rng) {
        self.push_loss = pick(rng, &[0.05, 0.3, 1.0]);
        self.push_twice = pick(rng, &[0.0, 0.2]);
        self.push_late = pick(rng, &[0.0, 0.3]);
        self.push_breaks = rng.u32(0..3);
        self.hints = rng.clone().u32(0..4);
    }

    fn short(&mut self, rng: &mut Rng) {
        self.ttls = vec![rng.u64(20..400), rng.u64(100..400)];
        self.longest_hold = rng.u64(10..600);
        self.delay = pick(rng, &[(200, 5_000), (5_000, 60_000), (200, 150_000)]);
        self.drift = 9_000;
        self.push_late = pick(rng, &[0.0, 0.3]);
        self.push_loss = pick(rng, &[0.0, 0.2]);
        self.horizon = rng.u64(1..4) * SECOND;
        self.requests = rng.usize(6..24);
        self.pauses = rng.u32(0..3);
    }

    fn mixed(&mut self, rng: &mut Rng) {
        if rng.bool() {
            self.bad_pushes(rng);
        }
        if rng.u32(0..3) == 0 {
            self.short(rng);
        }
        self.pollers = rng.usize(0..2);
        self.breaks = rng.u32(0..4);
        self.flaps = u32::from(rng.u32(0..6) == 0);
        self.refusals = pick(rng, &[0, 0, 0, 2]);
        self.former_links_dead = rng.bool();
        self.pauses = rng.u32(0..3);
        self.crashes = rng.u32(0..3);
        self.steps_back = rng.u32(0..2);
        self.restarts = rng.u32(0..2);
        self.counts = rng.bool();
        self.pushes = rng.u32(0..4) > 0;
    }

    /// For a process whose session, if there is one, lives as long as the process.
    pub(super) fn tuning_of_process(&self) -> Tuning {
        let mut tuning = self.tuning.clone();
        if self.sessions {
            let session = Arc::new(Session::default());
            session.answered(Time(1), Duration::from_secs(10_000_000));
            tuning.leases = LeaseEnds::WithSession(session);
        }
        tuning
    }

    pub(super) fn longest_ttl(&self) -> u64 {
        // Extensions ask for up to twice the ttl.
        let factor = if self.extend > 0.0 { 2 } else { 1 };
        self.ttls.iter().copied().max().unwrap_or(0) * factor * MILLI
    }

    /// In nanoseconds; zero if no lease stays after its section.
    pub(super) fn longest_linger(&self) -> u64 {
        let longest = self.lingers.iter().copied().max().unwrap_or(0) * MILLI;
        if self.linger > 0.0 { longest } else { 0 }
    }

    /// A lease may run out between a command and its answer.
    pub(super) fn is_short(&self) -> bool {
        let least = self.ttls.iter().copied().min().unwrap_or(0) * MILLI;
        least < 12 * (self.delay.1 + self.notice) * MICRO + 100 * MILLI
    }

    /// Commands are executed in the order in which the engine sent them.
    pub(super) fn in_order(&self) -> bool {
        self.preempt + self.misplaced == 0.0
    }

    /// Processes are never cut off, paused or killed.
    pub(super) fn is_whole(&self) -> bool {
        let interrupted = self.breaks + self.flaps + self.refusals + self.pauses + self.stops;
        interrupted + self.crashes + self.restarts + self.shutdowns == 0
    }
}

pub(super) fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())].clone()
}
