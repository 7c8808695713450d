//! A campaign against one store: rounds of faults, calm, and judgement.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use distlock_tests::shared_clock;
use fastrand::Rng;

use crate::{
    fleet::{Fleet, Recipe},
    judge::{self, Breach, Excuse, Judge, Round, Verdict},
    options::{Length, Options, Store},
    register,
    servers::{self, Harm, Servers, disturb_link},
};

/// Not too long, because a round is judged in memory.
const FAULTS: Duration = Duration::from_secs(30);
/// Longer than a lease, a claim and a lost link together.
const CALM: Duration = Duration::from_secs(8);
/// After the servers have forgotten locks, holders believe in them until their leases expire.
const BELIEF: Duration = Duration::from_secs(4);
/// When all processes have ended, only a grant to a killed process, its session, or a release in flight may be left for
/// this time. It is longer than every lease, so a key that remains never expires.
const CLEAN: Duration = Duration::from_secs(20);
/// The time limit for each wait for an event, which comes much sooner.
const AT_LAST: Duration = Duration::from_secs(120);
/// The minimum number of faults in such a round.
const FEWEST_FAULTS: usize = 8;
/// The pause between two faults.
const PAUSE_MS: std::ops::Range<u64> = 100..1_500;
/// No successful operation takes longer while there are no faults.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) time: Duration,
    pub(crate) faults: usize,
    pub(crate) verdict: Verdict,
    /// The time in which two holders were possible by design.
    pub(crate) excused: Duration,
    pub(crate) hung: u64,
    pub(crate) residue: Vec<String>,
}

impl Outcome {
    pub(crate) fn kept_every_promise(&self, length: Length) -> bool {
        let length_is_kept = match length {
            Length::Time(_) => self.verdict.count(Breach::Overdue) == 0 && self.longest_wait() <= PATIENCE,
            Length::Sections(sections) => self.verdict.sections >= sections && self.faults >= FEWEST_FAULTS,
        };
        self.verdict.broken() == 0
            && self.hung == 0
            && self.residue.is_empty()
            && self.verdict.sections > 0
            && length_is_kept
    }

    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.verdict.longest_wait)
    }
}

/// Runs the campaign on one store.
pub(crate) fn run(store: Store, length: Length, options: &Options) -> Outcome {
    let mut rng = Rng::with_seed(options.seed);
    let start = Instant::now();
    let mut servers = servers::start(store);
    let recipe = Recipe {
        urls: servers.urls(),
        register: register::serve().to_string(),
        store,
        clients: options.clients,
        tasks: options.tasks,
        long_percent: options.long_percent,
        key_factor: options.key_factor,
    };
    let (mut judge, mut outcome) = (Judge::default(), Outcome::default());
    let mut left = length;
    loop {
        let share = match left {
            Length::Time(left) => {
                Length::Time(left.saturating_sub(CALM).clamp(Duration::from_secs(3), FAULTS))
            }
            sections @ Length::Sections(_) => sections,
        };
        let round = play(servers.as_mut(), &recipe, share, &mut rng, &mut outcome);
        outcome.verdict.add(judge.judge(&round));
        outcome.residue.extend(residue_of(servers.as_ref()));
        left = match length {
            Length::Time(time) if start.elapsed() < time => Length::Time(time - start.elapsed()),
            _ => break,
        };
    }
    outcome.time = start.elapsed();
    outcome
}

/// One round.
fn play(
    servers: &mut dyn Servers,
    recipe: &Recipe,
    length: Length,
    rng: &mut Rng,
    outcome: &mut Outcome,
) -> Round {
    let begin = micros(shared_clock());
    let mut fleet = Fleet::start(recipe, rng);
    let log = fleet.log();
    let (stop, count, excuses) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::default());
    let links = servers.links();
    let end = std::thread::scope(|scope| {
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
        match length {
            Length::Time(time) => std::thread::sleep(time),
            Length::Sections(sections) => wait_at_most(AT_LAST, || {
                count.load(Ordering::SeqCst) >= FEWEST_FAULTS && Fleet::sections(&log) >= sections
            }),
        }
        let end = micros(shared_clock());
        stop.store(true, Ordering::SeqCst);
        end
    });
    let mut excuses: Vec<Excuse> = excuses.into_inner().unwrap();
    if servers.heal() == Harm::MayForget {
        excuses.push(Excuse { from: end - PAUSE_MS.end * 1_000, to: micros(shared_clock() + BELIEF) });
    }
    let calm = micros(shared_clock());
    let enough = match length {
        Length::Time(_) => {
            std::thread::sleep(CALM);
            0
        }
        Length::Sections(sections) => Fleet::sections(&log) + sections / 4,
    };
    wait_at_most(AT_LAST, || Fleet::sections(&log) >= enough && fleet.stuck_since(calm) == 0);
    let log = fleet.finish(calm);
    if servers.heal() == Harm::MayForget {
        // A fail-over without a command, at an unknown instant of the calm.
        excuses.push(Excuse { from: calm, to: u64::MAX });
    }
    outcome.excused += judge::excused(&excuses, begin, micros(shared_clock()));
    outcome.faults += count.into_inner();
    outcome.hung += log.hung;
    Round { sections: log.sections, failures: log.failures, excuses, calm }
}

fn wait_at_most(longest: Duration, mut is_over: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_over() && start.elapsed() < longest {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The counters of faults.
#[derive(Clone, Copy)]
struct Field<'a> {
    stop: &'a AtomicBool,
    count: &'a AtomicUsize,
    excuses: &'a Mutex<Vec<Excuse>>,
}

impl Field<'_> {
    fn strike_again_and_again(self, mut rng: Rng, mut strike: impl FnMut(&mut Rng) -> Harm) {
        loop {
            // A fail-over without a command may have happened in the pause.
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
    match rng.u32(..5) {
        0 | 1 => fleet.replace(at, rng),
        2 | 3 => fleet.stop_for(at, Duration::from_millis(rng.u64(20..4_000))),
        _ => fleet.step_clock(at, rng),
    }
    Harm::None
}

/// The keys that should not exist after all processes have released their locks and ended.
fn residue_of(servers: &dyn Servers) -> Vec<String> {
    let mut left = Vec::new();
    wait_at_most(CLEAN, || {
        left = servers.residue();
        left.is_empty()
    });
    left
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
