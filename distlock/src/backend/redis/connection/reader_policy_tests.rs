//! Tests of each rule, and of all rules under every order of events.

use std::collections::{HashSet, VecDeque};

use super::*;

const NOW: Time = Time(1_000_000_000_000);
const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;

/// A policy after this many quick writes.
fn after_quick_writes(writes: u32) -> (ReaderPolicy<u8>, Time) {
    let (mut policy, mut now) = (ReaderPolicy::default(), NOW);
    // The first write has no write before it, so one more is needed.
    for _ in 0..=writes {
        now = now.after(MAX_WRITE_GAP);
        policy.wrote(now, MAX_IN_FLIGHT_TO_START);
    }
    (policy, now)
}

fn with_a_caller_reader() -> (ReaderPolicy<u8>, Generation, Time) {
    let (mut policy, now) = after_quick_writes(MIN_QUICK_WRITES);
    let generation = started(&mut policy).unwrap();
    assert!(policy.may_register(generation, now) && policy.registered(generation));
    (policy, generation, now)
}

fn started(policy: &mut ReaderPolicy<u8>) -> Option<Generation> {
    match policy.sent(1, || Some(HERE)) {
        Some(Change::Start(generation)) => Some(generation),
        None | Some(Change::Recall) => None,
    }
}

/// Writes quickly until a reader is started. Returns the number of writes.
fn writes_until_started(policy: &mut ReaderPolicy<u8>, now: &mut Time) -> (u32, Generation) {
    for writes in 0..=(MIN_QUICK_WRITES << MAX_DOUBLINGS) {
        if let Some(generation) = started(policy) {
            return (writes, generation);
        }
        *now = now.after(MAX_WRITE_GAP);
        policy.wrote(*now, 1);
    }
    panic!("no reader was started");
}

#[test]
fn quick_requests_start_a_reader_that_reads_once_the_socket_is_registered() {
    let (mut early, _) = after_quick_writes(MIN_QUICK_WRITES - 1);
    assert_eq!(started(&mut early), None);
    let (mut policy, now) = after_quick_writes(MIN_QUICK_WRITES);
    let generation = started(&mut policy).unwrap();
    assert_eq!(policy.reader(), Reader::IoThread);
    assert_eq!(started(&mut policy), None, "one at a time");
    assert!(policy.may_register(generation, now) && policy.registered(generation));
    assert_eq!(policy.reader(), Reader::Caller(generation));
    assert!(!policy.registered(generation) && !policy.may_register(generation, now));
}

#[test]
fn neither_slow_nor_many_requests_start_a_reader_nor_those_of_no_runtime() {
    let (mut slow, now) = after_quick_writes(MIN_QUICK_WRITES - 1);
    slow.wrote(now.after(2 * MAX_WRITE_GAP), 1);
    assert_eq!(started(&mut slow), None);
    let (mut many, now) = after_quick_writes(MIN_QUICK_WRITES - 1);
    many.wrote(now, MAX_IN_FLIGHT_TO_START + 1);
    assert_eq!(started(&mut many), None);
    let (mut nowhere, _) = after_quick_writes(MIN_QUICK_WRITES);
    assert_eq!(nowhere.sent(1, || None), None);
    assert_eq!(started(&mut nowhere), None, "the writes before count no more");
}

#[test]
fn requests_from_elsewhere_and_too_many_recall_the_socket_once() {
    for (in_flight, from) in [(1, Some(ELSEWHERE)), (1, None), (MAX_IN_FLIGHT + 1, Some(HERE))] {
        let (mut policy, generation, _) = with_a_caller_reader();
        assert_eq!(policy.sent(MAX_IN_FLIGHT, || Some(HERE)), None);
        assert_eq!(policy.sent(in_flight, || from), Some(Change::Recall));
        assert_eq!(policy.sent(in_flight, || from), None);
        assert!(policy.is_recalled());
        assert_eq!(
            policy.reader(),
            Reader::Caller(generation),
            "it reads until the I/O thread has the socket"
        );
        policy.taken_back(NOW);
        assert_eq!(policy.reader(), Reader::IoThread);
    }
}

#[test]
fn slow_requests_recall_the_socket() {
    let (mut policy, _, mut now) = with_a_caller_reader();
    for _ in 1..MAX_SLOW_WRITES {
        now = now.after(2 * MAX_WRITE_GAP);
        policy.wrote(now, 1);
    }
    assert!(!policy.is_recalled());
    policy.wrote(now, 1);
    for _ in 0..MAX_SLOW_WRITES {
        assert!(!policy.is_recalled(), "a quick one was between them");
        now = now.after(2 * MAX_WRITE_GAP);
        policy.wrote(now, 1);
    }
    assert!(policy.is_recalled());
}

