//! The rules one by one, and all of them under every order of events.

use std::collections::{HashSet, VecDeque};

use super::*;

const NOW: Time = Time(1_000_000_000_000);
const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;

/// With so many quick writes behind it.
fn after_quick_writes(writes: u32) -> (Lending<u8>, Time) {
    let (mut lending, mut now) = (Lending::default(), NOW);
    // The first one follows nothing.
    for _ in 0..=writes {
        now = now.after(QUICK);
        lending.wrote(now, FEW);
    }
    (lending, now)
}

fn with_a_guest() -> (Lending<u8>, Visit, Time) {
    let (mut lending, now) = after_quick_writes(FEWEST_QUICK);
    let visit = invited(&mut lending).unwrap();
    assert!(lending.expects(visit, now) && lending.arrived(visit));
    (lending, visit, now)
}

fn invited(lending: &mut Lending<u8>) -> Option<Visit> {
    match lending.asked(1, || Some(HERE)) {
        Asked::Invite(visit) => Some(visit),
        Asked::Nothing | Asked::CallHome => None,
    }
}

/// Writes quickly until a guest is invited. Returns how many writes that took.
fn writes_until_invited(lending: &mut Lending<u8>, now: &mut Time) -> (u32, Visit) {
    for writes in 0..=MOST_QUICK {
        if let Some(visit) = invited(lending) {
            return (writes, visit);
        }
        *now = now.after(QUICK);
        lending.wrote(*now, 1);
    }
    panic!("nobody was invited");
}

#[test]
fn quick_requests_invite_a_guest_who_reads_from_its_arrival_on() {
    let (mut early, _) = after_quick_writes(FEWEST_QUICK - 1);
    assert_eq!(invited(&mut early), None);
    let (mut lending, now) = after_quick_writes(FEWEST_QUICK);
    let visit = invited(&mut lending).unwrap();
    assert_eq!(lending.reader(), Reader::Home);
    assert_eq!(invited(&mut lending), None, "one at a time");
    assert!(lending.expects(visit, now) && lending.arrived(visit));
    assert_eq!(lending.reader(), Reader::Guest(visit));
    assert!(!lending.arrived(visit) && !lending.expects(visit, now));
}

#[test]
fn neither_slow_nor_many_requests_invite_a_guest_nor_those_of_no_runtime() {
    let (mut slow, now) = after_quick_writes(FEWEST_QUICK - 1);
    slow.wrote(now.after(2 * QUICK), 1);
    assert_eq!(invited(&mut slow), None);
    let (mut many, now) = after_quick_writes(FEWEST_QUICK - 1);
    many.wrote(now, FEW + 1);
    assert_eq!(invited(&mut many), None);
    let (mut nowhere, _) = after_quick_writes(FEWEST_QUICK);
    assert_eq!(nowhere.asked(1, || None), Asked::Nothing);
    assert_eq!(invited(&mut nowhere), None, "the writes before count no more");
}

#[test]
fn requests_from_elsewhere_and_too_many_call_a_guest_home_once() {
    for (under_way, from) in [(1, Some(ELSEWHERE)), (1, None), (MANY + 1, Some(HERE))] {
        let (mut lending, visit, _) = with_a_guest();
        assert_eq!(lending.asked(MANY, || Some(HERE)), Asked::Nothing);
        assert_eq!(lending.asked(under_way, || from), Asked::CallHome);
        assert_eq!(lending.asked(under_way, || from), Asked::Nothing);
        assert!(lending.is_called_home());
        assert_eq!(lending.reader(), Reader::Guest(visit), "it reads until home has the connection");
        lending.came_home(NOW);
        assert_eq!(lending.reader(), Reader::Home);
    }
}

#[test]
fn slow_requests_call_a_guest_home() {
    let (mut lending, _, mut now) = with_a_guest();
    for _ in 1..SLOW_WRITES {
        now = now.after(2 * QUICK);
        lending.wrote(now, 1);
    }
    assert!(!lending.is_called_home());
    lending.wrote(now, 1);
    for _ in 0..SLOW_WRITES {
        assert!(!lending.is_called_home(), "a quick one was between them");
        now = now.after(2 * QUICK);
        lending.wrote(now, 1);
    }
    assert!(lending.is_called_home());
}

#[test]
fn a_guest_without_requests_is_called_home() {
    let (mut lending, _, now) = with_a_guest();
    for _ in 0..5 {
        lending.tick(Inbox::Empty, 1);
        lending.tick(Inbox::Empty, 1);
        lending.wrote(now, 1);
        lending.tick(Inbox::Empty, 0);
    }
    assert!(!lending.is_called_home());
    lending.tick(Inbox::Empty, 0);
    assert!(!lending.is_called_home());
    lending.tick(Inbox::Empty, 0);
    assert!(lending.is_called_home());
}

