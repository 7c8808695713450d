//! What the contract of the stores demands, of each store that comes with the crate and is on it. The rules stand in
//! `distlock::testing::contract`, where stores of others find them too.

use distlock::testing::contract::contract;
use distlock_contract_tests::{On, OnSqlite};
use distlock_fixtures::{EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, ZooKeeperServers};

mod postgres {
    use super::*;
    type OnPostgres = On<PostgresServer>;
    contract!(OnPostgres);
}

mod mariadb {
    use super::*;
    type OnMariaDb = On<MariaDbServer>;
    contract!(OnMariaDb, lacks: notifications, queue);
}

mod memcached {
    use super::*;
    type OnMemcached = On<MemcachedServer>;
    // A server that stood still carries out what has arrived by then, however old it is.
    contract!(OnMemcached, lacks: notifications, queue, fencing, clock, late);
}

mod etcd {
    use super::*;
    type OnEtcd = On<EtcdServers>;
    contract!(OnEtcd, lacks: ttl, clock);
}

mod zookeeper {
    use super::*;
    type OnZooKeeper = On<ZooKeeperServers>;
    contract!(OnZooKeeper, lacks: min_hold, ttl, clock);
}

mod sqlite {
    use super::*;
    contract!(OnSqlite, lacks: notifications, queue, link, restart);
}
