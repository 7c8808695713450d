//! The common parts of the URLs of stores.
//!
//! Nothing in a URL is ignored: an unknown part is an error that says what to write instead. No error quotes text that
//! may be part of a password: the text before the host, values, and unknown names.

mod parameters;
#[cfg(test)]
mod tests;

use std::fmt;

use percent_encoding::percent_decode_str;

pub use parameters::Parameters;
pub use parameters::in_limits;

/// The parts of a URL, not decoded. `Debug` hides parts that may be a password.
#[derive(Clone)]
pub struct Parts<'a> {
    /// In lower case.
    pub scheme: String,
    /// The text before the last `@` of the authority.
    pub login: Option<&'a str>,
    /// Hosts with their ports, separated by commas.
    pub hosts: &'a str,
    /// From its first slash on; may be empty.
    pub path: &'a str,
    query: &'a str,
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("scheme", &self.scheme)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// User and password, decoded. `None` for an empty text.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Before the colon.
    pub user: Option<String>,
    /// After the colon.
    pub password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// For a store whose users have names and passwords: both, or neither. `scheme`: the scheme of its URLs.
    pub fn of_user(self, store: &str, scheme: &str) -> Result<Option<(String, String)>, String> {
        match (self.user, self.password) {
            (None, None) => Ok(None),
            (Some(user), Some(password)) => Ok(Some((user, password))),
            _ => Err(format!(
                "a login to {store} needs a user and a password: write `{scheme}://user:password@host`"
            )),
        }
    }
}

/// A host and its port, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Without brackets, if it is an IPv6 address.
    pub name: String,
    /// The port in the URL, or the store's default.
    pub port: u16,
}

/// The scheme in lower case, and the text after its colon. `None` for a text without a colon.
pub fn split_scheme(url: &str) -> Option<(String, &str)> {
    let (scheme, rest) = url.trim().split_once(':')?;
    Some((scheme.to_ascii_lowercase(), rest))
}

impl<'a> Parts<'a> {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn of(url: &'a str) -> Result<Parts<'a>, String> {
        let (scheme, rest) = split_scheme(url)
            .and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)))
            .ok_or("the URL has no scheme: it must begin with a name and `://`")?;
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, after)| (rest, Some(after)));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let parts = Parts { scheme, login, hosts, path, query };
        if parts.may_be_cut() && (path.contains('@') || fragment.is_some_and(|after| after.contains('@'))) {
            return Err(NOT_ENCODED.into());
        }
        if fragment.is_some() {
            return Err("a `#` has no meaning in the URL: leave it out, or write `%23` in a password".into());
        }
        Ok(parts)
    }

    /// User and password.
    pub fn login(&self) -> Result<Login, String> {
        let (user, password) =
            self.login.map_or(("", ""), |login| login.split_once(':').unwrap_or((login, "")));
        let text = |raw: &str, what| {
            Some(raw).filter(|raw| !raw.is_empty()).map(|raw| decoded(raw, what)).transpose()
        };
        Ok(Login { user: text(user, "the user")?, password: text(password, "the password")? })
    }

    /// All hosts, in order; at least one. A host without a port gets `port`.
    pub fn hosts(&self, port: u16) -> Result<Vec<Host>, String> {
        let written = self.hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let hosts: Vec<Host> = written.map(|host| self.host(host, port)).collect::<Result<_, _>>()?;
        if hosts.is_empty() {
            return Err(format!(
                "the URL names no host: write, for example, {}",
                self.example("localhost", port)
            ));
        }
        Ok(hosts)
    }

    fn host(&self, text: &str, default: u16) -> Result<Host, String> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, after) = rest.split_once(']').ok_or("the URL has a `[` without a `]`")?;
                let port = after.strip_prefix(':');
                if port.is_none() && !after.is_empty() {
                    return Err("only a `:` and the port may follow the `]` in the URL".into());
                }
                (name, port)
            }
            None if text.matches(':').count() > 1 => {
                return Err(format!(
                    "a host of the URL has several colons: write an IPv6 address in brackets, {}, and a \
                     password before an `@`",
                    self.example("[::1]", default)
                ));
            }
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let name = decoded(name, "a host")?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "the URL names no host before a port: write, for example, {}",
                self.example("localhost", default)
            ));
        }
        let port = match port {
            None | Some("") => default,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or("the port in the URL is not a number from 1 to 65535")?,
        };
        Ok(Host { name, port })
    }

    fn example(&self, host: &str, port: u16) -> String {
        format!("`{}://{host}:{port}`", self.scheme)
    }

    /// A password that is not encoded is cut at its first `/`, `?` or `#`. In that case, there is an `@` after this
    /// character, and none before it.
    fn may_be_cut(&self) -> bool {
        self.login.is_none() && !self.hosts.is_empty()
    }
}

const NOT_ENCODED: &str = "the URL has a `/`, `?` or `#` before its `@`: write these characters in a user or \
                           password as `%2F`, `%3F`, `%23`";

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// The same hosts, each of them once.
pub fn each_once(hosts: Vec<Host>) -> Vec<Host> {
    let mut once: Vec<Host> = Vec::with_capacity(hosts.len());
    for host in hosts {
        if !once.contains(&host) {
            once.push(host);
        }
    }
    once
}

/// `what` names the part in the error.
pub fn decoded(raw: &str, what: &str) -> Result<String, String> {
    let decoded = percent_decode_str(raw).decode_utf8();
    decoded.map(Into::into).map_err(|_| format!("{what} in the URL is not UTF-8"))
}