#[test]
fn a_reader_without_requests_loses_the_socket() {
    let (mut policy, _, now) = with_a_caller_reader();
    for _ in 0..5 {
        policy.check(ReceiveBuffer::Empty, 1);
        policy.check(ReceiveBuffer::Empty, 1);
        policy.wrote(now, 1);
        policy.check(ReceiveBuffer::Empty, 0);
    }
    assert!(!policy.is_recalled());
    policy.check(ReceiveBuffer::Empty, 0);
    assert!(!policy.is_recalled());
    policy.check(ReceiveBuffer::Empty, 0);
    assert!(policy.is_recalled());
}

#[test]
fn a_runtime_that_leaves_a_reply_unread_between_two_checks_does_not_read_for_longer_each_time() {
    let (mut policy, _, mut now) = with_a_caller_reader();
    policy.check(ReceiveBuffer::Unread, 1);
    policy.has_read();
    policy.check(ReceiveBuffer::Unread, 1);
    policy.check(ReceiveBuffer::Empty, 1);
    policy.check(ReceiveBuffer::Unread, 1);
    assert!(!policy.is_recalled(), "it has read, or there was nothing");
    let mut backoff = MIN_BACKOFF;
    for _ in 0..9 {
        policy.check(ReceiveBuffer::Unread, 1);
        assert!(policy.is_recalled());
        policy.taken_back(now);
        let recalled = now;
        let generation = loop {
            now = now.after(MAX_WRITE_GAP);
            policy.wrote(now, 1);
            if let Some(generation) = started(&mut policy) {
                break generation;
            }
        };
        assert!(
            now.duration_since(recalled) >= backoff
                && now.duration_since(recalled) <= backoff + 2 * MAX_WRITE_GAP
        );
        backoff = (2 * backoff).min(MIN_BACKOFF * (1 << MAX_DOUBLINGS));
        assert!(policy.registered(generation));
        policy.check(ReceiveBuffer::Unread, 1);
    }
}

#[test]
fn a_reader_that_is_polled_too_late_may_not_register_and_its_runtime_backs_off() {
    let (mut policy, now) = after_quick_writes(MIN_QUICK_WRITES);
    let generation = started(&mut policy).unwrap();
    assert!(policy.may_register(generation, now.after(2 * CHECK_INTERVAL)));
    assert!(!policy.may_register(generation, now.after(3 * CHECK_INTERVAL)));
    assert!(!policy.ended(generation), "the I/O thread has never ceased to read");
    let (mut now, start) = (now, now);
    let mut writes = 0;
    while started(&mut policy).is_none() {
        now = now.after(MAX_WRITE_GAP);
        policy.wrote(now, 1);
        writes += 1;
    }
    assert!(writes >= MIN_QUICK_WRITES - 1 && now.duration_since(start) >= MIN_BACKOFF);
}

#[test]
fn readers_that_are_not_worth_their_moves_become_rare_until_one_is() {
    let (mut policy, _, mut now) = with_a_caller_reader();
    let mut needed = MIN_QUICK_WRITES;
    for _ in 0..10 {
        policy.sent(1, || None);
        policy.taken_back(now);
        needed = (2 * needed).min(MIN_QUICK_WRITES << MAX_DOUBLINGS);
        let (writes, generation) = writes_until_started(&mut policy, &mut now);
        assert_eq!(writes, needed);
        assert!(policy.registered(generation));
    }
    for _ in 0..WRITES_WORTH_MOVING {
        policy.wrote(now, 1);
    }
    policy.sent(1, || None);
    policy.taken_back(now);
    assert_eq!(writes_until_started(&mut policy, &mut now).0, MIN_QUICK_WRITES);
}

