//! URLs of etcd: `etcd://[user:password@]host[:port],..[/root][?parameters]`, `etcds://` for TLS.

use distlock_store::kit::connection::OF_TLS;
use distlock_store::kit::url::{Host, Parameters, Parts, decoded, each_once};

/// The port of clients if the URL names none.
const PORT: u16 = 2379;
/// The prefix of the keys if the URL names none.
const ROOT: &str = "distlock";

const ALWAYS: [&str; 3] = ["session_timeout", "connect_timeout", "response_timeout"];

/// The decoded parts of a URL.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) tls: bool,
    /// User and password.
    pub(super) login: Option<(String, String)>,
    /// At least one, without duplicates.
    pub(super) hosts: Vec<Host>,
    /// Not empty, and without `/` at either end.
    pub(super) root: String,
    pub(super) parameters: Parameters,
}

impl Url {
    /// # Errors
    ///
    /// A sentence that names the remedy.
    pub(super) fn read(url: &str) -> Result<Url, String> {
        let parts = Parts::of(url)?;
        let tls = parts.scheme == "etcds";
        let of_tls = if tls { OF_TLS } else { &[] };
        let parameters = parts.parameters(&[&ALWAYS, of_tls].concat(), |name| {
            OF_TLS.contains(&name).then(|| "it is for URLs with TLS: write `etcds://`".to_owned())
        })?;
        let login = parts.login()?.of_user("etcd", "etcd")?;
        let hosts = each_once(parts.hosts(PORT)?);
        // The client builds URLs from the names.
        if hosts.iter().any(|host| !host.name.chars().all(|c| c.is_alphanumeric() || ":.-_".contains(c))) {
            return Err("a host of the URL has characters that no host has: write, for example, \
                        `etcd://etcd1,etcd2,etcd3`"
                .into());
        }
        let root = decoded(parts.path.trim_matches('/'), "the path")?;
        let root = if root.is_empty() { ROOT.to_owned() } else { root };
        Ok(Url { tls, login, hosts, root, parameters })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(url: &str) -> Url {
        Url::read(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn refusal(url: &str) -> String {
        Url::read(url).err().unwrap_or_else(|| panic!("{url} is taken"))
    }

    #[test]
    fn every_part_is_read() {
        let url =
            read("etcds://us%40er:p%2Fw@h1,h2:4001,[::1]:5,h1/app/locks/?session_timeout=10s&ca=/a%20b.pem");
        assert!(url.tls);
        assert_eq!(url.login, Some(("us@er".to_owned(), "p/w".to_owned())));
        let hosts: Vec<String> = url.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["h1:2379", "h2:4001", "[::1]:5"]);
        assert_eq!(url.root, "app/locks");
        assert_eq!(url.parameters.duration("session_timeout"), Ok(Some(Duration::from_secs(10))));
        assert_eq!(url.parameters.get("ca"), Some("/a b.pem"));
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let url = read("etcd://h");
        assert!(!url.tls && url.login.is_none());
        assert_eq!((url.root.as_str(), url.hosts.len()), ("distlock", 1));
        assert_eq!(url.parameters.duration("session_timeout"), Ok(None));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_to_write() {
        for (url, remedy) in [
            ("etcd://", "`etcd://localhost:2379`"),
            ("etcd:///root", "names no host"),
            ("etcd://a%2Fb", "etcd1,etcd2,etcd3"),
            ("etcd://user@h", "user:password@host"),
            ("etcd://:password@h", "user:password@host"),
            ("etcd://h?session_timeot=3s", "`session_timeout`"),
            ("etcd://h?else=3s", "`response_timeout`"),
            ("etcd://h?ca=/x", "`etcds://`"),
        ] {
            let text = refusal(url);
            assert!(text.contains(remedy), "{url}: {text}");
        }
    }
}
