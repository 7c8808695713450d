//! The configuration of a ZooKeeper store.

use std::ops::RangeInclusive;
use std::time::Duration;

use zookeeper_client::Acls;

use super::errors::Location;
use super::names::Names;
use distlock_store::kit::connection::{ConnectionOptions, OF_TLS, UserLogin};
use distlock_store::kit::url::{Parts, decoded, each_once, in_limits};

/// The port of clients if the URL names none.
const PORT: u16 = 2181;

/// The parent of the nodes if the URL names none.
const ROOT: &str = "distlock";

const PARAMETERS: [&str; 3] = ["session_timeout", "connect_timeout", "response_timeout"];

/// The valid range of the session's time-out. The ensemble has its own limits, and uses the nearest value within them.
const SESSIONS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// How long a member may be silent, by default. A command that timed out is executed within this time, or never.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses of ZooKeeper, the credentials, and the time-outs.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// `host:port` of each member.
    pub(super) members: Vec<String>,
    pub(super) names: Names,
    pub(super) login: UserLogin,
    /// The time-out that the session requests.
    pub(super) session_timeout: Duration,
    /// How long one attempt to begin a session may take.
    pub(super) connect_timeout: Duration,
    /// How long a member may be silent before the connection counts as broken.
    response_timeout: Duration,
}

impl Config {
    /// The configuration from a URL and the builder's options, which take precedence. If the URL does not set it, the
    /// session lasts as long as the program's default ttl.
    ///
    /// # Errors
    ///
    /// A sentence that names the remedy. It never quotes the URL, which may hold a password.
    pub(super) fn read(url: &str, options: &ConnectionOptions) -> Result<Config, String> {
        if options.address_map.is_some() {
            return Err(
                "`address_map` is for Redis: members of ZooKeeper are connected as the URL names them".into(),
            );
        }
        if options.has_tls_options() {
            return Err("`tls` is for stores that speak TLS: ZooKeeper is connected without TLS".into());
        }
        let parts = Parts::of(url)?;
        let parameters = parts.parameters(&PARAMETERS, |name| {
            OF_TLS.contains(&name).then(|| "ZooKeeper is connected without TLS: leave it out".to_owned())
        })?;
        let login = UserLogin::of(parts.login()?.of_user("ZooKeeper", "zookeeper")?, options)?;
        let root = decoded(parts.path.trim_matches('/'), "the path")?;
        let root = if root.is_empty() { ROOT.to_owned() } else { root };
        check_root(&root)?;
        let members: Vec<String> = each_once(parts.hosts(PORT)?).iter().map(ToString::to_string).collect();
        // The client expects all members in one text.
        if members.iter().any(|member| member.contains([',', '/'])) {
            return Err("a host of the URL has characters that no host has: write, for example, \
                        `zookeeper://zk1,zk2,zk3`"
                .into());
        }
        let session_timeout = match parameters.duration("session_timeout")? {
            Some(said) => in_limits("session_timeout", said, &SESSIONS)?,
            None => options.default_ttl.clamp(*SESSIONS.start(), *SESSIONS.end()),
        };
        Ok(Config {
            members,
            names: Names::below(&root),
            login,
            session_timeout,
            connect_timeout: parameters.connect_timeout(options, CONNECT_TIMEOUT)?,
            response_timeout: parameters.response_timeout(options, RESPONSE_TIMEOUT)?,
        })
    }

    /// The location of the locks, for messages.
    pub(super) fn describe(&self) -> String {
        format!("ZooKeeper at {}", self.members.join(", "))
    }

    /// The location for messages, and the parent of this program's nodes.
    pub(super) fn place(&self) -> Location {
        Location { describe: self.describe(), root: self.names.root().to_owned() }
    }

    /// The ACL of this program's nodes: its user, or all clients if it has no user.
    pub(super) fn acls(&self) -> Acls<'static> {
        match self.login {
            UserLogin::None => Acls::anyone_all(),
            UserLogin::Fixed { .. } | UserLogin::Asked(_) => Acls::creator_all(),
        }
    }

    /// How long a member may be silent. The time to connect to another member before the session expires must remain.
    pub(super) fn silence(&self) -> Duration {
        self.response_timeout.min(self.session_timeout * 2 / 5)
    }
}

