//! The servers of a soak, and their faults.
//!
//! | store | a second holder is possible by design after |
//! |---|---|
//! | Redis: one server, which writes before it answers | nothing |
//! | Redis: Sentinel, cluster | a fail-over, asked for or not |
//! | Redis: quorum | `FLUSHALL` on one server, while a lock is on a bare majority |
//! | PostgreSQL, MariaDB, etcd, ZooKeeper | nothing |
//! | Memcached | a kill of the server, `flush_all` |
//!
//! Clocks of servers that jump ahead are not among the faults, because that makes a second holder possible everywhere.

mod cluster;
mod ensemble;
mod mariadb;
mod memcached;
mod one;
mod postgres;
mod quorum;
mod redis;
mod sentinel;

use std::{sync::Arc, time::Duration};

use distlock_tests::{Direction, EtcdServers, Proxy, ZooKeeperServers};
use fastrand::Rng;

use self::{
    cluster::Cluster,
    ensemble::Members,
    mariadb::MariaDb,
    memcached::Memcached,
    one::{Clients, One},
    postgres::Postgres,
    quorum::Quorum,
    sentinel::Sentinel,
};
use crate::options::Store;

/// Whether a fault makes two holders possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The servers keep all data that they have confirmed.
    None,
    /// They may lose it: by a fail-over without the last writes, or by a flush.
    MayForget,
}

/// Draws a fault, executes it, and returns when it is over.
pub(crate) type Lane<'a> = Box<dyn FnMut(&mut Rng) -> Harm + Send + 'a>;

pub(crate) trait Servers: Send {
    /// The URLs for the clients, used in turn.
    fn urls(&self) -> Vec<String>;
    /// The links of some of these URLs.
    fn links(&self) -> Vec<Arc<Proxy>>;
    /// Faults that may happen at the same time.
    fn lanes(&mut self) -> Vec<Lane<'_>>;
    /// Returns when all servers work. A fail-over without a command may have happened since the last fault, because on
    /// a busy machine servers may treat each other as dead.
    fn heal(&mut self) -> Harm {
        Harm::None
    }
    /// The present locks and their data, which should not exist after all clients have ended.
    fn residue(&self) -> Vec<String>;
}

pub(crate) fn start(store: Store) -> Box<dyn Servers> {
    match store {
        Store::Redis => Box::new(One::start(Clients::Correct)),
        Store::Sentinel => Box::new(Sentinel::start()),
        Store::Cluster => Box::new(Cluster::start()),
        Store::Quorum => Box::new(Quorum::start()),
        Store::Postgres => Box::new(Postgres::start()),
        Store::MariaDb => Box::new(MariaDb::start()),
        Store::Etcd => Box::new(Members::<EtcdServers>::start()),
        Store::ZooKeeper => Box::new(Members::<ZooKeeperServers>::start()),
        Store::Memcached => Box::new(Memcached::start()),
        Store::Control => Box::new(One::start(Clients::HalfBroken)),
    }
}

fn sleep(rng: &mut Rng, millis: std::ops::Range<u64>) {
    std::thread::sleep(Duration::from_millis(rng.u64(millis)));
}

/// Runs the work of an administrator, whose client is asynchronous.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
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
    // A connection that has lost bytes stays silent until a client notices it, or the link is cut.
    if rng.bool() {
        link.cut();
    }
    Harm::None
}
