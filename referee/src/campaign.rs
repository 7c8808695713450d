//! One run: processes of an adapter work on a few keys while faults happen. After the faults, each process acquires
//! each key once more. Then all processes end, and the server is checked.

use std::{
    io,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::{
    faults::{self, Faults, Plan},
    history::{End, FaultKind, History, Release, Request, Section},
    place::Place,
    process::{Process, Read, locked},
    protocol::{Answer, Hello},
    servers::{Server, Store},
};

/// How often a waiting thread checks the clock.
const TICK: Duration = Duration::from_millis(20);
/// How much longer than its wait limit a request may take without faults.
const BOUND: Duration = Duration::from_secs(10);

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program of the adapter and its arguments; the URL of the server follows.
    pub command: Vec<String>,
    /// The server.
    pub store: Store,
    /// How long faults happen.
    pub time: Duration,
    /// Decides the faults, their instants, and how long locks are held.
    pub seed: u64,
    /// How many processes of the adapter run at a time.
    pub processes: usize,
    /// How many requests of each process for each key are made at a time.
    pub tasks: usize,
    /// How many keys there are.
    pub keys: usize,
    /// The ttl of each request.
    pub ttl: Duration,
    /// The longest section. `None`: two ttls if the library renews, otherwise a third of one.
    pub hold: Option<Duration>,
    /// Which faults happen.
    pub faults: Vec<FaultKind>,
}

/// The data that all workers share.
struct Work {
    plan: Plan,
    ids: AtomicU64,
    /// When the last fault had ended.
    calm: OnceLock<Duration>,
    requests: Mutex<Vec<Request>>,
    hold: Duration,
    wait: Duration,
    ttl: Duration,
    run: u64,
}

impl Work {
    fn now(&self) -> Duration {
        self.plan.start.elapsed()
    }

