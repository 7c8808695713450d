//! Several processes work on one key while some of them are killed or stopped. The judge reads their beliefs.

use std::time::Duration;

use distlock_tests::{History, LockClient, RedisServer, Tally, residue, shared_clock};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

#[tokio::test(flavor = "multi_thread")]
async fn processes_exclude_each_other_and_lose_no_update() {
    const PROCESSES: usize = 4;
    const SECTIONS: usize = 50;
    let server = RedisServer::start();
    let mut clients: Vec<_> = (0..PROCESSES).map(|_| LockClient::connect(CLIENT, &server.url())).collect();
    for client in &mut clients {
        client.send(&format!("sections k {SECTIONS} 10000 200 tally"));
    }
    let mut history = History::default();
    for (number, client) in clients.iter().enumerate() {
        client.sections(&format!("process {number}"), &mut history);
    }
    history.assert_sound();
    assert_eq!(history.len(), PROCESSES * SECTIONS);
    assert_eq!(Tally::of_key(&server, "tally"), (PROCESSES * SECTIONS) as u64);
    server.raw(&["DEL", "tally"]);
    drop(clients);
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_go_on_when_some_are_killed_and_stopped() {
    const SECTIONS: usize = 60;
    let server = RedisServer::start();
    let mut clients: Vec<_> = (0..4).map(|_| LockClient::connect(CLIENT, &server.url())).collect();
    for client in &mut clients {
        client.send(&format!("sections k {SECTIONS} 4000 300 tally"));
    }
    let mut history = History::default();
    let first = clients[0].expect("section").section("killed");
    let other = clients[1].expect("section").section("stopped");
    clients[0].kill9();
    clients[1].stop();
    history.add(first);
    history.add(other);
    for number in [2, 3] {
        clients[number].sections(&format!("process {number}"), &mut history);
    }
    // It resumes after all others have finished. Its earlier beliefs were judged with those of the others.
    let paused = shared_clock();
    clients[1].cont();
    loop {
        let event = clients[1].next();
        match (event.name(), event.text("kind")) {
            ("section", _) => history.add(event.section("stopped")),
            ("done", _) | ("error", "Lost") => break,
            _ => panic!("{event:?}"),
        }
    }
    assert!(shared_clock() > paused);
    history.assert_sound();
    server.raw(&["DEL", "tally"]);
    drop(clients);
    residue::expires_within(&server, Duration::from_secs(20));
}
