//! The servers, and the parts for each.

use distlock_fixtures::{MariaDbServer, MemcachedServer, ZooKeeperServers};

use crate::Result;
use crate::etcd::EtcdServer;
use crate::kinds;
use crate::locks::{Contender, Place, Server};
use crate::mariadb::CONNECTIONS;
use crate::postgres::PostgresOnDisk;

pub(crate) const STORES: [&str; 5] = ["etcd", "postgres", "zookeeper", "mariadb", "memcached"];

const WITHOUT_HELD: &[&str] = &["alone", "aged", "tasks", "hot", "processes", "kinds", "far"];
const ALL: &[&str] = &["alone", "aged", "tasks", "hot", "processes", "kinds", "held", "far"];

/// Starts a server on free ports. All servers with data on the disk flush it.
pub(crate) async fn start(store: &str) -> Result<Server> {
    Ok(match store {
        "etcd" => Server::Etcd(EtcdServer::start()?),
        "postgres" => Server::Postgres(PostgresOnDisk::start().await?),
        "zookeeper" => Server::ZooKeeper(ZooKeeperServers::for_measurements()),
        "mariadb" => {
            let options = ["--innodb-flush-log-at-trx-commit=1", "--max-connections=500"];
            Server::MariaDb(MariaDbServer::with(&options))
        }
        _ => Server::Memcached(MemcachedServer::start()),
    })
}

/// A server, in each of its configurations.
pub(crate) fn of(server: &Server) -> Result<Vec<Place<'_>>> {
    Ok(match server {
        Server::Etcd(running) => vec![Place {
            name: "etcd",
            server,
            ours: format!("etcd://{}", running.address()),
            raw: running.address(),
            least: Contender::EtcdTxn,
            queues: &[Contender::Distlock, Contender::EtcdQueue, Contender::EtcdLockCall],
            kinds: &[kinds::Contender::Distlock, kinds::Contender::EtcdQueue],
            parts: ALL,
            warm_up: 0,
        }],
        Server::Postgres(running) => {
            let durably = |name, durable| Place {
                name,
                server,
                ours: format!("{}?synchronous_commit={durable}&schema=locks_{durable}", running.url()),
                raw: format!("{}?options=-csynchronous_commit%3D{durable}", running.url()),
                least: Contender::PostgresRow,
                queues: &[Contender::Distlock, Contender::PostgresPrototype],
                kinds: &[kinds::Contender::Distlock, kinds::Contender::PostgresAdvisory],
                parts: ALL,
                warm_up: 0,
            };
            vec![durably("PostgreSQL, durable", "on"), durably("PostgreSQL, synchronous_commit=off", "off")]
        }
        Server::ZooKeeper(running) => vec![Place {
            name: "ZooKeeper",
            server,
            ours: format!("zookeeper://{}", running.address(0)),
            raw: running.address(0),
            least: Contender::ZooKeeperNode,
            queues: &[Contender::Distlock, Contender::ZooKeeperRecipe, Contender::ZooKeeperNode],
            kinds: &[
                kinds::Contender::Distlock,
                kinds::Contender::ZooKeeperPlaces,
                kinds::Contender::Curator,
            ],
            parts: WITHOUT_HELD,
            warm_up: 3_000,
        }],
        Server::MariaDb(running) => vec![Place {
            name: "MariaDB, durable",
            server,
            ours: format!("{}?connections={CONNECTIONS}", running.url()),
            raw: running.url(),
            least: Contender::MariaDbRow,
            queues: &[
                Contender::Distlock,
                Contender::MariaDbRowCalm,
                Contender::MariaDbRow,
                Contender::MariaDbGetLock,
            ],
            kinds: &[
                kinds::Contender::Distlock,
                kinds::Contender::MariaDbCountCalm,
                kinds::Contender::MariaDbCount,
            ],
            parts: WITHOUT_HELD,
            warm_up: 0,
        }],
        Server::Memcached(running) => vec![Place {
            name: "Memcached",
            server,
            ours: running.url(),
            raw: running.address(),
            least: Contender::MemcachedItem,
            queues: &[Contender::Distlock, Contender::MemcachedItemCalm, Contender::MemcachedItem],
            kinds: &[],
            parts: &["alone", "aged", "tasks", "hot", "processes", "far"],
            warm_up: 0,
        }],
    })
}
