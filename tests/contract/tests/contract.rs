//! The contract suite, on each store of this repository that implements the public contract. Its rules are in
//! `distlock::testing::contract`, which foreign stores use, too.

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
    // A server that was paused executes all commands that have arrived meanwhile, however old they are.
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
