//! Values in Redis.

use distlock_fence::redis::{key_of, transaction};
use distlock_fence::{Fence, FenceError};
use distlock_fixtures::{BOUND, ClusterServers, Direction, Proxy, RedisServer};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Value, cmd, pipe};

async fn connect(url: &str) -> MultiplexedConnection {
    // Without time-outs, for slow machines.
    let patient = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

async fn set<C: ConnectionLike>(
    connection: &mut C,
    fence: &Fence,
    value: &str,
) -> Result<Vec<Value>, FenceError> {
    transaction(fence, connection, &pipe().set("{k}", value).to_owned()).await
}

async fn get<C: ConnectionLike>(connection: &mut C) -> Option<String> {
    cmd("GET").arg("{k}").query_async(connection).await.unwrap()
}

/// Even for tokens that are too large for exact numbers in Lua.
#[tokio::test]
async fn a_holder_that_was_overtaken_changes_nothing() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url()).await;
    for newest in [1, 10, 1 << 53, u64::MAX - 1] {
        let fence = |token| Fence::new("k", token);
        set(&mut connection, &fence(newest), "first").await.unwrap();
        set(&mut connection, &fence(newest), "the same").await.unwrap();
        let late = set(&mut connection, &fence(newest - 1), "late").await;
        assert!(
            matches!(&late, Err(FenceError::Stale { key, token, newest: seen })
                if key == "k" && *token == newest - 1 && *seen == newest),
            "{late:?}"
        );
        assert_eq!(get(&mut connection).await.as_deref(), Some("the same"));
        set(&mut connection, &fence(newest + 1), "later").await.unwrap();
        set(&mut connection, &Fence::new("another", 1), "another").await.unwrap();
    }
}

/// The rule of the documentation: an older holder is accepted if the token was deleted, or evicted.
#[tokio::test]
async fn without_the_token_an_older_holder_is_accepted() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url()).await;
    let (older, later) = (Fence::new("k", 1), Fence::new("k", 2));
    set(&mut connection, &later, "later").await.unwrap();
    let late = set(&mut connection, &older, "late").await;
    assert!(matches!(late, Err(FenceError::Stale { newest: 2, .. })), "{late:?}");
    cmd("DEL").arg(key_of(&later)).exec_async(&mut connection).await.unwrap();
    set(&mut connection, &older, "late").await.unwrap();
    assert_eq!(get(&mut connection).await.as_deref(), Some("late"));
}

#[tokio::test]
async fn each_command_has_its_answer() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url()).await;
    let commands =
        pipe().hset("h", "field", "value").get("none").hgetall("h").set("k", 7).incr("k", 1).to_owned();
    let replies = transaction(&Fence::new("k", 1), &mut connection, &commands).await.unwrap();
    let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let pair = Value::Array(vec![bulk("field"), bulk("value")]);
    assert_eq!(replies, [Value::Int(1), Value::Nil, pair, Value::Okay, Value::Int(8)]);
    assert_eq!(transaction(&Fence::new("k", 1), &mut connection, &pipe()).await.unwrap(), []);
}

/// Holders without a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_written_in_the_order_of_tokens() {
    let server = RedisServer::start();
    let mut tasks = tokio::task::JoinSet::new();
    for holder in 0..8_u64 {
        let mut connection = connect(&server.url()).await;
        tasks.spawn(async move {
            for round in 0..20 {
                let token = 1 + round * 8 + holder;
                let append = pipe().rpush("tokens", token).to_owned();
                match transaction(&Fence::new("k", token), &mut connection, &append).await {
                    Ok(_) | Err(FenceError::Stale { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    let mut connection = connect(&server.url()).await;
    let tokens: Vec<u64> =
        cmd("LRANGE").arg("tokens").arg(0).arg(-1).query_async(&mut connection).await.unwrap();
    assert!(tokens.is_sorted() && tokens.last() == Some(&160), "{tokens:?}");
}

#[tokio::test]
async fn it_is_said_whether_anything_was_changed() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url()).await;
    let fence = Fence::new("k", 1);
    set(&mut connection, &fence, "text").await.unwrap();

    // The first command fails, then a later one, then one with more words than Lua can pass.
    let first =
        transaction(&fence, &mut connection, &pipe().incr("{k}", 1).set("{k}", "changed").to_owned()).await;
    assert!(matches!(first, Err(FenceError::NotCommitted { .. })), "{first:?}");
    assert_eq!(get(&mut connection).await.as_deref(), Some("text"));
    let second =
        transaction(&fence, &mut connection, &pipe().set("{k}", "changed").incr("{k}", 1).to_owned()).await;
    assert!(matches!(second, Err(FenceError::OutcomeUnknown { .. })), "{second:?}");
    assert_eq!(get(&mut connection).await.as_deref(), Some("changed"));
    let many = cmd("DEL").arg(vec!["none"; 100_000]).to_owned();
    let too_many = pipe().set("{k}", "many").add_command(many).to_owned();
    let too_many = transaction(&fence, &mut connection, &too_many).await;
    assert!(matches!(too_many, Err(FenceError::OutcomeUnknown { .. })), "{too_many:?}");

    // The server accepts no writes.
    let config = cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).to_owned();
    config.exec_async(&mut connection).await.unwrap();
    let full = set(&mut connection, &fence, "full").await;
    assert!(matches!(full, Err(FenceError::NotCommitted { .. })), "{full:?}");
    assert_eq!(get(&mut connection).await.as_deref(), Some("many"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_told_apart() {
    let server = RedisServer::start();
    let proxy = Proxy::to(&server.address());
    let mut through = connect(&format!("redis://{}", proxy.address())).await;
    let mut observer = connect(&server.url()).await;
    let fence = Fence::new("k", 1);
    set(&mut through, &fence, "first").await.unwrap();
    proxy.hold(Direction::Replies);
    let cut = async {
        while get(&mut observer).await.as_deref() != Some("second") {
            tokio::task::yield_now().await;
        }
        proxy.cut();
    };
    let (lost, ()) = tokio::join!(set(&mut through, &fence, "second"), cut);
    assert!(matches!(lost, Err(FenceError::OutcomeUnknown { .. })), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_the_values_are_beside_the_token() {
    let cluster = ClusterServers::shared();
    let nodes: Vec<_> = cluster.masters().iter().map(RedisServer::url).collect();
    let client =
        redis::cluster::ClusterClient::builder(nodes).response_timeout(BOUND).connection_timeout(BOUND);
    let mut connection = client.build().unwrap().get_async_connection().await.unwrap();
    for master in 0..3 {
        let key = cluster.key_at(master);
        let elsewhere = cluster.key_at((master + 1) % 3);
        let fence = Fence::new(key.as_str(), 2);
        assert_eq!(cluster.slot_of(&key_of(&fence)), cluster.slot_of(&key));
        let value = format!("{{{key}}}:value");
        let commands = pipe().set(&key, "plain").set(&value, "tagged").to_owned();
        transaction(&fence, &mut connection, &commands).await.unwrap();
        let late = transaction(&Fence::new(key.as_str(), 1), &mut connection, &commands).await;
        assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
        let refused = transaction(&fence, &mut connection, &pipe().set(&elsewhere, "no").to_owned()).await;
        assert!(matches!(refused, Err(FenceError::NotCommitted { .. })), "{refused:?}");
    }
}
