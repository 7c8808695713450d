//! Stores whose members agree by a majority, with the same table of faults. Another store needs an implementation of
//! [`Ensemble`] and a line of `faults!`.

mod clients;
mod killed;
mod links;
mod stopped;

use distlock_tests::{Ensemble, EtcdServers, Proxy, ZooKeeperServers};

use crate::load::{Keys, Load};
use crate::row;

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

/// Processes that work on all members.
fn load(servers: &impl Ensemble) -> Load {
    Load::start(&servers.url(), Keys::of("k"))
}

/// Servers, a link to each member, and processes that work over these links.
fn linked<E: Ensemble>(members: usize) -> (E, Vec<Proxy>, Load) {
    let servers = E::start(members);
    let links: Vec<Proxy> = (0..members).map(|member| Proxy::to(&servers.address(member))).collect();
    let addresses: Vec<String> = links.iter().map(|link| link.address().to_string()).collect();
    let load = Load::start(&E::url_of(&addresses, E::SESSION), Keys::of("k"));
    (servers, links, load)
}

/// Lets all processes finish, prints the row, and checks that no lock is left and no two holders have overlapped.
async fn judge<E: Ensemble>(load: Load, servers: &E, fault: &str, test: &str) {
    let outcome = load.finish(&[]).await;
    servers.has_no_locks();
    let members = if servers.count() == 1 { "one member" } else { "three members" };
    row::print(&format!("{}, {members}", E::NAME), fault, &format!("{}::{test}", E::MODULE), &outcome);
    outcome.assert_exclusive();
}
