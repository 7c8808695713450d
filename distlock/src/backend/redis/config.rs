//! The address of the server, and the options.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::ProtocolVersion;

pub(super) use super::address::Address;
use super::login::Login;
use super::tls::Tls;
use super::url::{Kind, RedisUrl};
use crate::backend::ConnectOn;
use crate::backend::{Clocks, Tuning};
use distlock_store::kit::connection::{AddressMap, ConnectionOptions};

/// How the server for a key is found.
#[derive(Clone, Debug)]
pub(super) enum ServerLocation {
    /// At a known address.
    Fixed(Address),
    /// At the address that the sentinels report as the master's.
    Sentinel(SentinelLocation),
    /// In a cluster. Its nodes know the servers. These nodes are asked first.
    Cluster(Vec<Address>),
    /// Independent servers, each with its share of the keys.
    Shards(Vec<Address>),
}

/// The sentinels that are asked, and the master that they are asked for.
#[derive(Clone, Debug)]
pub(super) struct SentinelLocation {
    pub(super) sentinels: Vec<Address>,
    /// The name under which the sentinels watch the master.
    pub(super) master: String,
    pub(super) login: Login,
}

impl fmt::Display for ServerLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLocation::Fixed(address) => address.fmt(f),
            ServerLocation::Sentinel(place) => {
                write!(f, "the master `{}` of the sentinels at ", place.master)?;
                list(f, &place.sentinels)
            }
            ServerLocation::Cluster(seeds) => {
                f.write_str("the cluster around ")?;
                list(f, seeds)
            }
            ServerLocation::Shards(servers) => {
                f.write_str("the servers ")?;
                list(f, servers)
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, addresses: &[Address]) -> fmt::Result {
    for (at, address) in addresses.iter().enumerate() {
        write!(f, "{}{address}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}

/// Everything a [`RedisBackend`](super::RedisBackend) is made from.
#[derive(Clone, Debug)]
pub(crate) struct RedisConfig {
    pub(super) place: ServerLocation,
    pub(super) tls: Tls,
    pub(super) login: Login,
    /// Replaces addresses that sentinels and cluster nodes announce by those at which they are reachable.
    pub(super) address_map: Option<AddressMap>,
    /// The prefix of every key.
    pub(crate) prefix: String,
    /// The part of tokens and of the push channel that identifies this client.
    pub(crate) client: String,
    pub(crate) tuning: Tuning,
    /// How long a reply may take before the connection counts as broken.
    pub(crate) op_timeout: Duration,
    /// How long one attempt to connect may take, handshake included.
    pub(crate) connect_timeout: Duration,
    /// How often sentinels are asked while all is well.
    pub(super) sentinels_every: Duration,
    /// How many replicas must confirm an acquisition or a renewal before it counts.
    pub(crate) replicas: u32,
    pub(crate) connect: ConnectOn,
    /// One of several independent servers.
    pub(super) member: bool,
}

/// The valid range of the timeouts. Shorter ones fail on a busy machine. Longer ones are probably typing errors.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// More replicas are probably a typing error.
const MOST_REPLICAS: u32 = 1_000;

impl RedisConfig {
    /// Reads the place, the login and the database from `url`; everything else has its default.
    ///
    /// # Errors
    ///
    /// A sentence that names the remedy. It never quotes the URL, which may hold a password.
    #[cfg(test)]
    pub(crate) fn new(url: &str, client: &str) -> Result<RedisConfig, String> {
        RedisConfig::with(url, client, &ConnectionOptions::default())
    }

    /// The same, but `options` take precedence over the URL.
    pub(crate) fn with(url: &str, client: &str, options: &ConnectionOptions) -> Result<RedisConfig, String> {
        RedisConfig::read(&RedisUrl::read(url)?, client, options)
    }

    fn read(url: &RedisUrl, client: &str, options: &ConnectionOptions) -> Result<RedisConfig, String> {
        let addresses = url.addresses();
        let place = match (url.kind, addresses.as_slice()) {
            (Kind::One, [.., address]) => ServerLocation::Fixed(address.clone()),
            (Kind::Quorum, _) | (_, []) => {
                return Err("a quorum is not one server: it cannot be named as one".into());
            }
            (Kind::Cluster, _) => ServerLocation::Cluster(addresses),
            (Kind::Shards, _) => ServerLocation::Shards(addresses),
            (Kind::Sentinel, _) => {
                let parameter = |name| url.parameter(name).map(str::to_owned);
                let login = Login::with(parameter("sentinel_user"), parameter("sentinel_pass"));
                ServerLocation::Sentinel(SentinelLocation {
                    sentinels: addresses,
                    master: url.master.clone(),
                    login,
                })
            }
        };
        let parameters = url.parameters();
        let time_out = |name, option, default| parameters.time_out(name, option, default, &TIMEOUT_RANGE);
        let response = time_out("response_timeout", options.response_timeout, RESPONSE_TIMEOUT)?;
        let connect = time_out("connect_timeout", options.connect_timeout, CONNECT_TIMEOUT)?;
        let replicas = parameters.number("replicas", 0..=MOST_REPLICAS)?.unwrap_or(0);
        Ok(RedisConfig {
            tuning: Tuning {
                // Every node has its own clock.
                clocks: match place {
                    ServerLocation::Cluster(_) | ServerLocation::Shards(_) => Clocks::Many,
                    ServerLocation::Fixed(_) | ServerLocation::Sentinel(_) => Clocks::One,
                },
                ..Tuning::default()
            },
            place,
            tls: Tls::of(url, options)?,
            login: login(url, options)?,
            address_map: options.address_map.clone(),
            prefix: String::new(),
            client: client.to_owned(),
            op_timeout: response,
            connect_timeout: connect,
            sentinels_every: Duration::from_secs(1),
            replicas,
            connect: ConnectOn::Start,
            member: false,
        })
    }

    /// Reads the servers of a quorum from one URL: `redis+quorum://[user:password@]host[:port],..[/db]`.
    /// Everything else in the URL applies to each of them.
    ///
    /// # Errors
    ///
    /// Like [`with`](RedisConfig::with).
    pub(crate) fn of_quorum(
        url: &str,
        client: &str,
        options: &ConnectionOptions,
    ) -> Result<Vec<RedisConfig>, String> {
        let url = RedisUrl::read(url)?;
        if url.kind != Kind::Quorum {
            return Err("the URL does not name a quorum: write `redis+quorum://host1,host2,host3`".into());
        }
        url.each_host().map(|one| RedisConfig::read(&one, client, options)).collect()
    }

    /// The same server as a member of a quorum.
    pub(crate) fn into_member(self) -> RedisConfig {
        // No gaps are needed, because a client that polls tries all servers, and most of them are free between two
        // holders. The reply to a release says whether there was a waiter.
        let tuning =
            Tuning { poll_gap: Duration::from_millis(1), poll_gap_interval: Duration::ZERO, ..self.tuning };
        RedisConfig { member: true, tuning, ..self }
    }

    pub(crate) fn is_one_server(&self) -> bool {
        matches!(self.place, ServerLocation::Fixed(_))
    }

    /// The place of the server, for messages.
    pub(crate) fn at(&self) -> String {
        self.place.to_string()
    }

    /// Whether the keys are spread over several servers.
    pub(crate) fn is_spread(&self) -> bool {
        matches!(self.place, ServerLocation::Cluster(_) | ServerLocation::Shards(_))
    }

    /// # Errors
    ///
    /// A sentence that says what to change.
    pub(super) fn check(&self) -> Result<(), String> {
        // Tokens are `dl1:<client>:<number>`, and blanks separate them in a push.
        if self.client.is_empty() || self.client.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "the client name {:?} must have at least one character and no white space or control characters",
                self.client
            ));
        }
        if self.replicas > 0 && self.is_spread() {
            return Err("`replicas` is not available for a cluster or for servers that share the keys: use it with one \
                 server or with sentinels"
                .into());
        }
        Ok(())
    }
}

fn login(url: &RedisUrl, options: &ConnectionOptions) -> Result<Login, String> {
    let provider = options.credentials.clone();
    if provider.is_some() && (url.user.is_some() || url.password.is_some()) {
        return Err(
            "both the URL and `credentials` give a user or a password: leave it out of the URL".into()
        );
    }
    let protocol = match url.parameter("protocol") {
        Some("resp3" | "3") => ProtocolVersion::RESP3,
        _ => ProtocolVersion::RESP2,
    };
    let (user, password) = (url.user.clone(), url.password.clone());
    Ok(Login { user, password, provider, database: url.database, protocol })
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
