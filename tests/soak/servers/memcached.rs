//! Memcached, which forgets everything when it is restarted. Half of the clients reach it over a link.

use std::sync::Arc;

use distlock_fixtures::MemcachedServer;
use distlock_tests::Proxy;
use fastrand::Rng;

use super::{Harm, Lane, Servers, sleep};

const SILENCE_MS: u64 = 3_000;

pub(super) struct Memcached {
    server: MemcachedServer,
    link: Arc<Proxy>,
}

impl Memcached {
    pub(super) fn start() -> Self {
        let server = MemcachedServer::start();
        let link = Arc::new(Proxy::to(&server.address()));
        Memcached { server, link }
    }
}

impl Servers for Memcached {
    fn urls(&self) -> Vec<String> {
        vec![self.server.url(), format!("memcached://{}", self.link.address())]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        vec![self.link.clone()]
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let server = &mut self.server;
        vec![Box::new(move |rng| strike(server, rng))]
    }

    fn residue(&self) -> Vec<String> {
        self.server.keys()
    }
}

fn strike(server: &mut MemcachedServer, rng: &mut Rng) -> Harm {
    match rng.u32(..10) {
        0 => {
            server.kill9();
            sleep(rng, 0..1_500);
            server.restart();
            Harm::MayForget
        }
        1 => {
            server.ask("flush_all", &["OK"]);
            Harm::MayForget
        }
        _ => {
            server.stop();
            sleep(rng, 20..SILENCE_MS);
            server.cont();
            Harm::None
        }
    }
}
