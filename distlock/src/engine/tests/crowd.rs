//! Many waiters on one key: the cost of an event does not grow with their number.

use super::*;
use crate::engine::state::waiters::looks;

const CROWD: u32 = 100_000;
/// Several times the binary logarithm of the crowd.
const FEW: u64 = 400;

fn spread(who: u32) -> Duration {
    // In no order.
    ms(10_000 + u64::from(who.wrapping_mul(2_654_435_761) % 60_000))
}

/// The lock is held here, and a crowd waits: every tenth without a time limit, the others with limits of all
/// kinds. Also returns the highest cost of adding a waiter.
fn gather(desk: &mut Desk, unavailable_after: Duration) -> (Vec<Ticket>, u64) {
    let (mut tickets, mut dearest) = (Vec::new(), 0);
    for who in 1..=CROWD {
        let until = desk.now.after(spread(who));
        let wait_limit = if who % 10 == 0 { WaitLimit::Forever } else { WaitLimit::Until(until) };
        let before = looks();
        tickets.push(desk.acquire(who, Want { wait_limit, unavailable_after, ..want() }));
        dearest = dearest.max(looks() - before);
    }
    (tickets, dearest)
}

/// How many waiters one event looks at.
fn cost(event: impl FnOnce()) -> u64 {
    let before = looks();
    event();
    looks() - before
}

#[test]
fn coming_costs_little() {
    let mut desk = Desk::new();
    desk.hold(want());
    let (_, dearest) = gather(&mut desk, ms(3_000));
    assert!(dearest < FEW, "{dearest}");
}

#[test]
fn leaving_in_any_order_costs_little() {
    let mut desk = Desk::new();
    desk.hold(want());
    let (tickets, _) = gather(&mut desk, ms(3_000));
    let total = cost(|| {
        for place in 0..u64::from(CROWD) {
            let place = usize::try_from(place * 7_919 % u64::from(CROWD)).unwrap();
            desk.cancel(tickets[place]);
        }
    });
    assert!(total / u64::from(CROWD) < FEW / 4, "{total}");
    assert_eq!(desk.engine.look(&desk.key, |machine| machine.waiting(&desk.key)), 0);
}

#[test]
fn giving_up_one_after_the_other_costs_little() {
    let mut desk = Desk::new();
    let cell = desk.hold(Want { ttl: ms(600_000), ..want() });
    gather(&mut desk, ms(3_000));
    let mut total = 0;
    let mut ticks = 0;
    while desk.engine.look(&desk.key, |machine| machine.waiting(&desk.key)) > 95_000 {
        desk.now = desk.now.max(desk.engine.next_due().unwrap());
        total += cost(|| desk.timer());
        ticks += 1;
    }
    // Each waiter that gives up counts as one event, and so does every tick.
    let events = ticks + u64::try_from(desk.done.len()).unwrap();
    assert!(total / events < FEW / 4, "{total} for {events}");
    assert!(desk.done.iter().all(|(_, outcome)| matches!(outcome, Outcome::Busy { .. })));
    desk.until(&cell);
}

#[test]
fn being_turned_away_and_being_handed_the_lock_cost_little() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    gather(&mut desk, ms(3_000));
    let once = Want { wait_limit: WaitLimit::Once, ..want() };
    let turned_away = cost(|| {
        desk.acquire(0, once);
    });
    assert!(turned_away < FEW, "{turned_away}");
    assert!(matches!(desk.outcome(), (0, Outcome::Busy { .. })));
    let handed_on = cost(|| assert_eq!(desk.release(&cell), ReleaseStarted::HandedOn));
    assert!(handed_on < FEW, "{handed_on}");
    assert!(matches!(desk.outcome(), (1, Outcome::Acquired(_))));
}

#[test]
fn heartbeats_and_a_broken_link_cost_little() {
    let mut desk = Desk::new();
    desk.queue(want());
    gather(&mut desk, ms(600_000));
    for _ in 0..3 {
        let ticked = cost(|| {
            desk.sleep();
        });
        assert!(ticked < FEW, "{ticked}");
        let (context, ..) = desk.next_enter();
        let answered = cost(|| desk.busy(context));
        assert!(answered < FEW, "{answered}");
    }
    let broken = cost(|| desk.down());
    assert!(broken < FEW, "{broken}");
}

