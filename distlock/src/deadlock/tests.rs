//! The graph of holders and waits, compared with a search through all paths.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::*;

fn wait(number: u64, key: usize) -> WaitRecord {
    WaitRecord { number, beat: 1, began: number, breaks: true, key: name(key) }
}

fn name(key: usize) -> Arc<str> {
    format!("k{key}").into()
}

/// The owner of each key holds no other, and its requests have the numbers `key * 10`, `key * 10 + 1`, …
fn graph(waits: &[&[usize]]) -> WaitsFor {
    let mut graph = WaitsFor::default();
    for (key, wanted) in waits.iter().enumerate() {
        let numbers = (key as u64 * 10..).zip(*wanted);
        let waits = numbers.map(|(number, wanted)| wait(number, *wanted)).collect();
        let owner = format!("dl1:c{key}:7").into();
        graph.insert(name(key), Some(Holder { owner, who: Who::default(), waits }));
    }
    graph
}

/// The numbers of its requests, the smallest first.
fn numbers(deadlock: &Deadlock) -> Vec<u64> {
    let mut numbers: Vec<u64> = deadlock.members().iter().map(|member| member.wait().1).collect();
    let smallest = (0..numbers.len()).min_by_key(|at| numbers[*at]).unwrap();
    numbers.rotate_left(smallest);
    numbers
}

fn is_circle(deadlock: &Deadlock) -> bool {
    let members = deadlock.members();
    let next = members.iter().cycle().skip(1);
    members.iter().zip(next).all(|(member, next)| member.wanted == next.held)
}

#[test]
fn holders_that_wait_for_each_other_are_a_cycle_and_those_that_wait_for_it_are_not() {
    // 2 waits for 0, which is in a cycle with 1; 3 is held by a process that waits for nothing.
    let graph = graph(&[&[1], &[0], &[0], &[]]);
    let all = graph.cycles();
    assert_eq!(all.iter().map(numbers).collect::<Vec<_>>(), [[0, 10]]);
    assert_eq!(
        all[0].to_string(),
        "dl1:c0:7 holds `k0` and waits for `k1`; dl1:c1:7 holds `k1` and waits for `k0`"
    );
    assert_eq!(graph.cycle_through(("c0", 0), &name(1)).as_ref(), Some(&all[0]));
    assert_eq!(graph.cycle_through(("c1", 10), &name(0)).as_ref(), Some(&all[0]));
    assert_eq!(graph.cycle_through(("c2", 20), &name(0)), None);
    assert_eq!(graph.cycle_through(("c1", 0), &name(1)), None, "the number of another client");
}

#[test]
fn a_request_that_waits_for_what_its_own_section_holds_is_a_cycle_of_one() {
    let one = graph(&[&[0]]).cycles();
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].members().len(), 1);
}

#[test]
fn the_youngest_is_the_same_for_every_process_and_only_one_that_breaks() {
    let ends = |deadlock: &Deadlock| -> Vec<u64> {
        let members = deadlock.members().iter();
        members.filter(|member| deadlock.ends(member.wait())).map(|member| member.wait().1).collect()
    };
    let three = graph(&[&[1], &[2], &[0]]);
    assert_eq!(ends(&three.cycles()[0]), [20], "it began last");
    // All began together, so the greatest owner is chosen.
    let same = |began: u64, breaking: &[usize]| {
        let mut graph = WaitsFor::default();
        for key in 0..3 {
            let breaks = breaking.contains(&key);
            let waits = vec![WaitRecord { began, breaks, ..wait(key as u64, (key + 1) % 3) }];
            let owner = format!("dl1:c{key}:7").into();
            graph.insert(name(key), Some(Holder { owner, who: Who::default(), waits }));
        }
        ends(&graph.cycles()[0])
    };
    assert_eq!(same(5, &[0, 1, 2]), [2]);
    assert_eq!(same(5, &[0, 1]), [1]);
    assert_eq!(same(5, &[]), [0_u64; 0]);
}

#[test]
fn a_deadlock_is_certain_when_each_request_was_published_again() {
    let look = |beats: [u64; 2], owners: [&str; 2]| {
        let mut graph = WaitsFor::default();
        for key in 0..2 {
            let waits = vec![WaitRecord { beat: beats[key], ..wait(key as u64, 1 - key) }];
            graph.insert(name(key), Some(Holder { owner: owners[key].into(), who: Who::default(), waits }));
        }
        graph.cycles().pop()
    };
    let owners = ["dl1:a:1", "dl1:b:1"];
    let mut suspected = None;
    assert_eq!(judge(&mut suspected, look([1, 1], owners)), None, "one look");
    assert_eq!(judge(&mut suspected, look([2, 1], owners)), None, "one of them was not published again");
    assert!(judge(&mut suspected, look([2, 2], owners)).is_some(), "compared with the first look");
    assert_eq!(judge(&mut suspected, look([3, 3], ["dl1:a:1", "dl1:b:2"])), None, "another lease");
    assert_eq!(judge(&mut suspected, None), None);
    assert_eq!(judge(&mut suspected, look([4, 4], ["dl1:a:1", "dl1:b:2"])), None, "it was gone in between");
}

#[test]
fn a_look_is_shorter_than_the_time_that_each_wait_has_lasted_when_it_is_read() {
    assert!(proves(LONGEST_LOOK) && !proves(PUBLISHED_AFTER));
}

