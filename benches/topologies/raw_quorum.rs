//! A majority of several servers without a library: `SET NX PX` and compare-and-delete, each sent to all of them at
//! once, and decided by the first replies that are a majority. Commands that were not sent by then are never sent.
//! There is no clean-up, and no fault is tolerated. So this is the minimum.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use distlock_benches::Result;
use distlock_benches::contenders::TTL;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{Cmd, RedisResult, Value};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Connections to all servers.
#[derive(Clone)]
pub(super) struct RawQuorum {
    connections: Arc<[MultiplexedConnection]>,
    release: Arc<str>,
}

impl RawQuorum {
    pub(super) async fn connect(urls: &[String]) -> Result<RawQuorum> {
        let mut connections = Vec::new();
        let mut release = String::new();
        for url in urls {
            let info: redis::ConnectionInfo = url.parse()?;
            let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
            let mut connection = redis::Client::open(info)?.get_multiplexed_async_connection().await?;
            release = redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).query_async(&mut connection).await?;
            connections.push(connection);
        }
        Ok(RawQuorum { connections: connections.into(), release: release.into() })
    }

    /// Acquires and releases an unused key.
    pub(super) async fn section(&self) -> Result<()> {
        let token = fastrand::u64(..);
        let key = format!("bench:{token}");
        let ttl = u64::try_from(TTL.as_millis())?;
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(token).arg("NX").arg("PX").arg(ttl);
        self.majority(&set, &Value::Okay).await?;
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.release).arg(1).arg(&key).arg(token);
        self.majority(&release, &Value::Int(1)).await
    }

    async fn majority(&self, command: &Cmd, wanted: &Value) -> Result<()> {
        let most = self.connections.len() / 2 + 1;
        let ask = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { connection.send_packed_command(command).await }
        };
        type Asked<'a> = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;
        let mut asked: Vec<Asked<'_>> =
            self.connections.iter().map(|connection| -> Asked<'_> { Box::pin(ask(connection)) }).collect();
        let mut yes = 0;
        poll_fn(|cx| {
            asked.retain_mut(|one| match one.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    yes += usize::from(answer.is_ok_and(|answer| answer == *wanted));
                    false
                }
            });
            if yes >= most || asked.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if yes >= most { Ok(()) } else { Err("the raw quorum has no majority".into()) }
    }
}
