//! PostgreSQL, which keeps committed data. Half of the clients reach it over a link.

use std::{sync::Arc, time::Duration};

use distlock_fixtures::Signal;
use distlock_tests::{PostgresServer, Proxy};
use fastrand::Rng;
use rustix::process::{Pid, kill_process};

use super::{Harm, Lane, Servers, block_on, sleep};

const SILENCE_MS: u64 = 3_000;
const SCHEMA: &str = "distlock";
const TABLES: [&str; 3] = ["lock_1", "holder_1", "waiter_1"];

pub(super) struct Postgres {
    server: PostgresServer,
    link: Arc<Proxy>,
}

impl Postgres {
    pub(super) fn start() -> Self {
        let server = PostgresServer::start();
        let link = Arc::new(Proxy::to(&server.address()));
        Postgres { server, link }
    }
}

impl Servers for Postgres {
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
        block_on(self.server.residue(SCHEMA, ""))
    }
}

fn strike(server: &mut PostgresServer, rng: &mut Rng) {
    match rng.u32(..14) {
        0 => {
            server.kill9();
            sleep(rng, 0..1_500);
            server.restart();
        }
        1 => {
            server.end_by(if rng.bool() { Signal::QUIT } else { Signal::INT });
            sleep(rng, 0..1_500);
            server.restart();
        }
        2 | 3 => {
            server.stop();
            sleep(rng, 20..SILENCE_MS);
            server.cont();
        }
        4 | 5 => drop(block_on(server.terminate_clients())),
        6 => {
            let sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                WHERE application_name LIKE 'distlock%'";
            block_on(server.run(sql));
        }
        7 => {
            if let Some(pid) = one_process(server, rng) {
                block_on(server.recover_from(|| kill_process(pid, Signal::KILL)));
            }
        }
        8 => {
            if let Some(pid) = one_process(server, rng) {
                // Its server may have ended it.
                kill_process(pid, Signal::STOP).ok();
                sleep(rng, 20..SILENCE_MS);
                kill_process(pid, Signal::CONT).ok();
            }
        }
        9 | 10 => {
            let table = TABLES[rng.usize(..TABLES.len())];
            let mode = if rng.bool() { "ACCESS EXCLUSIVE" } else { "SHARE" };
            hold(server, rng, &format!("LOCK TABLE {SCHEMA}.{table} IN {mode} MODE"));
        }
        11 => hold(server, rng, &format!("SELECT FROM {SCHEMA}.lock_1 WHERE key = 'hot:0' FOR UPDATE")),
        12 => block_on(server.run("CHECKPOINT")),
        _ => {
            let table = TABLES[rng.usize(..TABLES.len())];
            block_on(server.run(&format!("VACUUM FULL {SCHEMA}.{table}")));
        }
    }
}

/// Executes statements in a transaction that stays open for a while.
fn hold(server: &PostgresServer, rng: &mut Rng, sql: &str) {
    let time = Duration::from_millis(rng.u64(20..1_500)).as_secs_f64();
    block_on(server.run(&format!("BEGIN; {sql}; SELECT pg_sleep({time}); COMMIT")));
}

/// Sends a signal to one of the processes that serve the clients.
fn one_process(server: &PostgresServer, rng: &mut Rng) -> Option<Pid> {
    let backends = block_on(server.backends());
    Pid::from_raw(rng.choice(backends)?.cast_signed())
}
