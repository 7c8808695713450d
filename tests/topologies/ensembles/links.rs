//! Links are cut, half open or slow.

use std::time::Duration;

use distlock_tests::{Direction, Proxy};

use super::{Ensemble, judge, linked};
use crate::load::turn;

pub(super) async fn links_cut<E: Ensemble>() {
    let _turn = turn().await;
    let (servers, links, mut load) = linked::<E>(3);
    load.fault();
    links.iter().for_each(Proxy::cut);
    load.works();
    links[0].refuse();
    links[1].refuse();
    load.works();
    links.iter().for_each(Proxy::pass);
    load.works();
    judge(load, &servers, "all links cut, then two refused, mended later", "links_cut").await;
}

pub(super) async fn links_half_open<E: Ensemble>() {
    let _turn = turn().await;
    let (servers, links, mut load) = linked::<E>(3);
    load.fault();
    links[0].swallow_all();
    links[1].swallow(Direction::Replies);
    load.works();
    links.iter().for_each(Proxy::pass);
    load.works();
    judge(load, &servers, "links to two half open, mended later", "links_half_open").await;
}

/// Requests arrive when no caller waits for the replies any longer.
pub(super) async fn requests_held<E: Ensemble>() {
    let _turn = turn().await;
    let (servers, links, mut load) = linked::<E>(1);
    load.fault();
    links[0].hold(Direction::Requests);
    load.fails();
    links[0].pass();
    load.works();
    judge(load, &servers, "requests arrive after every process had failed", "requests_held").await;
}

pub(super) async fn answers_slow<E: Ensemble>() {
    let _turn = turn().await;
    let (servers, links, mut load) = linked::<E>(1);
    load.fault();
    links[0].delay(Direction::Replies, Duration::from_millis(20));
    load.works();
    links[0].pass();
    load.works();
    judge(load, &servers, "answers 20 ms late, for a while", "answers_slow").await;
}
