//! MariaDB, which keeps committed data. Half of the clients reach it over a link.

use std::{sync::Arc, time::Duration};

use distlock_fixtures::MariaDbServer;
use distlock_tests::Proxy;
use fastrand::Rng;

use super::{Harm, Lane, Servers, block_on, sleep};

const SILENCE_MS: u64 = 3_000;
const TABLES: [&str; 2] = ["distlock_lock_1", "distlock_holder_1"];

pub(super) struct MariaDb {
    server: MariaDbServer,
    link: Arc<Proxy>,
}

impl MariaDb {
    pub(super) fn start() -> Self {
        let server = MariaDbServer::start();
        let link = Arc::new(Proxy::to(&server.address()));
        MariaDb { server, link }
    }
}

impl Servers for MariaDb {
    fn urls(&self) -> Vec<String> {
        let bearing = |url: String| format!("{url}?response_timeout=1s");
        vec![bearing(self.server.url()), bearing(self.server.url_through(&self.link))]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        vec![self.link.clone()]
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let server = &mut self.server;
        vec![Box::new(move |rng| {
            strike(server, rng);
            Harm::None
        })]
    }

    fn residue(&self) -> Vec<String> {
        block_on(self.server.residue("distlock_", ""))
    }
}

fn strike(server: &mut MariaDbServer, rng: &mut Rng) {
    let table = TABLES[rng.usize(..2)];
    match rng.u32(..10) {
        0 => {
            server.kill9();
            sleep(rng, 0..1_500);
            server.restart();
        }
        1 | 2 => {
            server.stop();
            sleep(rng, 20..SILENCE_MS);
            server.cont();
        }
        3 | 4 => drop(block_on(server.kill_clients())),
        5 | 6 => drop(block_on(server.kill_statements())),
        7 => hold(server, rng, &format!("LOCK TABLES {table} WRITE"), "UNLOCK TABLES"),
        8 => {
            let lock = format!("SELECT COUNT(*) FROM {table} WHERE k = 'hot:0' FOR UPDATE");
            hold(server, rng, &format!("START TRANSACTION; {lock}"), "COMMIT");
        }
        _ => hold(server, rng, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
    }
}

/// Executes `begin`, and after a while `end`.
fn hold(server: &MariaDbServer, rng: &mut Rng, begin: &str, end: &str) {
    let time = Duration::from_millis(rng.u64(20..1_500)).as_secs_f64();
    block_on(server.run(&format!("{begin}; DO SLEEP({time}); {end}")));
}
