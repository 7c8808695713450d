//! The only member, the leader or a follower is killed, and restarts with its data.

use super::{Ensemble, judge, load};
use crate::load::turn;

pub(super) async fn server_killed<E: Ensemble>() {
    let _turn = turn().await;
    let mut servers = E::start(1);
    let mut load = load(&servers);
    load.fault();
    servers.kill9(0);
    load.fails();
    servers.restart(0);
    load.works();
    judge(load, &servers, "kill -9, restarted when every process had failed", "server_killed").await;
}

pub(super) async fn leader_killed<E: Ensemble>() {
    one_of_three::<E>(E::leader, "kill -9 of the leader, restarted later", "leader_killed").await;
}

pub(super) async fn follower_killed<E: Ensemble>() {
    one_of_three::<E>(E::follower, "kill -9 of a follower, restarted later", "follower_killed").await;
}

async fn one_of_three<E: Ensemble>(which: fn(&E) -> usize, fault: &str, test: &str) {
    let _turn = turn().await;
    let mut servers = E::start(3);
    let mut load = load(&servers);
    load.fault();
    let member = which(&servers);
    servers.kill9(member);
    load.works();
    servers.restart(member);
    load.works();
    judge(load, &servers, fault, test).await;
}
