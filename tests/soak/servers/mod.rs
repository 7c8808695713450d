//! The servers of a soak, and what can be done to them.

mod cluster;
mod one;
mod quorum;
mod sentinel;

use std::{sync::Arc, time::Duration};

use distlock_tests::{Direction, Proxy, RedisServer};
use fastrand::Rng;

pub(crate) use self::{
    cluster::Cluster,
    one::{Clients, One},
    quorum::Quorum,
    sentinel::Sentinel,
};
use crate::plan::Offer;

/// Whether a fault makes two holders possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The servers keep what they have said.
    None,
    /// They may forget it: writes lost in a fail-over, data flushed.
    MayForget,
}

/// Draws a fault, carries it out, and returns when it is over.
pub(crate) type Lane<'a> = Box<dyn FnMut(&mut Rng) -> Harm + Send + 'a>;

pub(crate) trait Servers: Send {
    fn offer(&self) -> Offer;
    /// What clients connect to, in turn.
    fn urls(&self) -> Vec<String>;
    /// The links that some of these lead through.
    fn links(&self) -> Vec<Arc<Proxy>>;
    /// Faults that may happen at the same time.
    fn lanes(&mut self) -> Vec<Lane<'_>>;
    /// Returns when all are well. A fail-over that nobody asked for may have happened since the last fault: on a busy
    /// machine servers take each other for dead.
    fn heal(&mut self) -> Harm {
        Harm::None
    }
    /// Those that accept writes now.
    fn masters(&self) -> Vec<&RedisServer>;
}

fn sleep(rng: &mut Rng, millis: std::ops::Range<u64>) {
    std::thread::sleep(Duration::from_millis(rng.u64(millis)));
}

/// A fault that a server survives with all its data. `longest`: of what looks like silence, in milliseconds.
fn disturb(server: &RedisServer, rng: &mut Rng, longest: u64) -> Harm {
    match rng.u32(..7) {
        0 => drop(server.raw(&["CLIENT", "KILL", "TYPE", "normal"])),
        1 => drop(server.raw(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        2 => {
            let time = rng.u64(20..longest);
            let what = if rng.bool() { "ALL" } else { "WRITE" };
            server.raw(&["CLIENT", "PAUSE", &time.to_string(), what]);
            std::thread::sleep(Duration::from_millis(time));
        }
        3 => drop(server.raw(&["SCRIPT", "FLUSH"])),
        4 => for_a_while(server, rng, ["maxmemory", "1", "0"]),
        5 => for_a_while(server, rng, ["min-replicas-to-write", "3", "0"]),
        _ => {
            server.stop();
            sleep(rng, 20..longest);
            server.cont();
        }
    }
    Harm::None
}

/// Sets an option, and back: every write is refused in the meantime.
fn for_a_while(server: &RedisServer, rng: &mut Rng, [option, value, normal]: [&str; 3]) {
    server.raw(&["CONFIG", "SET", option, value]);
    sleep(rng, 50..1_500);
    server.raw(&["CONFIG", "SET", option, normal]);
}

/// A fault of a link.
pub(crate) fn disturb_link(link: &Proxy, rng: &mut Rng) -> Harm {
    let direction = if rng.bool() { Direction::Requests } else { Direction::Replies };
    match rng.u32(..6) {
        0 => link.cut(),
        1 => link.refuse(),
        2 => link.delay(direction, Duration::from_millis(rng.u64(2..300))),
        3 => link.hold(direction),
        4 => link.swallow(direction),
        _ => link.swallow_all(),
    }
    sleep(rng, 20..2_500);
    link.pass();
    // What was swallowed stays silent until somebody notices, or cuts it.
    if rng.bool() {
        link.cut();
    }
    Harm::None
}
