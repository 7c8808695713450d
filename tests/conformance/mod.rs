//! The conformance suite, on each store that comes with the crate. Its rules are in `distlock::testing::conformance`,
//! which foreign stores use, too. The additional tests here check the servers from outside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fixtures;
mod on_etcd;
mod on_mariadb;
mod on_memcached;
mod on_redis;
mod on_servers;
mod on_sqlite;
mod on_zookeeper;
mod quorum_alone;

mod memory {
    use crate::conformance::fixtures::OnMemory;
    distlock::testing::conformance::conformance!(OnMemory, lacks: processes, link);
}

mod redis {
    use crate::conformance::fixtures::OnRedis;
    distlock::testing::conformance::conformance!(OnRedis);
}

mod sentinel {
    use crate::conformance::fixtures::OnSentinel;
    distlock::testing::conformance::conformance!(OnSentinel, lacks: link);
}

mod cluster {
    use crate::conformance::fixtures::OnCluster;
    distlock::testing::conformance::conformance!(OnCluster, lacks: link);
}

mod shards {
    use crate::conformance::fixtures::OnShards;
    distlock::testing::conformance::conformance!(OnShards, lacks: link);
}

mod quorum {
    use crate::conformance::fixtures::OnQuorum;
    distlock::testing::conformance::conformance!(OnQuorum, lacks: shared, limited, linger, link, hand_over);
}

mod etcd {
    use crate::conformance::on_etcd::OnEtcd;
    distlock::testing::conformance::conformance!(OnEtcd, lacks: ttl);
}

mod zookeeper {
    use crate::conformance::on_zookeeper::OnZooKeeper;
    distlock::testing::conformance::conformance!(OnZooKeeper, lacks: ttl, min_hold);
}

mod mariadb {
    use crate::conformance::on_mariadb::OnMariaDb;
    distlock::testing::conformance::conformance!(OnMariaDb, lacks: queue);
}

mod memcached {
    use crate::conformance::on_memcached::OnMemcached;
    distlock::testing::conformance::conformance!(OnMemcached, lacks: shared, limited, fencing, queue, listing, values);
}

mod sqlite {
    use crate::conformance::on_sqlite::OnSqlite;
    distlock::testing::conformance::conformance!(OnSqlite, lacks: queue, link);
}

mod postgres {
    use crate::conformance::fixtures::OnPostgres;
    distlock::testing::conformance::conformance!(OnPostgres);
}