#[test]
fn only_what_can_be_reached_is_read() {
    let all = graph(&[&[1], &[2], &[], &[0]]);
    let (mut read, mut order) = (WaitsFor::default(), Vec::new());
    while let Some(key) = read.next_unread(&name(0)) {
        order.push(key.to_string());
        read.insert(key.clone(), all.holder_at(&key));
    }
    assert_eq!(order, ["k0", "k1", "k2"]);
}

/// All cycles that meet no key twice, each as the numbers of its requests.
fn every_cycle(waits: &[Vec<usize>]) -> BTreeSet<Vec<u64>> {
    fn go(waits: &[Vec<usize>], path: &mut Vec<(usize, u64)>, at: usize, found: &mut BTreeSet<Vec<u64>>) {
        for (index, wanted) in waits[at].iter().enumerate() {
            path.push((at, (at * 10 + index) as u64));
            if path[0].0 == *wanted {
                let mut numbers: Vec<u64> = path.iter().map(|(_, number)| *number).collect();
                let smallest = (0..numbers.len()).min_by_key(|at| numbers[*at]).unwrap();
                numbers.rotate_left(smallest);
                found.insert(numbers);
            } else if path.iter().all(|(key, _)| key != wanted) {
                go(waits, path, *wanted, found);
            }
            path.pop();
        }
    }
    let mut found = BTreeSet::new();
    for start in 0..waits.len() {
        go(waits, &mut Vec::new(), start, &mut found);
    }
    found
}

/// Each reported cycle exists, each request that is in a cycle is in a reported one, and none is shorter.
#[test]
fn random_graphs_agree_with_a_search_through_all_paths() {
    let mut with_cycles = 0;
    for seed in 0..3_000 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let keys = chance.usize(1..8);
        let waits: Vec<Vec<usize>> =
            (0..keys).map(|_| (0..chance.usize(0..3)).map(|_| chance.usize(0..keys)).collect()).collect();
        let graph = graph(&waits.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (every, found) = (every_cycle(&waits), graph.cycles());
        for cycle in &found {
            assert!(is_circle(cycle) && every.contains(&numbers(cycle)), "seed {seed}: {cycle}");
        }
        let covered: BTreeSet<u64> = found.iter().flat_map(numbers).collect();
        let in_one: BTreeSet<u64> = every.iter().flatten().copied().collect();
        assert_eq!(covered, in_one, "seed {seed}");
        for (key, wanted) in waits.iter().enumerate() {
            for (index, wanted) in wanted.iter().enumerate() {
                let number = (key * 10 + index) as u64;
                let shortest = every.iter().filter(|cycle| cycle.contains(&number)).map(Vec::len).min();
                let through = graph.cycle_through((&format!("c{key}"), number), &name(*wanted));
                // Two requests of a section for one key are the same edge.
                let found = through.map(|cycle| cycle.members().len());
                assert_eq!(found, shortest, "seed {seed}, request {number}");
            }
        }
        with_cycles += usize::from(!every.is_empty());
    }
    assert!((500..2_900).contains(&with_cycles), "{with_cycles}");
}

/// A store that takes its time for each key.
struct Slow {
    graph: WaitsFor,
    each: Duration,
}

impl Records for Slow {
    fn holder(&self, key: &Arc<str>) -> Read<'_> {
        let (each, holder) = (self.each, self.graph.holder_at(key));
        Box::pin(async move {
            tokio::time::sleep(each).await;
            Ok(holder)
        })
    }
}

/// 63 holders that wait for nothing, and two that wait for each other.
fn many_and_a_cycle() -> WaitsFor {
    let mut waits: Vec<&[usize]> = vec![&[]; 63];
    waits.extend([&[64_usize][..], &[63]]);
    graph(&waits)
}

/// What was read for the requests before it is too old. So it is read again.
#[tokio::test(start_paused = true)]
async fn the_last_of_many_requests_is_looked_at_if_the_store_is_slow() {
    let _clock = clock::of_tokio::follow();
    let slow = Slow { graph: many_and_a_cycle(), each: Duration::from_millis(20) };
    let mut looks = Looks::new(&slow);
    for key in 0..63 {
        assert_eq!(looks.look(("c", 1), &name(key)).await, Ok(None), "{key}");
    }
    let found = looks.look(("c63", 630), &name(64)).await.unwrap();
    assert_eq!(numbers(&found.unwrap()), [630, 640]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_too_slow_for_one_request_proves_nothing() {
    let _clock = clock::of_tokio::follow();
    let slow = Slow { graph: many_and_a_cycle(), each: LONGEST_LOOK };
    let mut looks = Looks::new(&slow);
    assert_eq!(looks.look(("c63", 630), &name(64)).await, Err(Unfinished::TooSlow));
}

#[tokio::test(start_paused = true)]
async fn a_request_with_too_many_keys_has_no_result_and_leaves_room_for_the_next() {
    let _clock = clock::of_tokio::follow();
    // Each holder waits for the next one. The last two wait for each other.
    let all: Vec<[usize; 1]> = (1..MOST_KEYS + 10).map(|next| [next]).chain([[MOST_KEYS + 8]]).collect();
    let all: Vec<&[usize]> = all.iter().map(|next| &next[..]).collect();
    let store = Slow { graph: graph(&all), each: Duration::ZERO };
    let mut looks = Looks::new(&store);
    assert_eq!(looks.look(("c", 1), &name(0)).await, Err(Unfinished::TooManyKeys));
    let (first, last) = (MOST_KEYS + 8, MOST_KEYS + 9);
    let number = first as u64 * 10;
    let found = looks.look((&format!("c{first}"), number), &name(last)).await.unwrap();
    assert_eq!(numbers(&found.unwrap()), [number, number + 10]);
}