/// The I/O thread, readers on the callers' runtime, and a socket that is registered with the runtime of one of them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    reader_policy: ReaderPolicy<u8>,
    /// The reader that the socket's readiness wakes.
    registered: Reader,
    io_thread: IoThread,
    readers: Vec<CallerReader>,
    runtime: Runtime,
    in_flight: usize,
    /// The number of requests in flight whose replies are in the socket.
    unread: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct IoThread {
    checks: bool,
    woken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CallerReader {
    generation: Generation,
    at: Stage,
    woken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Starting,
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
    SentHere,
    SentElsewhere,
    Answered,
    IoThreadPolled,
    ReaderPolled(usize),
    Checked,
    Runtime(Runtime),
}

impl World {
    fn new() -> World {
        World {
            reader_policy: ReaderPolicy::default(),
            registered: Reader::IoThread,
            io_thread: IoThread { checks: false, woken: true },
            readers: Vec::new(),
            runtime: Runtime::Runs,
            in_flight: 0,
            unread: 0,
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::IoThreadPolled, Event::Checked, Event::Answered];
        events.extend([Event::SentElsewhere, Event::SentHere]);
        events.extend((0..self.readers.len()).map(Event::ReaderPolled));
        events.extend([Runtime::Runs, Runtime::Blocked, Runtime::Ended].map(Event::Runtime));
        events
    }

    /// `false`: this event cannot happen now, or would change nothing.
    fn happens(&mut self, event: Event) -> bool {
        match event {
            Event::SentHere if self.runtime == Runtime::Runs && self.in_flight < 2 => self.sent(Some(HERE)),
            Event::SentElsewhere if self.in_flight < 2 => self.sent(None),
            Event::Answered if self.unread < self.in_flight => {
                self.unread += 1;
                self.ready();
            }
            Event::IoThreadPolled if self.io_thread.woken => self.poll_io_thread(),
            Event::ReaderPolled(at) if self.runtime == Runtime::Runs => return self.poll_reader(at),
            Event::Checked if self.io_thread.checks => {
                let buffer = if self.unread > 0 { ReceiveBuffer::Unread } else { ReceiveBuffer::Empty };
                self.reader_policy.check(buffer, self.in_flight);
                self.io_thread.woken |= self.reader_policy.is_recalled();
            }
            Event::Runtime(to) => return self.turn(to),
            _ => return false,
        }
        true
    }

    fn sent(&mut self, from: Option<u8>) {
        self.in_flight += 1;
        if from.is_some() && self.readers.len() < 3 {
            self.reader_policy.skip_to_start();
        }
        match self.reader_policy.sent(1, || from) {
            Some(Change::Start(generation)) => {
                self.readers.push(CallerReader { generation, at: Stage::Starting, woken: true })
            }
            Some(Change::Recall) => self.io_thread.woken = true,
            None => {}
        }
    }

    /// The socket has data to read.
    fn ready(&mut self) {
        match self.registered {
            Reader::IoThread => self.io_thread.woken = true,
            Reader::Caller(generation) => {
                let readers = self.readers.iter_mut().filter(|reader| reader.generation == generation);
                readers.for_each(|reader| reader.woken = true);
            }
        }
    }

    fn read(&mut self, who: Reader) {
        assert_eq!(self.registered, who, "it would not be woken again");
        if self.unread > 0 {
            self.reader_policy.has_read();
        }
        self.in_flight -= self.unread;
        self.unread = 0;
    }

    fn poll_io_thread(&mut self) {
        self.io_thread.woken = false;
        if self.reader_policy.is_recalled() {
            let former = std::mem::replace(&mut self.registered, Reader::IoThread);
            self.reader_policy.taken_back(NOW);
            let readers = self.readers.iter_mut();
            readers
                .filter(|reader| Reader::Caller(reader.generation) == former)
                .for_each(|reader| reader.woken = true);
        }
        self.io_thread.checks = self.reader_policy.reader() != Reader::IoThread;
        if !self.io_thread.checks {
            self.read(Reader::IoThread);
        }
    }

    fn poll_reader(&mut self, at: usize) -> bool {
        let CallerReader { generation, at: stage, woken } = self.readers[at];
        if !woken || stage == Stage::Over {
            return false;
        }
        let next = match stage {
            Stage::Starting if self.reader_policy.may_register(generation, Time(0)) => Stage::Registering,
            Stage::Registering if self.reader_policy.registered(generation) => {
                self.registered = Reader::Caller(generation);
                self.io_thread.woken = true;
                Stage::Reads
            }
            Stage::Reads if self.reader_policy.reader() == Reader::Caller(generation) => {
                self.readers[at].woken = false;
                self.read(Reader::Caller(generation));
                Stage::Reads
            }
            _ => {
                self.leaves(generation);
                Stage::Over
            }
        };
        self.readers[at].at = next;
        true
    }

    fn leaves(&mut self, generation: Generation) {
        self.io_thread.woken |= self.reader_policy.ended(generation);
    }

    fn turn(&mut self, to: Runtime) -> bool {
        if self.runtime == to || self.runtime == Runtime::Ended {
            return false;
        }
        self.runtime = to;
        if to == Runtime::Ended {
            for at in 0..self.readers.len() {
                if self.readers[at].at != Stage::Over {
                    self.readers[at].at = Stage::Over;
                    self.leaves(self.readers[at].generation);
                }
            }
        }
        true
    }

    fn check(&self, path: &[Event]) {
        assert_eq!(self.registered, self.reader_policy.reader(), "{path:?}");
        let sees = match self.registered {
            Reader::IoThread => self.unread == 0 || self.io_thread.woken,
            Reader::Caller(generation) => {
                let reader = self.readers.iter().find(|reader| reader.generation == generation).unwrap();
                let reads = reader.at == Stage::Reads && (self.unread == 0 || reader.woken);
                assert!(
                    self.io_thread.checks || self.io_thread.woken,
                    "the I/O thread does not check the reader: {path:?}"
                );
                reads || self.reader_policy.is_recalled() && self.io_thread.woken
            }
        };
        assert!(sees, "no task will read a reply: {path:?}");
        // Even if the callers' runtime is never polled, every reply is read after two checks.
        let mut rest = self.clone();
        for event in [Event::IoThreadPolled, Event::Checked, Event::Checked, Event::IoThreadPolled] {
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
    assert!(seen.len() > 2_000, "{}", seen.len());
}
