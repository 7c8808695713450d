//! The only member, the leader, a follower or the majority is stopped (SIGSTOP), and resumes.

use distlock_tests::eventually;

use super::{Ensemble, judge, load};
use crate::load::{Keys, Load, turn};

pub(super) async fn server_stopped<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(1);
    let mut load = load(&servers);
    load.fault();
    servers.stop(0);
    load.fails();
    servers.cont(0);
    load.works();
    judge(load, &servers, "SIGSTOP, SIGCONT when every process had failed", "server_stopped").await;
}

/// It resumes when another member leads.
pub(super) async fn leader_stopped<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(3);
    let mut load = Load::start(&servers.url_with(E::SESSION_OVER_A_STOP), Keys::of("k"));
    load.fault();
    let leader = servers.leader();
    servers.stop(leader);
    eventually("another one leads", async || (0..3).any(|it| it != leader && servers.leads(it))).await;
    load.works();
    servers.cont(leader);
    load.works();
    judge(load, &servers, "SIGSTOP of the leader, SIGCONT later", "leader_stopped").await;
}

pub(super) async fn follower_stopped<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(3);
    let mut load = load(&servers);
    load.fault();
    let follower = servers.follower();
    servers.stop(follower);
    load.works();
    servers.cont(follower);
    load.works();
    judge(load, &servers, "SIGSTOP of a follower, SIGCONT later", "follower_stopped").await;
}

/// Commands to the remaining leader may stay in its log. They must not count when the others are back.
pub(super) async fn majority_stopped<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(3);
    let mut load = load(&servers);
    load.fault();
    let leader = servers.leader();
    let followers = (0..3).filter(|it| *it != leader);
    followers.clone().for_each(|follower| servers.stop(follower));
    load.fails();
    followers.for_each(|follower| servers.cont(follower));
    load.works();
    let fault = "SIGSTOP of both followers, SIGCONT when every process had failed";
    judge(load, &servers, fault, "majority_stopped").await;
}
