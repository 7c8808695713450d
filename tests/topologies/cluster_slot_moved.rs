//! Cluster: the slot of all keys moves from primary to primary while processes use the keys.

use distlock_tests::ClusterServers;

use crate::{
    load::{Keys, Load, turn},
    row,
};

const MOVES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn cluster_slot_moved() {
    let _turn = turn().await;
    let cluster = ClusterServers::start_steady();
    let key = cluster.key_at(0);
    let mut load = Load::start(&cluster.url(), Keys::with_tag(&key));
    load.fault();
    for number in 0..MOVES {
        cluster.move_slot(cluster.slot_of(&key), number % 3, (number + 1) % 3);
        load.works();
    }
    let outcome = load.finish(cluster.masters()).await;
    row::print("Cluster", "slot moved six times", "cluster_slot_moved", &outcome);
    outcome.assert_exclusive();
}
