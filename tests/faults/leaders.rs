//! Leaders in separate processes are killed and stopped, and their server is restarted. Each time, a process leads
//! again in a later term, and no two processes believe at the same time that they lead.

use std::time::Duration;

use distlock::LockManager;
use distlock::leader::{LeaderWatch, Leadership};
use distlock_tests::{
    BOUND, Event, History, LockClient, RedisServer, Section, eventually_blocking, shared_clock,
};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");
const TTL_MS: u64 = 1500;

/// The candidates for one office, and their beliefs.
struct Candidates {
    clients: Vec<LockClient>,
    /// The terms that each process has reported, in order.
    terms: Vec<Vec<Section>>,
}

impl Candidates {
    fn start(url: &str, count: usize) -> Self {
        let mut clients: Vec<_> = (0..count).map(|_| LockClient::connect(CLIENT, url)).collect();
        for client in &mut clients {
            client.send(&format!("lead office {TTL_MS}"));
        }
        Candidates { clients, terms: vec![Vec::new(); count] }
    }

    /// Reads their output so far.
    fn listen(&mut self) {
        for (number, client) in self.clients.iter().enumerate() {
            while let Some(event) = client.try_next() {
                self.terms[number].push_belief(number, &event);
            }
        }
    }

    /// The last process that has led, and its last term.
    fn latest(&self) -> Option<(usize, &Section)> {
        self.latest_but(None)
    }

    /// The same without one of the processes.
    fn latest_but(&self, one: Option<usize>) -> Option<(usize, &Section)> {
        let others = self.terms.iter().enumerate().filter(|(number, _)| Some(*number) != one);
        let leaders = others.filter_map(|(number, terms)| Some((number, terms.last()?)));
        leaders.max_by_key(|(_, term)| term.fence)
    }

    /// Waits until a process leads in a later term than `former`, and returns the process.
    fn next_leader(&mut self, former: Option<u64>) -> (usize, u64) {
        self.next_leader_but(None, former)
    }

    /// Waits until a process other than this one leads in a later term than `former`.
    fn next_leader_but(&mut self, one: Option<usize>, former: Option<u64>) -> (usize, u64) {
        let mut found = None;
        eventually_blocking("somebody leads", || {
            self.listen();
            let latest = self.latest_but(one).and_then(|(number, term)| Some((number, term.fence?)));
            found = latest.filter(|(_, term)| Some(*term) > former);
            found.is_some()
        });
        found.unwrap()
    }

    fn judge(mut self) {
        self.listen();
        let mut history = History::default();
        for section in self.terms.into_iter().flatten() {
            history.add(section);
        }
        history.assert_sound();
    }
}

trait Believe {
    fn push_belief(&mut self, number: usize, event: &Event);
}

impl Believe for Vec<Section> {
    /// At a `leads` event, the process believed that it leads. Between two such events in one term, it believed so,
    /// too.
    fn push_belief(&mut self, number: usize, event: &Event) {
        assert_eq!(event.name(), "leads", "{event:?}");
        let (at, fence) = (event.time("at"), event.number("term"));
        match self.last_mut().filter(|section| section.fence == fence) {
            Some(section) => section.left = at,
            None => {
                let begun = Section::new(&format!("process {number}"), "office", at, at);
                self.push(Section { fence, ..begun });
            }
        }
    }
}

#[test]
fn a_leader_that_is_killed_is_followed_within_its_lease() {
    let server = RedisServer::start();
    let mut candidates = Candidates::start(&server.url(), 3);
    let mut former = None;
    for _ in 0..2 {
        let (leader, term) = candidates.next_leader(former);
        former = Some(term);
        candidates.clients[leader].kill9();
        let killed = shared_clock();
        candidates.next_leader(former);
        let took = shared_clock() - killed;
        assert!(took < Duration::from_millis(TTL_MS) + Duration::from_secs(60), "{took:?}");
    }
    candidates.judge();
}

#[tokio::test]
async fn a_watch_reports_who_follows_a_leader_that_was_killed() {
    let server = RedisServer::start();
    let mut candidates = Candidates::start(&server.url(), 2);
    let watcher = LockManager::connect(&server.url()).await.unwrap();
    let mut watch = watcher.leader("office").watch();
    let killed = next_leader_elsewhere(&mut watch, None).await;
    candidates.clients.iter_mut().find(|client| client.id() == killed).unwrap().kill9();
    let next = next_leader_elsewhere(&mut watch, Some(killed)).await;
    assert!(candidates.clients.iter().any(|client| client.id() == next), "{next}");
    // On a busy machine, a leader may lose a term.
    assert!(watch.transitions() >= 2, "{}", watch.transitions());
    candidates.judge();
}

/// The process of the next leader that is not `former`.
async fn next_leader_elsewhere(watch: &mut LeaderWatch, former: Option<u32>) -> u32 {
    let next = async {
        loop {
            let Leadership::Elsewhere { client: Some(client), .. } = watch.changed().await else { continue };
            if let Some(pid) = client.pid.filter(|pid| Some(*pid) != former) {
                return pid;
            }
        }
    };
    tokio::time::timeout(BOUND, next).await.expect("the next leader is reported")
}

#[test]
fn a_leader_that_was_stopped_has_been_followed_and_knows_it() {
    let server = RedisServer::start();
    let mut candidates = Candidates::start(&server.url(), 3);
    let (stopped, term) = candidates.next_leader(None);
    candidates.clients[stopped].stop();
    let (other, later) = candidates.next_leader_but(Some(stopped), Some(term));
    candidates.clients[stopped].cont();
    // The present leader is killed, too. The candidates lead in turn, in any order of their queue.
    candidates.clients[other].kill9();
    let (_, last) = candidates.next_leader(Some(later));
    candidates.listen();
    assert!(last > later && later > term);
    candidates.judge();
}

#[test]
fn a_leader_is_found_again_after_its_server_was_away() {
    let mut server = RedisServer::options().append_only().start();
    let mut candidates = Candidates::start(&server.url(), 3);
    let (_, term) = candidates.next_leader(None);
    server.stop();
    // Longer than the lease, so no process can lead, and none believes that it does.
    let silent = shared_clock() + Duration::from_millis(TTL_MS * 2);
    let mut latest = Duration::ZERO;
    eventually_blocking("the term is over", || {
        candidates.listen();
        latest = candidates.latest().map_or(Duration::ZERO, |(_, term)| term.left);
        shared_clock() > silent
    });
    assert!(latest < silent - Duration::from_millis(TTL_MS / 2), "{latest:?} {silent:?}");
    server.cont();
    let (_, second) = candidates.next_leader(Some(term));
    server.restart();
    let (leader, _) = candidates.next_leader(Some(second - 1));
    candidates.clients[leader].kill9();
    candidates.next_leader(Some(second));
    candidates.judge();
}
