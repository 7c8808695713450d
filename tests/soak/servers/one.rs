//! One Redis server, which writes all data to the disk before it replies. Half of the clients reach it over a link.

use std::{sync::Arc, time::Duration};

use distlock_tests::{Proxy, RedisServer};

use super::{Harm, Lane, Servers, redis, sleep};

const SILENCE_MS: u64 = 3_000;

pub(crate) struct One {
    server: RedisServer,
    link: Arc<Proxy>,
    clients: Clients,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    Correct,
    /// A control: every other client uses only its own memory for locks. The judge must find the overlaps.
    HalfBroken,
}

impl One {
    pub(crate) fn start(clients: Clients) -> Self {
        let server = RedisServer::options().append_only().stepped_clock().start();
        let link = Arc::new(Proxy::to(&server.address()));
        One { server, link, clients }
    }
}

impl Servers for One {
    fn urls(&self) -> Vec<String> {
        match self.clients {
            Clients::Correct => vec![self.server.url(), self.link.url()],
            Clients::HalfBroken => vec![self.server.url(), "memory:".to_owned()],
        }
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        vec![self.link.clone()]
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let server = &mut self.server;
        vec![Box::new(move |rng| {
            match rng.u32(..9) {
                0 => {
                    server.kill9();
                    sleep(rng, 0..1_500);
                    server.restart();
                }
                1 => server.step_clock_back(Duration::from_millis(rng.u64(..3_000))),
                _ => return redis::disturb(server, rng, SILENCE_MS),
            }
            Harm::None
        })]
    }

    fn residue(&self) -> Vec<String> {
        redis::residue([&self.server])
    }
}
