//! The stores that come with this crate, as stores: a door for its own tests.

use crate::backend::etcd::EtcdStore;
use crate::backend::memcached::MemcachedStore;
use crate::backend::mysql::{MysqlConfig, MysqlStore};
use crate::backend::postgres::{PostgresConfig, PostgresStore};
use crate::backend::zookeeper::ZooKeeperStore;
use crate::connection::ConnectionOptions;
use crate::testing::any_store::AnyStore;

/// The store that a URL means.
///
/// # Errors
///
/// What is wrong with the URL.
pub fn open(url: &str) -> Result<AnyStore, String> {
    let (options, ttl) = (ConnectionOptions::default(), std::time::Duration::from_secs(10));
    Ok(match url.split(':').next().unwrap_or_default() {
        "postgres" => AnyStore::new(PostgresStore::new(PostgresConfig::parse(url, &options)?)),
        "mysql" => AnyStore::new(MysqlStore::new(MysqlConfig::parse(url, &options)?)),
        "memcached" => AnyStore::new(MemcachedStore::new(url, &options)?),
        "etcd" => AnyStore::new(EtcdStore::new(url, &options, ttl)?),
        "zookeeper" => AnyStore::new(ZooKeeperStore::new(url, &options, ttl)?),
        other => return Err(format!("`{other}://` is no store on the public contract")),
    })
}
