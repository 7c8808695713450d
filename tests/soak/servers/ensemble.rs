//! Three members that agree by a majority. Half of the clients reach them over links.

use std::sync::Arc;

use distlock_tests::{Ensemble, Proxy};
use fastrand::Rng;

use super::{Harm, Lane, Servers, sleep};

const MEMBERS: usize = 3;
/// How long others wait after a crash.
const SESSION: &str = "3s";
/// If a leader of etcd before 3.4.31 is paused for longer than a session, it ends live sessions.
const SILENCE_MS: u64 = 2_000;

pub(super) struct Members<E> {
    servers: E,
    links: Vec<Arc<Proxy>>,
}

impl<E: Ensemble> Members<E> {
    pub(super) fn start() -> Self {
        let servers = E::start(MEMBERS);
        let links = (0..MEMBERS).map(|member| Arc::new(Proxy::to(&servers.address(member)))).collect();
        Members { servers, links }
    }
}

impl<E: Ensemble + Send> Servers for Members<E> {
    fn urls(&self) -> Vec<String> {
        let links: Vec<String> = self.links.iter().map(|link| link.address().to_string()).collect();
        vec![self.servers.url_with(SESSION), E::url_of(&links, SESSION)]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        self.links.clone()
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let servers = &mut self.servers;
        vec![Box::new(move |rng| {
            strike(servers, rng);
            Harm::None
        })]
    }

    fn residue(&self) -> Vec<String> {
        self.servers.places()
    }
}

fn strike(servers: &mut impl Ensemble, rng: &mut Rng) {
    let leader = servers.leader();
    let struck = match rng.u32(..8) {
        0..3 => vec![leader],
        3..6 => vec![(leader + 1) % MEMBERS],
        // Without a majority.
        _ => vec![leader, (leader + 1) % MEMBERS],
    };
    match rng.u32(..5) {
        0 | 1 => {
            struck.iter().for_each(|member| servers.kill9(*member));
            sleep(rng, 0..1_500);
            struck.iter().for_each(|member| servers.restart(*member));
        }
        2 | 3 => {
            struck.iter().for_each(|member| servers.stop(*member));
            sleep(rng, 20..SILENCE_MS);
            struck.iter().for_each(|member| servers.cont(*member));
        }
        _ => servers.maintain(struck[0]),
    }
}