#[test]
fn a_server_out_of_reach_is_noticed_by_all_of_them_in_order() {
    let mut desk = Desk::new();
    let cell = desk.hold(want());
    gather(&mut desk, ms(3_000));
    desk.pass(ms(60));
    desk.release(&cell);
    desk.down();
    let total = cost(|| {
        desk.pass(ms(3_000));
        desk.timer();
    });
    assert_eq!(desk.done.len(), usize::try_from(CROWD).unwrap());
    assert!(
        desk.done
            .iter()
            .zip(1..)
            .all(|((who, outcome), place)| { *who == place && matches!(outcome, Outcome::Unavailable(_)) })
    );
    assert!(total / u64::from(CROWD) < FEW / 4, "{total}");
}

/// The small queue is scanned, the large one has an index: both must agree.
#[test]
fn a_waiter_gives_up_at_the_same_time_in_a_crowd_and_alone() {
    let unavailable_after = ms(700);
    let wait_limit = |who: u32, now: Time| match who % 4 {
        0 => WaitLimit::Forever,
        1 => WaitLimit::Once,
        _ => WaitLimit::Until(now.after(ms(100 + u64::from(who) * 37 % 1_900))),
    };
    for who in 0..40 {
        let end_of = |crowd: u32| {
            let mut desk = Desk::new();
            let first = desk.acquire(9_999, Want { unavailable_after: ms(60_000), ..want() });
            let others = who + 1..who + crowd;
            for other in std::iter::once(who).chain(others) {
                let wait_limit = wait_limit(other, desk.now);
                desk.acquire(other, Want { wait_limit, unavailable_after, ..want() });
            }
            // The server is silent for two seconds, and half a crowd leaves.
            desk.cancel(first);
            while !desk.done.iter().any(|(found, _)| *found == who) {
                let due = desk.engine.next_due()?;
                desk.now = desk.now.max(due);
                desk.timer();
            }
            let found = desk.done.iter().find(|(found, _)| *found == who)?;
            Some((desk.now, matches!(found.1, Outcome::Unavailable(_))))
        };
        assert_eq!(end_of(1), end_of(60), "request {who}");
    }
}

#[test]
fn one_that_comes_when_enough_wait_is_told_that_it_is_busy() {
    let mut desk = Desk::new();
    let limited = Want { max_waiters: Some(2), ..want() };
    let cell = desk.hold(limited.clone());
    let first = desk.acquire(1, limited.clone());
    desk.acquire(2, limited.clone());
    desk.nobody_is_done();
    desk.acquire(3, limited.clone());
    let (who, outcome) = desk.outcome();
    let Outcome::Busy { holder: Some(_), waited } = outcome else { panic!("{outcome:?}") };
    assert_eq!((who, waited), (3, Duration::ZERO));
    // This does not concern requests that accept a longer queue.
    desk.acquire(4, want());
    desk.cancel(first);
    desk.nobody_is_done();
    desk.release(&cell);
    assert!(matches!(desk.outcome(), (2, Outcome::Acquired(_))));
    desk.acquire(5, limited);
    desk.nobody_is_done();
}

#[test]
fn keys_that_are_not_used_any_more_keep_no_room() {
    let mut desk = Desk::new();
    let mut cells = Vec::new();
    for number in 0..50_000 {
        desk.key = format!("k{number}").into();
        cells.push(desk.hold(want()));
    }
    assert!(desk.engine.room() >= 50_000);
    for cell in cells {
        desk.release(&cell);
        let (context, _) = desk.next_leave();
        desk.answer(context, Ok(ReleaseReply::Released { gap: false }));
    }
    assert_eq!(desk.engine.rest(), 0);
    assert!(desk.engine.room() < 1_000, "{}", desk.engine.room());
}
