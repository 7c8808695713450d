//! The configuration of an etcd store.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::keys::Names;
use super::tls;
use super::url::Url;
use distlock_store::kit::connection::{ConnectionOptions, UserLogin};
use distlock_store::kit::tls::TlsFiles;

/// The valid range of the session's time-out. etcd raises a lower value to the minimum.
const SESSIONS: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(86_400);

/// How long a member may take to reply, by default. An election takes as long.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The addresses of etcd, the credentials, and the time-outs.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// `host:port` of each member.
    pub(super) members: Vec<String>,
    pub(super) names: Names,
    pub(super) login: UserLogin,
    /// `None`: without TLS.
    pub(super) tls: Option<Arc<TlsFiles>>,
    /// The ttl that the session's lease requests, in whole seconds.
    pub(super) session_timeout: Duration,
    /// How long one attempt to connect may take, until commands can be sent.
    pub(super) connect_timeout: Duration,
    /// How long a reply may take before the connection counts as broken.
    pub(super) response_timeout: Duration,
}

impl Config {
    /// The configuration from a URL and the builder's options, which take precedence. If the URL does not set it, the
    /// session lasts as long as the program's default ttl.
    ///
    /// # Errors
    ///
    /// A sentence that names the remedy. It never quotes the URL, which may hold a password.
    pub(super) fn read(url: &str, options: &ConnectionOptions) -> Result<Config, String> {
        let url = Url::read(url)?;
        if options.address_map.is_some() {
            return Err(
                "`address_map` is for Redis: members of etcd are connected as the URL names them".into()
            );
        }
        let login = UserLogin::of(url.login.clone(), options)?;
        let said = url.parameters.duration("session_timeout")?;
        if let Some(said) = said.filter(|said| !SESSIONS.contains(said)) {
            return Err(format!(
                "`session_timeout` is {said:?}: it must be between 2 s, the shortest lease of etcd, and a day"
            ));
        }
        Ok(Config {
            members: url.hosts.iter().map(ToString::to_string).collect(),
            names: Names::below(&url.root),
            login,
            tls: tls::files(&url, options)?,
            session_timeout: whole_seconds(
                said.unwrap_or(options.default_ttl).clamp(*SESSIONS.start(), *SESSIONS.end()),
            ),
            connect_timeout: url.parameters.connect_timeout(options, CONNECT_TIMEOUT)?,
            response_timeout: url.parameters.response_timeout(options, RESPONSE_TIMEOUT)?,
        })
    }

    /// The location of the locks, for messages.
    pub(super) fn describe(&self) -> String {
        format!("etcd at {}", self.members.join(", "))
    }
}

/// Rounded up to whole seconds, the unit of etcd's leases.
pub(super) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
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
        assert_eq!(timeout("etcd://h"), Duration::from_secs(13));
        assert_eq!(timeout("etcd://h?session_timeout=4500ms"), Duration::from_secs(5));
        let options = ConnectionOptions { default_ttl: Duration::from_millis(10), ..Default::default() };
        let short = Config::read("etcd://h", &options).unwrap();
        assert_eq!(short.session_timeout, Duration::from_secs(2));
    }

    #[test]
    fn limits_are_checked_with_what_to_write() {
        for (url, remedy) in [
            ("etcd://h?session_timeout=1s", "between 2 s"),
            ("etcd://h?session_timeout=3", "`session_timeout=`"),
            ("etcd://h?response_timeout=1ms", "between 10ms and 4s"),
            ("etcd://h?response_timeout=5s", "between 10ms and 4s"),
            ("etcd://h?connect_timeout=2m", "between 10ms and 60s"),
        ] {
            let text = read(url).unwrap_err();
            assert!(text.contains(remedy), "{text}");
        }
    }

    #[tokio::test]
    async fn a_login_is_given_once_and_shown_to_nobody() {
        let provider = Provider::new(async || Ok::<_, std::io::Error>(Credentials::new("u", "s3cret")));
        let options = ConnectionOptions { credentials: Some(provider), ..ConnectionOptions::default() };
        let config = Config::read("etcd://h", &options).unwrap();
        assert_eq!(config.login.ask("etcd").await, Ok(Some(("u".to_owned(), "s3cret".to_owned()))));
        let text = Config::read("etcd://u:s3cret@h", &options).unwrap_err();
        assert!(text.contains("leave it out of the URL"), "{text}");
        let fixed = read("etcd://u:s3cret@h1:1,h2").unwrap();
        let shown = format!("{fixed:?} {} {text}", fixed.describe());
        assert!(!shown.contains("s3cret") && shown.contains("etcd at h1:1, h2:2379"), "{shown}");
    }
}
