//! A quorum of five servers, compared with one server.

use std::sync::Arc;

use distlock_benches::Result;
use distlock_benches::contenders::{Distlock, Locks, Raw, Rslock, TTL};
use distlock_benches::counting::Counting;
use distlock_benches::options::Length;
use distlock_benches::rounds::{Contender, Extent, Rounds};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts, say};

use crate::raw_quorum::RawQuorum;
use crate::redlock::Redlock;

const SERVERS: usize = 5;
const KEYS: usize = 999;

/// Independent servers.
pub(super) struct Five {
    servers: [Server; SERVERS],
    urls: Vec<String>,
}

/// Unused keys, because a late server may still have a lock that its last user has released.
fn keys() -> Arc<[String]> {
    let number = fastrand::u64(..);
    (0..KEYS).map(|at| format!("bench:{number:x}:{at}")).collect()
}

impl Five {
    pub(super) fn start() -> Five {
        let servers = std::array::from_fn(|_| Server::start());
        let urls = servers.iter().map(Server::url).collect();
        Five { servers, urls }
    }

    pub(super) fn server(&self, number: usize) -> &Server {
        &self.servers[number % SERVERS]
    }

    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One URL with all servers.
    pub(super) fn url(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("redis+quorum://{}", addresses.join(","))
    }

    pub(super) async fn ours(&self) -> Result<Contender> {
        let manager = distlock::LockManager::builder().quorum(&self.urls).default_ttl(TTL).connect().await?;
        Ok(Contender::on("distlock, quorum of five", Distlock(manager), keys()))
    }

    pub(super) fn rslock(&self) -> Contender {
        Contender::on("rslock 0.10, five servers", Rslock::over(&self.urls), keys())
    }

    pub(super) fn redlock(&self) -> Contender {
        let (locks, keys) = (Redlock::over(&self.urls), keys());
        let section = move |at: usize| {
            let (locks, keys) = (locks.clone(), Arc::clone(&keys));
            async move { locks.section(&keys[at % keys.len()]).await }
        };
        // It takes ten times as long as the others.
        Contender::new("redlock 2.0, five servers", section).slice(3)
    }

    async fn raw(&self) -> Result<Contender> {
        let locks = RawQuorum::connect(&self.urls).await?;
        Ok(Contender::new("raw, five servers, first three answers", move |_| {
            let locks = locks.clone();
            async move { locks.section().await }
        }))
    }
}

/// The number of commands that clients send to `servers` for one lock.
async fn commands_per_lock<'a>(
    contender: &Contender,
    servers: impl IntoIterator<Item = &'a Server>,
) -> Result<f64> {
    const LOCKS: usize = 100;
    let counting = Counting::begin(servers)?;
    for number in 0..LOCKS {
        contender.section(number).await?;
    }
    Ok(counting.end()? as f64 / LOCKS as f64)
}

pub(super) async fn uncontended(
    five: &Five,
    alone: &Server,
    length: Length,
    verdicts: &mut Verdicts,
) -> Result<()> {
    say("a quorum of five servers, uncontended …");
    let connect = async || {
        let (ours, raw) = (Distlock::connect(&alone.url()).await?, Raw::connect(&alone.url()).await?);
        Ok(vec![
            Contender::on("distlock, one server", ours, keys()),
            Contender::on("raw, one server", raw, keys()),
            five.ours().await?,
            five.raw().await?,
            five.rslock(),
            five.redlock(),
        ])
    };
    let extent = Extent { rounds: length.pick(31, 7), turns: length.pick(12, 6) };
    let rounds = Rounds::run(extent, connect).await?;
    let mut table = Table::new(&[
        "uncontended",
        "p50",
        "÷ distlock, one server",
        "÷ raw, five servers",
        "commands per lock",
    ]);
    for (at, contender) in connect().await?.iter().enumerate() {
        // Makes connections and loads scripts before the measurement.
        contender.section(0).await?;
        let commands = commands_per_lock(contender, five.servers.iter().chain([alone])).await?;
        table.row([
            contender.name().to_owned(),
            micros(rounds.p50(at)),
            format!("{:.2}", rounds.ratio(at, 0)),
            format!("{:.2}", rounds.ratio(at, 3)),
            format!("{commands:.2}"),
        ]);
    }
    table.print("A quorum of five servers");
    verdicts.at_most("quorum of five: p50 ÷ one server", rounds.ratio(2, 0), 2.5);
    verdicts.at_most("quorum of five: p50 ÷ rslock's", rounds.ratio(2, 4), 1.0);
    verdicts.at_most("quorum of five: p50 ÷ redlock's", rounds.ratio(2, 5), 1.0);
    Ok(())
}
