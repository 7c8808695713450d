//! A topology under fire: rounds of faults, calm, and judgement.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use distlock_tests::{residue, shared_clock};
use fastrand::Rng;

use crate::{
    fleet::{Fleet, Recipe},
    judge::{Excuse, Judge, Round, Verdict},
    options::{Options, Topology},
    register,
    servers::{Clients, Cluster, Harm, One, Quorum, Sentinel, Servers, disturb_link},
};

/// A round is judged in memory: not too long.
const FAULTS: Duration = Duration::from_secs(30);
/// Longer than a lease, a claim and a lost link together.
const CALM: Duration = Duration::from_secs(8);
/// After the servers forgot something, holders believe for as long as their leases last.
const BELIEF: Duration = Duration::from_secs(4);
/// When all have ended, what is left is a grant to a process that was killed, or a release still on its way.
const CLEAN: Duration = Duration::from_secs(4);
/// Between two faults.
const PAUSE_MS: std::ops::Range<u64> = 100..1_500;
/// Nothing that works takes longer, when nothing fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) time: Duration,
    pub(crate) faults: usize,
    pub(crate) verdict: Verdict,
    pub(crate) hung: u64,
    pub(crate) residue: usize,
    /// Rounds after whose faults nobody worked again.
    pub(crate) stuck: usize,
}

impl Outcome {
    pub(crate) fn kept_every_promise(&self) -> bool {
        self.verdict.broken() == 0
            && self.hung == 0
            && self.residue == 0
            && self.stuck == 0
            && self.verdict.sections > 0
            && self.longest_wait() <= PATIENCE
    }

    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.verdict.longest_wait)
    }
}

/// Runs one topology for `time`.
pub(crate) fn run(topology: Topology, time: Duration, options: &Options) -> Outcome {
    let mut rng = Rng::with_seed(options.seed);
    let start = Instant::now();
    let mut servers: Box<dyn Servers> = match topology {
        Topology::One => Box::new(One::start(Clients::Correct)),
        Topology::Sentinel => Box::new(Sentinel::start()),
        Topology::Cluster => Box::new(Cluster::start()),
        Topology::Quorum => Box::new(Quorum::start()),
        Topology::Control => Box::new(One::start(Clients::HalfBroken)),
    };
    let recipe = Recipe {
        urls: servers.urls(),
        register: register::serve().to_string(),
        offer: servers.offer(),
        clients: options.clients,
        tasks: options.tasks,
    };
    let (mut judge, mut outcome) = (Judge::default(), Outcome::default());
    let mut left = time;
    while !left.is_zero() {
        let faults = left.saturating_sub(CALM).clamp(Duration::from_secs(3), FAULTS);
        let round = play(servers.as_mut(), &recipe, faults, &mut rng, &mut outcome);
        outcome.stuck +=
            usize::from(!round.sections.iter().any(|section| section.times.entered > round.calm));
        outcome.verdict.add(judge.judge(&round));
        outcome.residue += residue_of(servers.as_ref());
        left = time.saturating_sub(start.elapsed());
    }
    outcome.time = start.elapsed();
    outcome
}

/// One round.
fn play(
    servers: &mut dyn Servers,
    recipe: &Recipe,
    time: Duration,
    rng: &mut Rng,
    outcome: &mut Outcome,
) -> Round {
    let mut fleet = Fleet::start(recipe, rng);
    let (stop, count, excuses) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::default());
    let links = servers.links();
    std::thread::scope(|scope| {
        let field = Field { stop: &stop, count: &count, excuses: &excuses };
        for lane in servers.lanes() {
            let rng = rng.fork();
            scope.spawn(move || field.strike_again_and_again(rng, lane));
        }
        if !links.is_empty() {
            let rng = rng.fork();
            let strike = |rng: &mut Rng| disturb_link(&links[rng.usize(..links.len())], rng);
            scope.spawn(move || field.strike_again_and_again(rng, strike));
        }
        let (of_clients, fleet) = (rng.fork(), &mut fleet);
        scope.spawn(move || {
            field.strike_again_and_again(of_clients, |rng| disturb_client(fleet, rng));
        });
        std::thread::sleep(time);
        stop.store(true, Ordering::SeqCst);
    });
    let end = micros(shared_clock());
    let mut excuses: Vec<Excuse> = excuses.into_inner().unwrap();
    if servers.heal() == Harm::MayForget {
        excuses.push(Excuse { from: end - PAUSE_MS.end * 1_000, to: micros(shared_clock() + BELIEF) });
    }
    let calm = micros(shared_clock());
    std::thread::sleep(CALM);
    let log = fleet.finish();
    if servers.heal() == Harm::MayForget {
        excuses.push(Excuse { from: calm, to: u64::MAX });
    }
    outcome.faults += count.into_inner();
    outcome.hung += log.hung;
    Round { sections: log.sections, failures: log.failures, excuses, calm }
}

/// Where faults are counted.
#[derive(Clone, Copy)]
struct Field<'a> {
    stop: &'a AtomicBool,
    count: &'a AtomicUsize,
    excuses: &'a Mutex<Vec<Excuse>>,
}

impl Field<'_> {
    fn strike_again_and_again(self, mut rng: Rng, mut strike: impl FnMut(&mut Rng) -> Harm) {
        loop {
            // A fail-over that nobody asked for may have happened in the pause.
            let from = micros(shared_clock());
            std::thread::sleep(Duration::from_millis(rng.u64(PAUSE_MS)));
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let harm = strike(&mut rng);
            self.count.fetch_add(1, Ordering::SeqCst);
            if harm == Harm::MayForget {
                let to = micros(shared_clock() + BELIEF);
                self.excuses.lock().unwrap().push(Excuse { from, to });
            }
        }
    }
}

fn disturb_client(fleet: &mut Fleet, rng: &mut Rng) -> Harm {
    let at = rng.usize(..fleet.len());
    if rng.bool() {
        fleet.replace(at, rng);
    } else {
        fleet.stop_for(at, Duration::from_millis(rng.u64(20..4_000)));
    }
    Harm::None
}

/// Keys that should not be there when everybody has released and ended; and keys without a ttl.
fn residue_of(servers: &dyn Servers) -> usize {
    let masters = servers.masters();
    let left = || -> Vec<String> {
        let of = |server: &distlock_tests::RedisServer| -> Vec<String> {
            let mut keys = residue::keys(server);
            // What `min_hold` keeps is kept on purpose; places in queues are those of killed processes.
            keys.retain(|key| {
                let expires = server.pttl(key) != -1;
                let kept = key.starts_with("dl1:")
                    || server.try_raw(&["GET", key]).is_ok_and(|value| {
                        redis::from_redis_value::<Option<String>>(value)
                            .is_ok_and(|value| value.is_none_or(|value| value == "dl1:hold"))
                    });
                !expires || !kept
            });
            keys
        };
        masters.iter().flat_map(|server| of(server)).collect()
    };
    let start = Instant::now();
    loop {
        let left = left();
        if left.is_empty() || start.elapsed() > CLEAN {
            return left.len();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
