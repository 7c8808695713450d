//! One of the processes.

use crate::Result;
use crate::clock::monotonic;
use crate::etcd::RawQueue;
use crate::kinds::{Contender, Kind, Kinds};
use crate::locks::Distlock;
use crate::mariadb::RawCount;
use crate::pauses::{Growing, Short};
use crate::postgres::Advisory;
use crate::processes::{print, take_turns};
use crate::zookeeper::RawPlaces;

pub(crate) const WORKER: &str = "--worker-of-a-kind";

/// The whole life of a worker, as in `processes`. `CuratorWorker.java` does the same.
pub(crate) async fn work(arguments: &[String]) -> Result<()> {
    let [who, kind, url, name, until] = arguments else { return Err("a worker's arguments".into()) };
    let until = until.parse()?;
    let contender = Contender::ALL.iter().find(|contender| contender.name() == who);
    let contender = contender.ok_or_else(|| format!("nobody is called `{who}`"))?;
    let kind = Kind::ALL.into_iter().find(|known| known.word() == kind).ok_or("no such kind")?;
    match contender {
        Contender::Distlock => turns::<Distlock>(kind, url, name, until).await,
        Contender::ZooKeeperPlaces => turns::<RawPlaces>(kind, url, name, until).await,
        Contender::EtcdQueue => turns::<RawQueue>(kind, url, name, until).await,
        Contender::PostgresAdvisory => turns::<Advisory>(kind, url, name, until).await,
        Contender::MariaDbCount => turns::<RawCount<Short>>(kind, url, name, until).await,
        Contender::MariaDbCountCalm => turns::<RawCount<Growing>>(kind, url, name, until).await,
        Contender::Curator => Err("its worker is a program in Java".into()),
    }
}

async fn turns<L: Kinds>(kind: Kind, url: &str, name: &str, until: u64) -> Result<()> {
    let locks = L::connect(url, name).await?;
    let acquire = async || locks.acquire_as(kind.key(), kind).await;
    print(&take_turns::<L>(acquire, monotonic(), until).await?);
    Ok(())
}
