//! Parses URLs: `etcd://[user:password@]host[:port],..[/root][?parameters]`, `etcds://` for TLS.
//!
//! Nothing in a URL is ignored: a part that is not understood is an error that says what to write instead. No error
//! quotes text that may be part of a password.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use crate::nearest::nearest;

/// The port of clients if the URL names none.
const PORT: u16 = 2379;
/// Below which the keys lie if the URL says nothing.
const ROOT: &str = "distlock";

const ALWAYS: [&str; 3] = ["session_timeout", "connect_timeout", "response_timeout"];
const OF_TLS: [&str; 5] = ["ca", "cert", "key", "tls_name", "roots"];

/// A URL in its parts, decoded.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) tls: bool,
    pub(super) login: Option<(String, String)>,
    /// Hosts and ports, each once; at least one.
    pub(super) hosts: Vec<(String, u16)>,
    /// Without a `/` at either end, not empty.
    pub(super) root: String,
    parameters: Vec<(String, String)>,
}

impl Url {
    /// # Errors
    ///
    /// A sentence that says what to write instead.
    pub(super) fn read(url: &str) -> Result<Url, String> {
        let (scheme, rest) =
            url.trim().split_once("://").ok_or("the URL has no scheme: write `etcd://host`")?;
        let tls = scheme.eq_ignore_ascii_case("etcds");
        if rest.contains('#') {
            return Err("a `#` has no meaning in the URL: leave it out, or write `%23` in a password".into());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !authority.contains('@') && (path.contains('@') || query.contains('@')) {
            return Err(
                "the URL has a `/` or `?` in front of its `@`: write these characters in a user or password \
                        as `%2F`, `%3F`"
                    .into(),
            );
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(read_login(login)?), hosts),
            None => (None, authority),
        };
        let mut read: Vec<(String, u16)> = Vec::new();
        for host in hosts.split(',').map(str::trim).filter(|host| !host.is_empty()) {
            let host = host_and_port(host)?;
            if !read.contains(&host) {
                read.push(host);
            }
        }
        if read.is_empty() {
            return Err("the URL names no host: write, for example, `etcd://etcd1,etcd2,etcd3`".into());
        }
        let root = decoded(path.trim_matches('/'), "the path")?;
        let root = if root.is_empty() { ROOT.to_owned() } else { root };
        Ok(Url { tls, login, hosts: read, root, parameters: parameters(query, tls)? })
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a duration.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, String> {
        self.parameter(name).map(|value| duration(name, value)).transpose()
    }
}

fn read_login(login: &str) -> Result<(String, String), String> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (user, password) = (decoded(user, "the user")?, decoded(password, "the password")?);
    if user.is_empty() || password.is_empty() {
        return Err("a login to etcd is a user and a password: write `etcd://user:password@host`".into());
    }
    Ok((user, password))
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the URL has a `[` without a `]`")?;
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return Err("only a `:` and the port may follow the `]` in the URL".into());
            }
            (format!("[{host}]"), port)
        }
        None if text.matches(':').count() > 1 => {
            return Err("a host of the URL has several colons: write an IPv6 address in brackets, \
                        `etcd://[::1]:2379`, and a password in front of an `@`"
                .into());
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            (decoded(host, "a host")?, port)
        }
    };
    let is_host = |c: char| c.is_alphanumeric() || "[]:.-_".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("the URL has something in the place of a host that is none: write, for example, \
                    `etcd://localhost:2379`"
            .into());
    }
    match port {
        None | Some("") => Ok((host, PORT)),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("the port in the URL is not a number from 1 to 65535".into()),
        },
    }
}

fn decoded(raw: &str, what: &str) -> Result<String, String> {
    let decoded = percent_decode_str(raw).decode_utf8();
    decoded.map(Into::into).map_err(|_| format!("{what} in the URL is not UTF-8"))
}

fn parameters(query: &str, tls: bool) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        check_name(name, tls)?;
        if found.iter().any(|(other, _)| other == name) {
            return Err(format!("`{name}=` stands in the URL twice"));
        }
        let value = decoded(value, &format!("`{name}=`"))?;
        if value.is_empty() {
            return Err(format!("`{name}=` in the URL has no value"));
        }
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

fn check_name(name: &str, tls: bool) -> Result<(), String> {
    let of_tls: &[&str] = if tls { &OF_TLS } else { &[] };
    let known = || ALWAYS.iter().chain(of_tls);
    if known().any(|known| *known == name) {
        return Ok(());
    }
    if OF_TLS.contains(&name) {
        return Err(format!("`{name}=` is for URLs with TLS: write `etcds://`"));
    }
    // Any other text may be part of a password that was not encoded.
    let listed: Vec<String> = known().map(|name| format!("`{name}`")).collect();
    match nearest(name, known().map(|name| (*name).to_owned())) {
        Some(near) => Err(format!("the URL has a parameter that is not known: did you mean `{near}=`?")),
        None => Err(format!(
            "the URL has a parameter that is not known: there are {}; in a password write `?` as `%3F` and `&` \
             as `%26`",
            listed.join(", ")
        )),
    }
}

/// A number and a unit: `500ms`, `3s`, `2m`.
fn duration(name: &str, value: &str) -> Result<Duration, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let millis = match &value[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .zip(millis)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .ok_or_else(|| {
            format!("`{name}=` in the URL is not a time: write, for example, `{name}=5s` or `{name}=500ms`")
        })
}

#[cfg(test)]
mod tests {
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
        let host = |host: &str, port| (host.to_owned(), port);
        assert_eq!(url.hosts, [host("h1", 2379), host("h2", 4001), host("[::1]", 5)]);
        assert_eq!(url.root, "app/locks");
        assert_eq!(url.duration("session_timeout"), Ok(Some(Duration::from_secs(10))));
        assert_eq!(url.parameter("ca"), Some("/a b.pem"));
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let url = read("etcd://h");
        assert!(!url.tls && url.login.is_none());
        assert_eq!((url.root.as_str(), url.hosts.len()), ("distlock", 1));
        assert_eq!(url.duration("session_timeout"), Ok(None));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_to_write() {
        for (url, remedy) in [
            ("etcd://", "etcd1,etcd2,etcd3"),
            ("etcd:///root", "etcd1,etcd2,etcd3"),
            ("etcd://h:0", "1 to 65535"),
            ("etcd://::1", "brackets"),
            ("etcd://[::1", "without a `]`"),
            ("etcd://a b", "localhost:2379"),
            ("etcd://user@h", "user:password@host"),
            ("etcd://:password@h", "user:password@host"),
            ("etcd://u:a/b@h", "%2F"),
            ("etcd://h#x", "leave it out"),
            ("etcd://h?session_timeot=3s", "`session_timeout=`"),
            ("etcd://h?else=3s", "`response_timeout`"),
            ("etcd://h?ca=/x", "`etcds://`"),
            ("etcd://h?session_timeout=", "has no value"),
            ("etcd://h?session_timeout=3s&session_timeout=4s", "twice"),
        ] {
            let text = refusal(url);
            assert!(text.contains(remedy), "{url}: {text}");
        }
    }

    #[test]
    fn no_error_quotes_a_password() {
        for url in ["etcd://u:s3cret/x@h", "etcd://u:s3cret?x@h", "etcd://u:s3cret#x@h", "etcd://h?s3cret=1"]
        {
            assert!(!refusal(url).contains("s3cret"), "{url}: {}", refusal(url));
        }
    }
}
