//! Access control: which clients may see the page, and which may release locks. It is checked first.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

/// The browser uses only content of this server: no foreign markup, no frames, no other sites.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The site that a request comes from, as the browser reports it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The access control of one server.
#[derive(Debug)]
pub(super) struct Guard {
    /// Its names in lower case, without a port.
    names: Vec<String>,
    token: Option<String>,
}

/// The permissions of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    /// Release locks by force.
    Release,
}

/// The reason to refuse a request.
pub(super) type Refusal = (StatusCode, &'static str);

impl Guard {
    pub(super) fn new(address: IpAddr, hosts: &[String], token: Option<String>) -> Self {
        let own = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into();
        names.push(own);
        names.extend(hosts.iter().map(|host| without_port(host).to_ascii_lowercase()));
        Guard { names, token }
    }

    pub(super) fn access(&self) -> Access {
        match self.token {
            Some(_) => Access::Release,
            None => Access::ReadOnly,
        }
    }

    /// A foreign site can have a name that resolves to this address. Its script could then read the responses. But the
    /// browser sends the name in the request.
    pub(super) fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let named = request.uri().authority().map(|authority| authority.as_str());
        let is_ours = |host: &str| self.names.contains(&without_port(host).to_ascii_lowercase());
        let hosts: Vec<&str> = header.into_iter().chain(named).collect();
        if hosts.is_empty() || !hosts.into_iter().all(is_ours) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "this server does not have that name: see `--host`",
            ));
        }
        Ok(())
    }

    /// A page of another site can send requests, too, but cannot read the responses. Each request would cause a listing
    /// of the store, or use a place. A browser reports the site. Old browsers report at most the origin.
    pub(super) fn check_site(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let said = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let is_ours = |origin: &str| {
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            self.names.contains(&without_port(host).to_ascii_lowercase())
        };
        let allowed = match (said(&SITE), said(&ORIGIN)) {
            (Some(site), _) => matches!(site, "same-origin" | "none"),
            (None, Some(origin)) => is_ours(origin),
            (None, None) => true,
        };
        if allowed {
            Ok(())
        } else {
            Err((StatusCode::FORBIDDEN, "requests from pages of other sites are refused"))
        }
    }

    /// Checks a request that reads locks. Without a token, every client that reaches the server may read them.
    pub(super) fn check_read(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.token {
            Some(token) => check_token(token, headers),
            None => Ok(()),
        }
    }

    /// Checks a request that releases a lock.
    pub(super) fn check_write(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.token {
            Some(token) => check_token(token, headers),
            None => Err((StatusCode::FORBIDDEN, "read-only: start `distlock web` with `--token`")),
        }
    }
}

fn check_token(token: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match given.strip_prefix("Bearer ") {
        Some(given) if are_same(given.as_bytes(), token.as_bytes()) => Ok(()),
        _ => Err((
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong: open the address that `distlock web` prints, with the token at its end",
        )),
    }
}

/// Compares in a time that does not depend on the position of a difference.
fn are_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

/// Adds the headers that make the browser strict.
pub(super) fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn guard(token: Option<&str>) -> Guard {
        let hosts = ["Locks.example", "proxy.example:8443"].map(str::to_owned);
        Guard::new(IpAddr::from([10, 0, 0, 7]), &hosts, token.map(str::to_owned))
    }

    fn host(name: &str) -> bool {
        guard(None).check_host(&Request::get("/").header(HOST, name).body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn it_answers_to_its_own_names_only() {
        for name in ["127.0.0.1:4747", "localhost", "LOCALHOST:1", "[::1]:4747", "10.0.0.7"] {
            assert!(host(name), "{name}");
        }
        for name in ["locks.example", "locks.example:8443", "proxy.example", "proxy.example:8443"] {
            assert!(host(name), "{name}");
        }
        for name in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4747", "", ":4747", "[::2]"]
        {
            assert!(!host(name), "{name}");
        }
        let nameless = Request::get("/").body(Body::empty()).unwrap();
        assert!(guard(None).check_host(&nameless).is_err());
        let two = Request::get("http://evil.example/").header(HOST, "localhost").body(Body::empty()).unwrap();
        assert!(guard(None).check_host(&two).is_err());
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let site = |name: HeaderName, value: &str| {
            guard(None).check_site(&HeaderMap::from_iter([(name, value.parse().unwrap())])).is_ok()
        };
        assert!(guard(None).check_site(&HeaderMap::new()).is_ok(), "no browser");
        assert!(site(SITE, "same-origin") && site(SITE, "none"));
        assert!(!site(SITE, "cross-site") && !site(SITE, "same-site") && !site(SITE, ""));
        assert!(site(ORIGIN, "http://127.0.0.1:4747") && site(ORIGIN, "https://locks.example"));
        for origin in ["https://evil.example", "null", "", "http://127.0.0.1.evil.example", "locks.example"] {
            assert!(!site(ORIGIN, origin), "{origin}");
        }
    }

    #[test]
    fn nothing_is_changed_without_a_token_and_nothing_is_shown_without_the_one_that_was_asked_for() {
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        let (none, right) = (HeaderMap::new(), with(&format!("Bearer {TOKEN}")));
        assert!(guard(None).check_read(&none).is_ok());
        assert_eq!(guard(None).check_write(&right).unwrap_err().0, StatusCode::FORBIDDEN);
        let asks = guard(Some(TOKEN));
        assert!(asks.check_read(&right).is_ok() && asks.check_write(&right).is_ok());
        for wrong in [none, with("Bearer 0123456789abcdeF"), with("Bearer "), with(TOKEN), with("Basic x")] {
            assert_eq!(asks.check_read(&wrong).unwrap_err().0, StatusCode::UNAUTHORIZED);
            assert_eq!(asks.check_write(&wrong).unwrap_err().0, StatusCode::UNAUTHORIZED);
        }
    }
}
