//! One server, which writes everything to disk before it answers. Half of the clients reach it over a link.

use std::sync::Arc;

use distlock_tests::{Proxy, RedisServer};

use super::{Harm, Lane, Servers, disturb, sleep};
use crate::plan::Offer;

const SILENCE_MS: u64 = 3_000;

pub(crate) struct One {
    server: RedisServer,
    link: Arc<Proxy>,
    flushes: Flushes,
}

/// Whether the data is thrown away now and then, without anybody being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushes {
    Never,
    /// A control: the judge has to find what comes of it.
    Secretly,
}

impl One {
    pub(crate) fn start(flushes: Flushes) -> Self {
        let server = RedisServer::options().append_only().start();
        let link = Arc::new(Proxy::to(&server.address()));
        One { server, link, flushes }
    }
}

impl Servers for One {
    fn offer(&self) -> Offer {
        Offer::EveryKind
    }

    fn urls(&self) -> Vec<String> {
        vec![self.server.url(), self.link.url()]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        vec![self.link.clone()]
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let flushes = self.flushes;
        let server = &mut self.server;
        vec![Box::new(move |rng| {
            if flushes == Flushes::Secretly {
                server.raw(&["FLUSHALL"]);
                return Harm::None;
            }
            if rng.u32(..8) > 0 {
                return disturb(server, rng, SILENCE_MS);
            }
            server.kill9();
            sleep(rng, 0..1_500);
            server.restart();
            Harm::None
        })]
    }

    fn masters(&self) -> Vec<&RedisServer> {
        vec![&self.server]
    }
}
