//! A quorum of five servers against one server.

use std::sync::Arc;

use distlock_benches::Result;
use distlock_benches::contenders::{Distlock, Locks, Raw, Rslock, TTL};
use distlock_benches::options::Length;
use distlock_benches::rounds::{Contender, Extent, Rounds};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts, say};

use crate::redlock::Redlock;

const SERVERS: usize = 5;
const KEYS: usize = 999;

/// Independent servers.
pub(super) struct Five {
    servers: [Server; SERVERS],
    urls: Vec<String>,
    keys: Arc<[String]>,
}

impl Five {
    pub(super) fn start() -> Result<Five> {
        let start = || Server::start();
        let servers = [start()?, start()?, start()?, start()?, start()?];
        let urls = servers.iter().map(Server::url).collect();
        Ok(Five { servers, urls, keys: (0..KEYS).map(|at| format!("bench:{at}")).collect() })
    }

    pub(super) fn server(&self, number: usize) -> &Server {
        &self.servers[number % SERVERS]
    }

    pub(super) async fn ours(&self) -> Result<Contender> {
        let manager = distlock::LockManager::builder().quorum(&self.urls).default_ttl(TTL).connect().await?;
        Ok(Contender::on("distlock, quorum of five", Distlock(manager), Arc::clone(&self.keys)))
    }

    pub(super) fn rslock(&self) -> Contender {
        Contender::on("rslock 0.10, five servers", Rslock::over(&self.urls), Arc::clone(&self.keys))
    }

    pub(super) fn redlock(&self) -> Contender {
        let (locks, keys) = (Redlock::over(&self.urls), Arc::clone(&self.keys));
        let section = move |at: usize| {
            let (locks, keys) = (locks.clone(), Arc::clone(&keys));
            async move { locks.section(&keys[at % keys.len()]).await }
        };
        // It takes ten times as long as the others.
        Contender::new("redlock 2.0, five servers", section).slice(3)
    }

    /// The same without a library: to all five at once, and wait for five answers.
    async fn raw(&self) -> Result<Contender> {
        let [a, b, c, d, e] = &self.urls[..] else { return Err("there are not five servers".into()) };
        let connect = |url| Raw::connect(url);
        let all = Arc::new(tokio::try_join!(connect(a), connect(b), connect(c), connect(d), connect(e))?);
        let keys = Arc::clone(&self.keys);
        let section = move |at: usize| {
            let (all, keys) = (Arc::clone(&all), Arc::clone(&keys));
            async move {
                let ((a, b, c, d, e), key) = (&*all, &keys[at % keys.len()]);
                let (a, b, c, d, e) = tokio::try_join!(
                    a.acquire(key),
                    b.acquire(key),
                    c.acquire(key),
                    d.acquire(key),
                    e.acquire(key)
                )?;
                let release = Raw::release;
                tokio::try_join!(release(a), release(b), release(c), release(d), release(e)).map(drop)
            }
        };
        Ok(Contender::new("raw, five servers, all answers", section))
    }
}

pub(super) async fn uncontended(
    five: &Five,
    alone: &Server,
    length: Length,
    verdicts: &mut Verdicts,
) -> Result<()> {
    say("a quorum of five servers, uncontended …");
    let keys = &five.keys;
    let connect = async || {
        let (ours, raw) = (Distlock::connect(&alone.url()).await?, Raw::connect(&alone.url()).await?);
        Ok(vec![
            Contender::on("distlock, one server", ours, Arc::clone(keys)),
            Contender::on("raw, one server", raw, Arc::clone(keys)),
            five.ours().await?,
            five.raw().await?,
            five.rslock(),
            five.redlock(),
        ])
    };
    let extent = Extent { rounds: length.pick(31, 7), turns: length.pick(12, 6) };
    let rounds = Rounds::run(extent, connect).await?;
    let mut table = Table::new(&["uncontended", "p50", "÷ distlock, one server", "÷ raw, five servers"]);
    for (at, name) in rounds.names().iter().enumerate() {
        table.row([
            name.clone(),
            micros(rounds.p50(at)),
            format!("{:.2}", rounds.ratio(at, 0)),
            format!("{:.2}", rounds.ratio(at, 3)),
        ]);
    }
    table.print("A quorum of five servers");
    verdicts.at_most("quorum of five: p50 ÷ one server", rounds.ratio(2, 0), 2.5);
    verdicts.at_most("quorum of five: p50 ÷ rslock's", rounds.ratio(2, 4), 1.0);
    verdicts.at_most("quorum of five: p50 ÷ redlock's", rounds.ratio(2, 5), 1.0);
    Ok(())
}
