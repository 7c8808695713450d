//! Queries and leadership with the blocking API. (The conformance suite tests its locks.)

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::LockManager;
use crate::LockError;
use crate::error::LostReason;
use crate::leader::Leadership;
use crate::observe::LockEvent;

#[test]
fn a_thread_lists_locks_and_reads_how_the_store_is() {
    let builder = crate::LockManager::builder().url("memory:").client_name("import");
    let manager = builder.connect_blocking().unwrap();
    let _guards = ["order:2", "order:1", "user:1"].map(|key| manager.lock(key).label(key).acquire().unwrap());
    let mut locks = manager.list("order:*");
    let keys: Vec<String> = locks.by_ref().map(|lock| lock.unwrap().key).collect();
    assert_eq!(keys, ["order:1", "order:2"]);
    assert!(locks.next().is_none(), "it stays at its end");
    assert!(locks.clients()[0].id.starts_with("import.") && locks.unanswered().is_empty());
    assert_eq!(manager.list("*").count(), 3);
    assert!(manager.health().is_ready());
    assert!(manager.diagnose().is_ok());
    let long = "x".repeat(2_000);
    assert!(matches!(manager.list(long).next(), Some(Err(LockError::InvalidOptions { .. }))));
}

/// An operator's release from another process, which the holder would notice at its next renewal.
#[test]
fn a_loss_that_only_the_reply_to_the_release_shows_is_returned() {
    let store = crate::LockManager::shared_memory();
    let [manager, other]: [LockManager; 2] =
        [(); 2].map(|()| crate::LockManager::of_shared_memory(store.clone(), None).into());
    let run = manager.lock("k").run(|held| {
        assert!(other.force_release("k").unwrap());
        held.check().expect("nothing has told this process");
    });
    let lost = run.unwrap_err();
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Taken, .. }), "{lost}");
}

#[test]
fn a_thread_reads_events_until_the_manager_ends() {
    let manager = LockManager::in_memory();
    let events = manager.events();
    manager.lock("k").label("it").run(|_| ()).unwrap();
    drop(manager);
    let labels: Vec<String> = events
        .filter_map(|event| match event {
            LockEvent::Acquired { label, .. } | LockEvent::Released { label, .. } => Some(label.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(labels, ["it", "it"]);
}

#[test]
fn a_leader_whose_term_is_taken_away_campaigns_again() {
    let manager = LockManager::in_memory();
    let candidate = manager.leader("office");
    let mut watch = candidate.watch();
    assert_eq!(watch.changed(), Leadership::Vacant);
    let mut terms = Vec::new();
    let last = candidate.run(|lead| {
        assert!(candidate.is_leader() && candidate.term() == Some(lead.term()));
        assert_eq!(watch.changed(), Leadership::Here { term: lead.term() });
        terms.push(lead.term());
        if terms.len() == 1 {
            assert!(manager.force_release("office").unwrap());
            while lead.is_leader() {
                thread::park_timeout(Duration::from_millis(1));
            }
        }
        lead.term()
    });
    assert!(terms.len() == 2 && terms[0] < terms[1], "{terms:?}");
    assert_eq!(last.unwrap(), terms[1], "what the first term returned counts for nothing");
    assert!(!candidate.is_leader() && manager.inspect("office").unwrap().is_none(), "it has resigned");
}

#[test]
fn a_shutdown_ends_a_campaign_and_asks_a_leader_to_return() {
    let manager = LockManager::in_memory();
    let (began, begun) = mpsc::channel();
    thread::scope(|threads| {
        let leads = threads.spawn(|| {
            manager.leader("office").run(|lead| {
                began.send(()).unwrap();
                while !lead.is_closing() {
                    thread::park_timeout(Duration::from_millis(1));
                }
                lead.is_leader()
            })
        });
        begun.recv().unwrap();
        let campaigns = threads.spawn(|| manager.leader("office").run(|_| ()));
        while manager.inspect("office").unwrap().unwrap().waiters_here == 0 {
            thread::yield_now();
        }
        let report = manager.shutdown(Duration::from_secs(60));
        assert_eq!((report.held, report.lost), (2, 0), "the lock of the office, and that of the term");
        assert!(leads.join().unwrap().unwrap(), "it returned in its term");
        assert!(matches!(campaigns.join().unwrap(), Err(LockError::Closed)));
    });
    assert!(matches!(manager.leader("office").run(|_| ()), Err(LockError::Closed)));
}