    /// The next answer, unless the process ends first. `None`: the request hangs, which the judge will report.
    fn answer(&self, answers: &Receiver<Read>, sent: Duration, wait: Duration) -> Result<Option<Read>, ()> {
        loop {
            match answers.recv_timeout(TICK) {
                Ok(read) => return Ok(Some(read)),
                Err(RecvTimeoutError::Disconnected) => return Err(()),
                Err(RecvTimeoutError::Timeout) => {
                    // Twice the bound, so that a request that is abandoned here is late enough for the judge.
                    let calm = self.calm.get().copied().map(|calm| calm.max(sent));
                    if calm.is_some_and(|calm| self.now() > calm + wait + 2 * BOUND) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// One request, and the section and the release if it is granted.
    fn section(&self, place: &Place, key: usize, wait: Duration, hold: Duration) -> Request {
        let process = place.process();
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let answers = process.listen(id);
        let sent = self.now();
        let mut request = Request {
            place: place.index,
            process: process.number,
            key,
            wait,
            sent,
            answered: None,
            abandoned: None,
            section: None,
            failed: None,
        };
        let (ttl, wait_ms) = (self.ttl.as_millis(), wait.as_millis());
        process.write(&format!("acquire {id} referee:{}:{key} {ttl} {wait_ms}", self.run));
        match self.answer(&answers, sent, wait) {
            Ok(Some((at, answer))) => {
                request.answered = Some(at);
                match answer {
                    Answer::Granted(token) => {
                        request.section = Some(self.hold(&process, id, &answers, token, at, hold))
                    }
                    Answer::Failed(text) => request.failed = Some(text),
                    _ => {}
                }
            }
            Ok(None) => {}
            Err(()) => request.abandoned = Some(process.killed().unwrap_or_else(|| self.now())),
        }
        process.forget(id);
        request
    }

    fn hold(
        &self,
        process: &Process,
        id: u64,
        answers: &Receiver<Read>,
        token: Option<u64>,
        from: Duration,
        hold: Duration,
    ) -> Section {
        // Even if the referee itself is late, the section is over then. No section continues after the faults.
        let planned = (from + hold).min(self.plan.end.max(from));
        let section =
            |until: Duration, end, release| Section { token, from, until: until.min(planned), end, release };
        match answers.recv_timeout(planned.saturating_sub(self.now())) {
            Ok((at, Answer::Lost)) => return section(at, End::Lost, None),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The time at which a process ended by itself is unknown, so its section proves nothing.
                return section(process.killed().unwrap_or(from), End::Killed, None);
            }
        }
        let sent = self.now();
        // The process may have been killed while the referee was late.
        let until = process.killed().map_or(sent, |killed| killed.min(sent));
        process.write(&format!("release {id}"));
        let answer = self.answer(answers, sent, Duration::ZERO);
        let confirmed = matches!(answer, Ok(Some((_, Answer::Released))));
        let answered = match answer {
            Ok(Some((at, _))) => Some(at),
            Ok(None) => None,
            Err(()) => Some(process.killed().unwrap_or_else(|| self.now())),
        };
        section(until, End::Done, Some(Release { sent, answered, confirmed }))
    }

    fn work(&self, place: &Place, key: usize, hello: &Hello, mut rng: Rng) {
        while self.now() < self.plan.end {
            // Most sections are short, so that there are many. One in eight may take the whole time.
            let longest = if rng.u32(..8) == 0 { self.hold } else { self.hold / 16 };
            let hold = longest.mul_f64(rng.f64());
            let request = self.section(place, key, self.wait, hold);
            let (granted, abandoned) = (request.section.is_some(), request.abandoned.is_some());
            let failed = request.failed.is_some();
            locked(&self.requests).push(request);
            // A library that cannot wait retries soon. After a failure, the next request comes after a pause.
            if abandoned || failed || (!granted && !hello.waits) {
                thread::sleep(Duration::from_millis(rng.u64(5..50)));
            }
        }
    }
}

/// Runs one campaign. All processes have ended when it returns, even if it fails.
///
/// # Errors
/// If the adapter does not start.
pub fn run(options: &Options) -> io::Result<(Hello, History)> {
    let mut rng = Rng::with_seed(options.seed);
    let mut server = Server::start(options.store);
    let (start, numbers) = (Instant::now(), Arc::new(AtomicU64::new(1)));
    let places = (0..options.processes)
        .map(|index| Place::new(options.command.clone(), &server, index, &numbers, start).map(Arc::new))
        .collect::<io::Result<Vec<_>>>()?;
    let hello = places
        .first()
        .map(|place| place.process().hello.clone())
        .ok_or_else(|| io::Error::other("no process"))?;
    let usual_hold = if hello.renews { options.ttl * 2 } else { options.ttl / 3 };
    let work = Work {
        plan: Plan { start, end: start.elapsed() + options.time, ttl: options.ttl },
        ids: AtomicU64::new(1),
        calm: OnceLock::new(),
        requests: Mutex::default(),
        hold: options.hold.unwrap_or(usual_hold),
        wait: options.ttl * 2,
        ttl: options.ttl,
        run: options.seed,
    };
    let faults = Faults::default();
    thread::scope(|threads| {
        for (key, _) in (0..options.keys).flat_map(|key| (0..options.tasks).map(move |task| (key, task))) {
            for place in &places {
                let (work, hello, rng) = (&work, &hello, rng.fork());
                threads.spawn(move || work.work(place, key, hello, rng));
            }
        }
        disturb(options, &work.plan, &faults, &mut rng, &places, &mut server);
        work.calm.get_or_init(|| start.elapsed());
    });
    let refused_after_calm = take_each_once_more(options, &work, &places);
    let mut misbehaved = end(&places);
    let end = start.elapsed();
    drop(places);
    let residue = server.residue_after(options.ttl * 2);
    let requests = work.requests.into_inner().unwrap_or_else(PoisonError::into_inner);
    let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
    let has_no_token = |request: &&Request| request.section.as_ref().is_some_and(|held| held.token.is_none());
    if let Some(request) = requests.iter().find(has_no_token).filter(|_| hello.tokens) {
        misbehaved
            .push(format!("process {} was granted key {} without a token", request.process, request.key));
    }
    let history = History {
        ttl: options.ttl,
        bound: BOUND,
        end,
        requests,
        faults,
        refused_after_calm,
        residue,
        misbehaved,
    };
    Ok((hello, history))
}

/// Returns when the last fault has ended.
fn disturb(
    options: &Options,
    plan: &Plan,
    faults: &Faults,
    rng: &mut Rng,
    places: &[Arc<Place>],
    server: &mut Server,
) {
    let of = |kinds: [FaultKind; 2]| -> Vec<FaultKind> {
        let has_server = options.store.has_server();
        let possible = |kind: &FaultKind| has_server || matches!(kind, FaultKind::Stop | FaultKind::Kill);
        kinds.into_iter().filter(|kind| options.faults.contains(kind)).filter(possible).collect()
    };
    let rngs = [rng.fork(), rng.fork(), rng.fork()];
    let [first, second, third] = rngs;
    thread::scope(|threads| {
        threads.spawn(|| faults::watch_the_machine(*plan, faults));
        threads.spawn(|| {
            faults::processes(*plan, faults, first, &of([FaultKind::Stop, FaultKind::Kill]), places)
        });
        threads
            .spawn(|| faults::links(*plan, faults, second, &of([FaultKind::Cut, FaultKind::Delay]), places));
        threads.spawn(|| {
            faults::server(*plan, faults, third, &of([FaultKind::Server, FaultKind::Server]), server)
        });
    });
}

/// There are no faults and no holders, so each process must get each key.
fn take_each_once_more(options: &Options, work: &Work, places: &[Arc<Place>]) -> Vec<String> {
    let mut refused = Vec::new();
    for (place, key) in places.iter().flat_map(|place| (0..options.keys).map(move |key| (place, key))) {
        // The locks of killed processes end after their ttl, and a client may have to connect first.
        let begin = work.now();
        loop {
            let request = work.section(place, key, work.wait, Duration::ZERO);
            let granted = request.section.is_some();
            let said = request.failed.clone().unwrap_or_else(|| "busy".to_owned());
            let answered = request.answered.is_some();
            locked(&work.requests).push(request);
            if granted {
                break;
            }
            if !answered || work.now() > begin + options.ttl * 2 + BOUND {
                refused.push(format!("process {} key {key}: {said}", place.process().number));
                break;
            }
            thread::sleep(TICK);
        }
    }
    refused
}

/// Closes the input of all processes. They must end by themselves, and not before.
fn end(places: &[Arc<Place>]) -> Vec<String> {
    let by_itself = |number: u64| format!("process {number} ended by itself");
    let mut misbehaved = Vec::new();
    for place in places {
        misbehaved.extend(locked(&place.crashed).iter().copied().map(by_itself));
    }
    for process in places.iter().map(|place| place.process()) {
        if process.has_ended() && process.killed().is_none() {
            misbehaved.push(by_itself(process.number));
        } else if !process.finish(BOUND) {
            misbehaved.push(format!("process {} did not end when its input did", process.number));
        }
    }
    misbehaved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_by_itself_is_found_although_a_kill_fault_hits_it_later() {
        let directory = tempfile::tempdir().unwrap();
        let once = directory.path().join("once").display().to_string();
        // The first process ends at once, the next one with its input.
        let script = r#"echo "hello it 1 tokens=no waits=no renews=no"; mkdir "$0" || read line"#;
        let command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), once];
        let (numbers, start) = (Arc::new(AtomicU64::new(1)), Instant::now());
        let place = Place::new(command, &Server::start(Store::Memory), 0, &numbers, start).unwrap();
        let first = place.process();
        distlock_fixtures::eventually_blocking("the first process has ended", || first.has_ended());
        first.kill(start.elapsed());
        place.replace();
        assert_eq!(end(&[Arc::new(place)]), ["process 1 ended by itself"]);
    }
}