/// Whether ZooKeeper accepts it as a path.
fn check_root(root: &str) -> Result<(), String> {
    let is_refused = |part: &str| {
        part.is_empty()
            || part == "."
            || part == ".."
            || part.chars().any(|c| c.is_control() || c >= '\u{e000}')
    };
    if root.split('/').any(is_refused) {
        return Err("the path of the URL cannot be one of ZooKeeper: write, for example, \
                    `zookeeper://host/app/locks`"
            .into());
    }
    if root.split('/').next() == Some("zookeeper") {
        return Err("`/zookeeper` belongs to ZooKeeper itself: choose another path in the URL".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::kit::connection::{Credentials, Provider};

    fn read(url: &str) -> Result<Config, String> {
        Config::read(
            url,
            &ConnectionOptions { default_ttl: Duration::from_millis(12_500), ..Default::default() },
        )
    }

    #[test]
    fn a_session_lasts_as_long_as_the_locks_of_the_program_unless_the_url_says_otherwise() {
        let timeout = |url| read(url).unwrap().session_timeout;
        assert_eq!(timeout("zookeeper://h"), Duration::from_millis(12_500));
        assert_eq!(timeout("zookeeper://h?session_timeout=4500ms"), Duration::from_millis(4_500));
        let options = ConnectionOptions { default_ttl: Duration::from_millis(10), ..Default::default() };
        let short = Config::read("zookeeper://h", &options).unwrap();
        assert_eq!(short.session_timeout, Duration::from_secs(1));
        assert!(short.silence() < short.session_timeout / 2);
        assert_eq!(read("zookeeper://h").unwrap().silence(), RESPONSE_TIMEOUT);
    }

    #[test]
    fn every_part_is_read() {
        let config = read("zookeeper://us%40er:p%2Fw@h1,h2:4001,[::1]:5,h1/app/locks/").unwrap();
        assert_eq!(config.members, ["h1:2181", "h2:4001", "[::1]:5"]);
        assert_eq!(config.names.root(), "/app/locks");
        assert!(
            matches!(config.login, UserLogin::Fixed { user, password } if user == "us@er" && password == "p/w")
        );
        assert_eq!(read("zookeeper://h").unwrap().names.root(), "/distlock");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_write() {
        for (url, remedy) in [
            ("zookeeper://h?session_timeout=1ms", "between 1s"),
            ("zookeeper://h?response_timeout=1ms", "between 10ms"),
            ("zookeeper://h?response_timeout=5s", "between 10ms and 4s"),
            ("zookeeper://h?connect_timeout=2m", "between 10ms"),
            ("zookeeper://h/a//b", "zookeeper://host/app/locks"),
            ("zookeeper://h/a/../b", "zookeeper://host/app/locks"),
            ("zookeeper://h/zookeeper/quota", "another path"),
            ("zookeeper://user@h", "user:password@host"),
            ("zookeeper://h%2Fx", "zk1,zk2,zk3"),
            ("zookeeper://", "`zookeeper://localhost:2181`"),
            ("zookeeper://h?session_timeot=3s", "`session_timeout`"),
            ("zookeeper://h?ca=/x", "without TLS"),
        ] {
            let text = read(url).unwrap_err();
            assert!(text.contains(remedy), "{text}");
        }
    }

    #[tokio::test]
    async fn a_login_is_given_once_and_shown_to_nobody() {
        let provider = Provider::new(async || Ok::<_, std::io::Error>(Credentials::new("u", "s3cret")));
        let options = ConnectionOptions { credentials: Some(provider), ..ConnectionOptions::default() };
        let config = Config::read("zookeeper://h", &options).unwrap();
        assert_eq!(config.login.ask("ZooKeeper").await, Ok(Some(("u".to_owned(), "s3cret".to_owned()))));
        let text = Config::read("zookeeper://u:s3cret@h", &options).unwrap_err();
        assert!(text.contains("leave it out of the URL"), "{text}");
        let fixed = read("zookeeper://u:s3cret@h1:1,h2").unwrap();
        let shown = format!("{fixed:?} {} {text}", fixed.describe());
        assert!(!shown.contains("s3cret") && shown.contains("ZooKeeper at h1:1, h2:2181"), "{shown}");
    }
}
