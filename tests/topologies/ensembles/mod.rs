//! Stores whose members agree by a majority: the same faults on each of them, in one table. Another store is an
//! implementation of [`Ensemble`] and a line of `faults!`.

mod clients;
mod killed;
mod links;
mod stopped;

use distlock_tests::{EtcdServers, Proxy, ZooKeeperServers};

use crate::load::{Keys, Load};
use crate::row;

/// Servers of one kind, and what is special to them.
pub(crate) trait Ensemble: Sized {
    /// In rows.
    const NAME: &'static str;
    /// The module of its tests.
    const MODULE: &'static str;
    /// How long a session of a client outlives it.
    const SESSION: &'static str;
    /// The same where the leader is stopped, and others elect another one.
    const SESSION_OVER_A_STOP: &'static str;

    fn start(members: usize) -> Self;
    fn count(&self) -> usize;
    fn address(&self, member: usize) -> String;
    fn leader(&self) -> usize;
    fn leads(&self, member: usize) -> bool;
    fn kill9(&mut self, member: usize);
    fn restart(&mut self, member: usize);
    fn stop(&self, member: usize);
    fn cont(&self, member: usize);
    /// Waits until nobody holds or awaits a lock.
    fn has_no_locks(&self);
    /// A URL of clients whose sessions last so long, and that bear a silence of a second.
    fn url_of(addresses: &[String], session: &str) -> String {
        let (scheme, addresses) = (Self::MODULE, addresses.join(","));
        format!("{scheme}://{addresses}?session_timeout={session}&response_timeout=1s")
    }

    /// The URL that names all members.
    fn url(&self) -> String {
        self.url_with(Self::SESSION)
    }

    fn url_with(&self, session: &str) -> String {
        let addresses: Vec<String> = (0..self.count()).map(|member| self.address(member)).collect();
        Self::url_of(&addresses, session)
    }

    fn follower(&self) -> usize {
        (self.leader() + 1) % self.count()
    }
}

/// The functions that the fixtures of such servers have in common.
macro_rules! as_the_fixture_does {
    () => {
        fn start(members: usize) -> Self {
            Self::start(members, &[])
        }

        fn count(&self) -> usize {
            self.count()
        }

        fn address(&self, member: usize) -> String {
            self.address(member)
        }

        fn leader(&self) -> usize {
            self.leader()
        }

        fn leads(&self, member: usize) -> bool {
            self.leads(member)
        }

        fn kill9(&mut self, member: usize) {
            self.kill9(member);
        }

        fn restart(&mut self, member: usize) {
            self.restart(member);
        }

        fn stop(&self, member: usize) {
            self.stop(member);
        }

        fn cont(&self, member: usize) {
            self.cont(member);
        }
    };
}

impl Ensemble for EtcdServers {
    const NAME: &'static str = "etcd";
    const MODULE: &'static str = "etcd";
    const SESSION: &'static str = "5s";
    /// Members before 3.4.31 end sessions that seem to be over when they go on.
    const SESSION_OVER_A_STOP: &'static str = "120s";

    as_the_fixture_does!();

    fn has_no_locks(&self) {
        self.has_no_locks("distlock/");
    }
}

impl Ensemble for ZooKeeperServers {
    const NAME: &'static str = "ZooKeeper";
    const MODULE: &'static str = "zookeeper";
    const SESSION: &'static str = "3s";
    const SESSION_OVER_A_STOP: &'static str = "3s";

    as_the_fixture_does!();

    fn has_no_locks(&self) {
        self.has_no_locks("/distlock");
    }
}

/// A module for each store, with a test for each fault.
macro_rules! faults {
    ($($store:ident: $servers:ty),+ $(,)?) => {
        $(faults!(@store $store, $servers,
            clients::killed_holder, clients::stopped_holder, clients::client_stopped,
            killed::server_killed, killed::leader_killed, killed::follower_killed,
            links::links_cut, links::links_half_open, links::requests_held, links::answers_slow,
            stopped::server_stopped, stopped::leader_stopped, stopped::follower_stopped, stopped::majority_stopped);)+
    };
    (@store $store:ident, $servers:ty, $($file:ident::$fault:ident),+) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $fault() {
                super::$file::$fault::<$servers>().await;
            })+
        }
    };
}

faults! {
    etcd: super::EtcdServers,
    zookeeper: super::ZooKeeperServers,
}

/// Processes at work on all members.
fn load(servers: &impl Ensemble) -> Load {
    Load::start(&servers.url(), Keys::of("k"))
}

/// Servers, a link to each member, and processes at work over these links.
fn linked<E: Ensemble>(members: usize) -> (E, Vec<Proxy>, Load) {
    let servers = E::start(members);
    let links: Vec<Proxy> = (0..members).map(|member| Proxy::to(&servers.address(member))).collect();
    let addresses: Vec<String> = links.iter().map(|link| link.address().to_string()).collect();
    let load = Load::start(&E::url_of(&addresses, E::SESSION), Keys::of("k"));
    (servers, links, load)
}

/// Lets everybody finish: nothing is left, the row is printed, and no two holders have overlapped.
async fn judge<E: Ensemble>(load: Load, servers: &E, fault: &str, test: &str) {
    let outcome = load.finish(&[]).await;
    servers.has_no_locks();
    let members = if servers.count() == 1 { "one member" } else { "three members" };
    row::print(&format!("{}, {members}", E::NAME), fault, &format!("{}::{test}", E::MODULE), &outcome);
    outcome.assert_exclusive();
}
