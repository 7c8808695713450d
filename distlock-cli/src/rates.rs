//! The rates of busy requests and lost holds, from the clients' own counters.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use distlock::LockClient;

/// The time over which the rates are computed: a client writes its counters every five seconds.
const RATES_OVER: Duration = Duration::from_secs(15);

/// Numbers for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) busy: f64,
    pub(crate) lost: f64,
}

/// The counts of all clients between two looks.
#[derive(Clone, Copy, Debug)]
struct Interval {
    time: Duration,
    busy: u64,
    lost: u64,
}

/// The counts of one client at a look: busy requests and lost holds.
type Met = (u64, u64);

/// Computes rates from repeated looks at the counters of the clients.
#[derive(Debug)]
pub(crate) struct Meter {
    /// A rate covers the last listings within this time, and at least the last two.
    window: Duration,
    last: Option<(Instant, HashMap<String, Met>)>,
    steps: VecDeque<Interval>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::over(RATES_OVER)
    }
}

impl Meter {
    fn over(window: Duration) -> Self {
        Meter { window, last: None, steps: VecDeque::new() }
    }

    /// Records the present counters of the clients. `None`: it is the first listing, or no client has counters. A new
    /// client counts from its first look on. This process does not count, because it only looks.
    pub(crate) fn look(&mut self, at: Instant, clients: &[LockClient]) -> Option<Rates> {
        let others = clients.iter().filter(|client| !is_here(client));
        let met: HashMap<String, Met> =
            others.filter_map(|client| Some((client.id.clone(), (client.busy?, client.lost?)))).collect();
        let before = self.last.replace((at, met));
        let ((since, before), (_, now)) = (before?, self.last.as_ref()?);
        let known = || now.iter().filter_map(|(id, met)| Some((met, before.get(id)?)));
        if known().next().is_none() {
            self.steps.clear();
            return None;
        }
        let busy = known().map(|((now, _), (before, _))| now.saturating_sub(*before)).sum();
        let lost = known().map(|((_, now), (_, before))| now.saturating_sub(*before)).sum();
        self.steps.push_back(Interval { time: at.duration_since(since), busy, lost });
        self.forget();
        self.rates()
    }

    /// Removes intervals that are older than the window.
    fn forget(&mut self) {
        let mut time: Duration = self.steps.iter().map(|step| step.time).sum();
        while let Some(first) = self.steps.front()
            && self.steps.len() > 1
            && time - first.time >= self.window
        {
            time -= first.time;
            self.steps.pop_front();
        }
    }

    fn rates(&self) -> Option<Rates> {
        let seconds = self.steps.iter().map(|step| step.time).sum::<Duration>().as_secs_f64();
        let each_second = |count: u64| u32::try_from(count).map_or(f64::INFINITY, f64::from) / seconds;
        let (busy, lost) =
            self.steps.iter().fold((0, 0), |(busy, lost), step| (busy + step.busy, lost + step.lost));
        (seconds > 0.0).then(|| Rates { busy: each_second(busy), lost: each_second(lost) })
    }
}

/// Whether the client is this process.
fn is_here(client: &LockClient) -> bool {
    client.pid == Some(std::process::id()) && client.host.as_ref() == Some(&host())
}

/// The name of this machine, as clients report it.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a manager can make one.
    async fn client() -> LockClient {
        let manager = distlock::LockManager::in_memory();
        let mut locks = manager.list("*");
        assert!(locks.next().await.is_none());
        locks.clients()[0].clone()
    }

    fn other(mut client: LockClient, id: &str, (busy, lost): Met) -> LockClient {
        (client.id, client.host) = (id.to_owned(), Some("elsewhere".to_owned()));
        (client.busy, client.lost) = (Some(busy), Some(lost));
        client
    }

    fn after(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn rates_are_those_of_clients_that_were_there_before() {
        let (one, begin) = (client().await, Instant::now());
        let at = |id: &str, met: Met| other(one.clone(), id, met);
        let mut meter = Meter::over(Duration::ZERO);
        assert_eq!(meter.look(begin, &[at("a", (7, 1))]), None);
        let with_newcomer = [at("a", (12, 1)), at("b", (1_000, 1_000))];
        assert_eq!(meter.look(after(begin, 2), &with_newcomer), Some(Rates { busy: 2.5, lost: 0.0 }));
        let alone = [at("b", (1_000, 1_003))];
        assert_eq!(meter.look(after(begin, 3), &alone), Some(Rates { busy: 0.0, lost: 3.0 }));
        assert_eq!(meter.look(after(begin, 4), &[]), None, "nobody tells");
    }

    #[tokio::test]
    async fn a_window_covers_several_looks() {
        let (one, begin) = (client().await, Instant::now());
        let mut meter = Meter::over(Duration::from_secs(4));
        let mut rates = Vec::new();
        for (second, busy) in [(0, 0), (1, 8), (2, 8), (3, 8), (4, 8), (5, 8)] {
            rates.push(
                meter
                    .look(after(begin, second), &[other(one.clone(), "a", (busy, 0))])
                    .map(|rates| rates.busy),
            );
        }
        assert_eq!(rates, [None, Some(8.0), Some(4.0), Some(8.0 / 3.0), Some(2.0), Some(0.0)]);
    }

    /// On this store, only this client has counters.
    #[tokio::test]
    async fn what_this_process_meets_says_nothing() {
        let (one, begin) = (client().await, Instant::now());
        let mut meter = Meter::over(Duration::ZERO);
        let me = std::slice::from_ref(&one);
        assert_eq!((meter.look(begin, me), meter.look(after(begin, 1), me)), (None, None));
    }
}
