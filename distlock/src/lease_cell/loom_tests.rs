//! The word that says until when a lock is held, under every order in which its holder and the engine can meet at it.
//!
//! Only the engine moves the deadline, and only under the lock of the key: two threads never do it at once.

use std::sync::Arc;

use loom::thread;

use super::{CellState, HoldInfo, How, LeaseCell, Ticket};
use crate::error::LostReason;
use crate::protocol::{LockKind, Time, Token};

/// Before the deadline.
const EARLY: Time = Time(100);
const DEADLINE: Time = Time(200);
const LATE: Time = Time(300);
/// After every deadline.
const END: Time = Time(400);

fn cell() -> Arc<LeaseCell> {
    let hold = HoldInfo {
        key: Arc::from("order"),
        label: "order".into(),
        ticket: Ticket(1),
        token: Token(1),
        kind: LockKind::Exclusive,
        how: How::Free,
        fence: None,
        held_since: EARLY,
        collection: None,
        session: None,
    };
    Arc::new(LeaseCell::new(hold, DEADLINE, None))
}

fn beside<T: 'static>(
    cell: &Arc<LeaseCell>,
    act: impl FnOnce(&LeaseCell) -> T + 'static,
) -> thread::JoinHandle<T> {
    let cell = cell.clone();
    thread::spawn(move || act(&cell))
}

/// The holder's check finds the deadline passed while the engine, whose clock reading is older, extends it.
#[test]
fn loom_lost_is_final() {
    loom::model(|| {
        let cell = cell();
        let holder = beside(&cell, |cell| cell.state(LATE));
        let extended = cell.extend(EARLY, END);
        let seen = holder.join().unwrap();
        let finally = cell.state(EARLY);
        match seen {
            CellState::Lost(LostReason::Expired) => assert_eq!(finally, seen),
            CellState::Until(END) => assert!(extended && finally == seen),
            seen => panic!("{seen:?}"),
        }
    });
}

#[test]
fn loom_of_two_losses_one_reason_counts() {
    loom::model(|| {
        let cell = cell();
        let holder = beside(&cell, |cell| cell.state(LATE));
        let engine = beside(&cell, |cell| cell.lose(EARLY, LostReason::Taken));
        let shutdown = cell.lose(EARLY, LostReason::Shutdown);
        let counts = CellState::Lost(shutdown);
        assert_eq!(CellState::Lost(engine.join().unwrap()), counts);
        assert_eq!(holder.join().unwrap(), counts);
        assert_eq!(cell.state(EARLY), counts);
    });
}

#[test]
fn loom_a_hold_ends_either_by_release_or_by_loss() {
    loom::model(|| {
        let cell = cell();
        let engine = beside(&cell, |cell| cell.lose(EARLY, LostReason::Taken));
        let released = cell.release(EARLY);
        engine.join().unwrap();
        let finally = match released {
            Ok(()) => CellState::Released,
            Err(reason) => CellState::Lost(reason),
        };
        assert_eq!(cell.state(EARLY), finally);
    });
}

/// `max_hold` is set while the holder checks: once the hold is seen to have ended by it, that is the reason.
#[test]
fn loom_the_reason_is_that_of_the_deadline_that_has_passed() {
    loom::model(|| {
        let cell = cell();
        let holder = beside(&cell, |cell| (cell.state(EARLY), cell.state(Time(150))));
        cell.limit(EARLY, Time(120));
        match holder.join().unwrap() {
            (CellState::Until(Time(120)), second) => {
                assert_eq!(second, CellState::Lost(LostReason::MaxHold));
            }
            (CellState::Until(DEADLINE), CellState::Until(DEADLINE)) => {}
            (CellState::Until(DEADLINE), second) => {
                assert_eq!(second, CellState::Lost(LostReason::MaxHold));
            }
            seen => panic!("{seen:?}"),
        }
        assert_eq!(cell.state(END), CellState::Lost(LostReason::MaxHold));
    });
}

/// The engine gives up a lost lease whose holder has not noticed the loss: the holder sees it afterwards.
#[test]
fn loom_a_hold_that_was_given_up_is_noticed_as_lost() {
    loom::model(|| {
        let cell = cell();
        let holder = beside(&cell, |cell| {
            cell.claim(EARLY);
            cell.state(EARLY)
        });
        cell.lose(EARLY, LostReason::Taken);
        let given_up = cell.give_up();
        let seen = holder.join().unwrap();
        assert!(!given_up || seen == CellState::Lost(LostReason::Taken), "{seen:?}");
    });
}

/// A thread that sees the release of an abandoned section also sees that it was abandoned.
#[test]
fn loom_an_abandoned_section_is_known_as_such_once_it_is_released() {
    loom::model(|| {
        let cell = cell();
        let observer = beside(&cell, |cell| (cell.state(EARLY), cell.is_abandoned()));
        cell.abandon();
        cell.release(EARLY).unwrap();
        let (state, abandoned) = observer.join().unwrap();
        assert!(state != CellState::Released || abandoned);
    });
}