#[test]
fn a_runtime_that_keeps_a_reply_waiting_between_two_ticks_is_banned_longer_each_time() {
    let (mut lending, _, mut now) = with_a_guest();
    lending.tick(Inbox::Unread, 1);
    lending.has_read();
    lending.tick(Inbox::Unread, 1);
    lending.tick(Inbox::Empty, 1);
    lending.tick(Inbox::Unread, 1);
    assert!(!lending.is_called_home(), "it has read, or there was nothing");
    let mut ban = FIRST_BAN;
    for _ in 0..9 {
        lending.tick(Inbox::Unread, 1);
        assert!(lending.is_called_home());
        lending.came_home(now);
        let banned = now;
        let visit = loop {
            now = now.after(QUICK);
            lending.wrote(now, 1);
            if let Some(visit) = invited(&mut lending) {
                break visit;
            }
        };
        assert!(now.duration_since(banned) >= ban && now.duration_since(banned) <= ban + 2 * QUICK);
        ban = (2 * ban).min(LONGEST_BAN);
        assert!(lending.arrived(visit));
        lending.tick(Inbox::Unread, 1);
    }
}

#[test]
fn a_guest_that_comes_too_late_is_not_expected_and_its_runtime_is_banned() {
    let (mut lending, now) = after_quick_writes(FEWEST_QUICK);
    let visit = invited(&mut lending).unwrap();
    assert!(lending.expects(visit, now.after(2 * TICK)));
    assert!(!lending.expects(visit, now.after(3 * TICK)));
    assert!(!lending.left(visit), "home has never ceased to read");
    let (mut now, start) = (now, now);
    let mut writes = 0;
    while invited(&mut lending).is_none() {
        now = now.after(QUICK);
        lending.wrote(now, 1);
        writes += 1;
    }
    assert!(writes >= FEWEST_QUICK - 1 && now.duration_since(start) >= FIRST_BAN);
}

#[test]
fn visits_that_are_not_worth_it_become_rare_until_one_is() {
    let (mut lending, _, mut now) = with_a_guest();
    let mut needed = FEWEST_QUICK;
    for _ in 0..10 {
        lending.asked(1, || None);
        lending.came_home(now);
        needed = (2 * needed).min(MOST_QUICK);
        let (writes, visit) = writes_until_invited(&mut lending, &mut now);
        assert_eq!(writes, needed);
        assert!(lending.arrived(visit));
    }
    for _ in 0..WORTH {
        lending.wrote(now, 1);
    }
    lending.asked(1, || None);
    lending.came_home(now);
    assert_eq!(writes_until_invited(&mut lending, &mut now).0, FEWEST_QUICK);
}

