//! The clock of stored results is the one of the database, whatever the time zone of the session is.

use std::time::Duration;

use distlock_fence::{Fence, Once, once};
use distlock_fixtures::MariaDbServer;
use mysql_async::{Opts, OptsBuilder, Pool};

use crate::library::Failure;
use crate::world::mariadb;

/// In this zone, the hour before this moment is repeated after it.
const ZONE: &str = "INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (99, 'N');
    INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('distlock/autumn', 99);
    INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)
        VALUES (99, 0, 7200, 1, 'SUMMER'), (99, 1, 3600, 0, 'WINTER');
    INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)
        VALUES (99, 1700000000, 0), (99, 1800000000, 1)";
const END_OF_SUMMER: i64 = 1_800_000_000;

/// Both hours have the same local times. `sqlx` sets the time zone to UTC, and `mysql_async` sets none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_kept_for_its_time_in_the_hour_that_is_repeated() {
    let (observer, url) = mariadb().await;
    MariaDbServer::shared().rows(ZONE).await;
    for now in [END_OF_SUMMER - 1800, END_OF_SUMMER + 1800] {
        let set = format!("SET time_zone = 'distlock/autumn', timestamp = {now}");
        let options = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).setup(vec![set]);
        let (pool, keep) = (Pool::new(options), Duration::from_secs(60));
        for token in [1, 2] {
            let fence = Fence::new(format!("at {now}"), token);
            once(&fence, &pool, &Once::new(keep), async |_| Ok::<_, Failure>(token)).await.unwrap();
        }
        let stored = "SELECT expires, token FROM distlock_once WHERE `key` = ?";
        let stored = sqlx::query_as(stored).bind(format!("at {now}")).fetch_one(&observer);
        let stored: (i64, i64) = stored.await.unwrap();
        assert_eq!(stored, ((now + 60) * 1000, 1));
        pool.disconnect().await.unwrap();
    }
}
