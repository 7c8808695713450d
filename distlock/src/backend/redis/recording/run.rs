//! One run: processes that request one lock, each over its own link.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use distlock_fixtures::Proxy;
use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::test_server::TestServer;
use super::faults::inject;
use super::monitor::{Monitor, Published};
use crate::engine::record::Recorder;
use crate::protocol::mutant::Mutant;
use crate::{Guard, LockError, LockManager};

const KEY: &str = "k";
/// Longer than the pauses of a busy machine.
const TTL: Duration = Duration::from_secs(2);
/// In a run with faults: short, so that links are silent for longer now and then.
const SHORT_TTL: Duration = Duration::from_millis(200);
const PROCESSES: usize = 3;
/// A run takes a few seconds. It only ends a run whose engines hang.
const LONGEST: Duration = Duration::from_secs(600);

static NAMES: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) sections: usize,
    pub(super) linger: Option<Duration>,
    /// Of each process.
    pub(super) tasks: usize,
    pub(super) faults: bool,
    /// One of the processes ends without a word, and another one comes.
    pub(super) crashes: bool,
    pub(super) mutant: Option<Mutant>,
}

impl Plan {
    pub(super) fn of_seed(seed: u64) -> Plan {
        let linger = (seed % 2 == 1).then_some(Duration::from_millis(40));
        let tasks = if seed % 4 < 2 { 1 } else { 2 };
        Plan { seed, sections: 100, linger, tasks, faults: false, crashes: false, mutant: None }
    }

    fn ttl(&self) -> Duration {
        if self.faults { SHORT_TTL } else { TTL }
    }
}

pub(super) struct Run {
    /// The first one says what the times of the run are, then come those of the processes and those of the server.
    pub(super) lines: Vec<String>,
    pub(super) sections: usize,
    pub(super) faults: usize,
    pub(super) clock_was_set_by: Duration,
}

pub(super) fn record(plan: &Plan) -> Run {
    let server = TestServer::start(&[]);
    let name = format!("traced{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let recorder = Recorder::start(&name, KEY, plan.mutant);
    let published = if plan.faults { Published::SomeTwice } else { Published::Once };
    let monitor = Monitor::start(&server, KEY, published);
    let proxies: Vec<_> = (0..PROCESSES + 1).map(|_| Proxy::to(&server.address())).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sections = Arc::new(AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let mut rng = Rng::with_seed(plan.seed);
    let mut of_faults = rng.fork();
    let ends = if plan.crashes { PROCESSES - 1 } else { PROCESSES };
    let (lines, faults) = thread::scope(|scope| {
        let (lines, injecting) = runtime.block_on(async {
            let mut processes = Vec::new();
            for proxy in &proxies[..PROCESSES] {
                processes.push(Process::start(plan, &name, proxy, &mut rng, &sections).await);
            }
            let injecting =
                plan.faults.then(|| scope.spawn(|| inject(&proxies[..ends], &mut of_faults, &is_over)));
            if plan.crashes {
                come_to(plan.sections / 2, &sections).await;
                // Nothing that it sends from here on arrives.
                proxies[PROCESSES - 1].refuse();
                recorder.crash(&processes[PROCESSES - 1].manager.core().client);
                processes.push(Process::start(plan, &name, &proxies[PROCESSES], &mut rng, &sections).await);
            }
            come_to(plan.sections, &sections).await;
            is_over.store(true, Ordering::Release);
            (recorder.end(), injecting)
        });
        (lines, injecting.map_or(0, |thread| thread.join().unwrap()))
    });
    let clock_was_set_by = recorder.clock_was_set_by();
    let linger = plan.linger.unwrap_or_default().as_millis();
    let head = format!(r#"{{"ev":"run","ttl":{},"linger":{linger}}}"#, plan.ttl().as_millis());
    let executed = monitor.end(&server);
    runtime.shutdown_timeout(Duration::from_secs(5));
    let sections = sections.load(Ordering::Acquire);
    assert!(sections >= plan.sections, "seed {}: only {sections} of {} sections", plan.seed, plan.sections);
    let lines = [head].into_iter().chain(lines).chain(executed).collect();
    Run { lines, sections, faults, clock_was_set_by }
}

/// Its tasks end with it.
struct Process {
    manager: LockManager,
    _tasks: JoinSet<()>,
}

impl Process {
    async fn start(
        plan: &Plan,
        name: &str,
        proxy: &Proxy,
        rng: &mut Rng,
        sections: &Arc<AtomicUsize>,
    ) -> Process {
        let builder = LockManager::builder().url(proxy.url()).client_name(name);
        let manager = builder.fairness_gap(Duration::ZERO).connect().await.unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..plan.tasks {
            tasks.spawn(work(manager.clone(), plan.clone(), rng.fork(), sections.clone()));
        }
        Process { manager, _tasks: tasks }
    }
}

/// Returns when there were `count` sections, or after the longest time that a run may take.
async fn come_to(count: usize, sections: &AtomicUsize) {
    let enough = async {
        while sections.load(Ordering::Acquire) < count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    drop(timeout(LONGEST, enough).await);
}

/// Runs one section after the other. Some requests are cancelled while they wait.
async fn work(manager: LockManager, plan: Plan, mut rng: Rng, sections: Arc<AtomicUsize>) {
    loop {
        let request = manager.lock(KEY).fenced().ttl(plan.ttl());
        let request = request.wait(Duration::from_secs(2)).linger(plan.linger);
        let patience = if rng.u8(..20) == 0 { rng.u64(0..8) } else { 2_000 };
        let acquired = timeout(Duration::from_millis(patience), request.acquire()).await;
        if let Ok(Ok(guard)) = acquired {
            section(guard, plan.faults, &mut rng).await.unwrap_or_default();
            sections.fetch_add(1, Ordering::AcqRel);
        }
        if rng.u8(..4) == 0 {
            sleep(Duration::from_millis(rng.u64(0..8))).await;
        }
    }
}

/// Its end is awaited, or not.
async fn section(guard: Guard, faults: bool, rng: &mut Rng) -> Result<(), LockError> {
    match rng.u8(..40) {
        0 if faults => sleep(Duration::from_millis(rng.u64(50..600))).await,
        1..10 => sleep(Duration::from_millis(rng.u64(0..4))).await,
        _ => {}
    }
    if rng.bool() {
        return guard.release().await;
    }
    drop(guard);
    Ok(())
}