/// Home, guests, and a socket that is registered with the runtime of one of them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    lending: Lending<u8>,
    /// Whom the socket's readiness wakes.
    registered: Reader,
    home: Home,
    guests: Vec<Guest>,
    runtime: Runtime,
    under_way: usize,
    /// Of the requests under way: how many were answered into the socket.
    unread: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Home {
    watches: bool,
    woken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Guest {
    visit: Visit,
    at: Stage,
    woken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Invited,
    /// It is registering the socket, and holds no mutex.
    Registering,
    Reads,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Runtime {
    Runs,
    Blocked,
    Ended,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// After many quick writes.
    AskedHere,
    AskedElsewhere,
    Answered,
    HomePolled,
    GuestPolled(usize),
    Ticked,
    Runtime(Runtime),
}

impl World {
    fn new() -> World {
        World {
            lending: Lending::default(),
            registered: Reader::Home,
            home: Home { watches: false, woken: true },
            guests: Vec::new(),
            runtime: Runtime::Runs,
            under_way: 0,
            unread: 0,
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::HomePolled, Event::Ticked, Event::Answered];
        events.extend([Event::AskedElsewhere, Event::AskedHere]);
        events.extend((0..self.guests.len()).map(Event::GuestPolled));
        events.extend([Runtime::Runs, Runtime::Blocked, Runtime::Ended].map(Event::Runtime));
        events
    }

    /// `false`: this cannot happen now, or would change nothing.
    fn happens(&mut self, event: Event) -> bool {
        match event {
            Event::AskedHere if self.runtime == Runtime::Runs && self.under_way < 2 => self.asked(Some(HERE)),
            Event::AskedElsewhere if self.under_way < 2 => self.asked(None),
            Event::Answered if self.unread < self.under_way => {
                self.unread += 1;
                self.ready();
            }
            Event::HomePolled if self.home.woken => self.poll_home(),
            Event::GuestPolled(at) if self.runtime == Runtime::Runs => return self.poll_guest(at),
            Event::Ticked if self.home.watches => {
                let inbox = if self.unread > 0 { Inbox::Unread } else { Inbox::Empty };
                self.lending.tick(inbox, self.under_way);
                self.home.woken |= self.lending.is_called_home();
            }
            Event::Runtime(to) => return self.turn(to),
            _ => return false,
        }
        true
    }

    fn asked(&mut self, from: Option<u8>) {
        self.under_way += 1;
        if from.is_some() && self.guests.len() < 3 {
            self.lending.hurry();
        }
        match self.lending.asked(1, || from) {
            Asked::Invite(visit) => self.guests.push(Guest { visit, at: Stage::Invited, woken: true }),
            Asked::CallHome => self.home.woken = true,
            Asked::Nothing => {}
        }
    }

    /// The socket has something to read.
    fn ready(&mut self) {
        match self.registered {
            Reader::Home => self.home.woken = true,
            Reader::Guest(visit) => {
                let guests = self.guests.iter_mut().filter(|guest| guest.visit == visit);
                guests.for_each(|guest| guest.woken = true);
            }
        }
    }

    fn read(&mut self, who: Reader) {
        assert_eq!(self.registered, who, "it would not be woken again");
        if self.unread > 0 {
            self.lending.has_read();
        }
        self.under_way -= self.unread;
        self.unread = 0;
    }

    fn poll_home(&mut self) {
        self.home.woken = false;
        if self.lending.is_called_home() {
            let former = std::mem::replace(&mut self.registered, Reader::Home);
            self.lending.came_home(NOW);
            let guests = self.guests.iter_mut();
            guests.filter(|guest| Reader::Guest(guest.visit) == former).for_each(|guest| guest.woken = true);
        }
        self.home.watches = self.lending.reader() != Reader::Home;
        if !self.home.watches {
            self.read(Reader::Home);
        }
    }

    fn poll_guest(&mut self, at: usize) -> bool {
        let Guest { visit, at: stage, woken } = self.guests[at];
        if !woken || stage == Stage::Over {
            return false;
        }
        let next = match stage {
            Stage::Invited if self.lending.expects(visit, Time(0)) => Stage::Registering,
            Stage::Registering if self.lending.arrived(visit) => {
                self.registered = Reader::Guest(visit);
                self.home.woken = true;
                Stage::Reads
            }
            Stage::Reads if self.lending.reader() == Reader::Guest(visit) => {
                self.guests[at].woken = false;
                self.read(Reader::Guest(visit));
                Stage::Reads
            }
            _ => {
                self.leaves(visit);
                Stage::Over
            }
        };
        self.guests[at].at = next;
        true
    }

    fn leaves(&mut self, visit: Visit) {
        self.home.woken |= self.lending.left(visit);
    }

    fn turn(&mut self, to: Runtime) -> bool {
        if self.runtime == to || self.runtime == Runtime::Ended {
            return false;
        }
        self.runtime = to;
        if to == Runtime::Ended {
            for at in 0..self.guests.len() {
                if self.guests[at].at != Stage::Over {
                    self.guests[at].at = Stage::Over;
                    self.leaves(self.guests[at].visit);
                }
            }
        }
        true
    }

    fn check(&self, path: &[Event]) {
        assert_eq!(self.registered, self.lending.reader(), "{path:?}");
        let sees = match self.registered {
            Reader::Home => self.unread == 0 || self.home.woken,
            Reader::Guest(visit) => {
                let guest = self.guests.iter().find(|guest| guest.visit == visit).unwrap();
                let reads = guest.at == Stage::Reads && (self.unread == 0 || guest.woken);
                assert!(self.home.watches || self.home.woken, "nobody looks after the guest: {path:?}");
                reads || self.lending.is_called_home() && self.home.woken
            }
        };
        assert!(sees, "a reply that nobody will read: {path:?}");
        // Without a single poll of the guest's runtime every reply is read after two ticks.
        let mut rest = self.clone();
        for event in [Event::HomePolled, Event::Ticked, Event::Ticked, Event::HomePolled] {
            rest.happens(event);
        }
        assert!(rest.unread == 0, "a reply waits for a runtime: {path:?}");
    }
}

#[test]
fn every_reply_is_read_by_one_reader_whatever_the_runtime_does() {
    let mut seen = HashSet::new();
    let mut todo: VecDeque<(World, Vec<Event>)> = VecDeque::from([(World::new(), Vec::new())]);
    while let Some((world, path)) = todo.pop_front() {
        world.check(&path);
        for event in world.events() {
            let mut next = world.clone();
            if next.happens(event) && seen.insert(next.clone()) {
                todo.push_back((next, path.iter().copied().chain([event]).collect()));
            }
        }
    }
    assert!(seen.len() > 5_000, "{}", seen.len());
}
