//! `distlock web`: a page that shows the locks of a deployment while it is open.
//!
//! The page reads server-sent events and shows text as text. The server listens on the loopback by default, answers
//! only requests for its own names (so that another site cannot reach it by a foreign name), and changes nothing
//! without a token.

mod feed;
mod guard;
mod look;
mod serve;
mod unread;
mod view;

use std::net::SocketAddr;
use std::path::Path;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{General, Web};
use crate::connect::connect;
use crate::exit::Exit;
use crate::out::say;
use feed::Feed;
use guard::Guard;

/// The minimum length of a token. A shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Serves until a signal ends it.
pub(crate) async fn web(general: &General, options: Web) -> Result<Exit, Exit> {
    let Web { listen, token, token_file, hosts, pattern } = options;
    let token = match &token_file {
        Some(path) => Some(token_in(path)?),
        None => token,
    };
    check(listen, token.as_deref())?;
    let manager = connect(general).await?;
    let listener = TcpListener::bind(listen).await.map_err(|error| cannot_listen(listen, &error))?;
    let address = listener.local_addr().map_err(|error| cannot_listen(listen, &error))?;
    // The token itself is not printed, because the output may be stored in a log.
    let secret = if token.is_some() { "#token=…" } else { "" };
    say(format_args!("http://{address}/{secret}"));
    let guard = Guard::new(address.ip(), &hosts, token);
    let store = place(general.url()?);
    let feed = Feed::new(manager, store, pattern, guard.access());
    let ended = tokio::select! {
        biased;
        told = told_to_end() => told,
        () = feed.run() => Ok(()),
        () = serve::serve(listener, serve::router(feed.clone(), guard)) => Ok(()),
    };
    ended.map_err(|error| Exit::Unavailable.because(&format!("cannot wait for signals: {error}")))?;
    Ok(Exit::Success)
}

fn token_in(path: &Path) -> Result<String, Exit> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Exit::Usage.because(&format!("the token in {}: {error}", path.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn check(listen: SocketAddr, token: Option<&str>) -> Result<(), Exit> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    match token {
        None if !listen.ip().is_loopback() => Err(Exit::Usage.because(
            "other machines would see every key: give `--token`, or listen on 127.0.0.1 and forward the port",
        )),
        Some(token) if token.len() < SHORTEST_TOKEN || !token.chars().all(fits) => Err(Exit::Usage.because(
            "the token must be at least 16 letters, digits, `-`, `.`, `_` or `~`, as `openssl rand -hex 16` makes them",
        )),
        _ => Ok(()),
    }
}

/// A URL without its secret parts: user, password and parameters.
fn place(url: &str) -> String {
    let without_parameters = url.split(['?', '#']).next().unwrap_or_default();
    match without_parameters.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let hosts = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{hosts}/{path}")
        }
        None => without_parameters.to_owned(),
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Exit {
    Exit::Unavailable.because(&format!("cannot listen on {address}: {error}; choose another with `--listen`"))
}

async fn told_to_end() -> std::io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_password() {
        assert_eq!(place("redis://ann:s%40e@cret@h:1,h:2/0?ca=x"), "redis://h:1,h:2/0");
        assert_eq!(place("postgres://h/db?password=x"), "postgres://h/db");
        assert_eq!(place("redis://127.0.0.1"), "redis://127.0.0.1/");
        assert_eq!(place("memory:"), "memory:");
    }

    #[test]
    fn other_machines_see_nothing_without_a_token() {
        let listen = |text: &str| text.parse::<SocketAddr>().unwrap();
        let token = Some("0123456789abcdef");
        assert!(check(listen("127.0.0.1:0"), None).is_ok() && check(listen("[::1]:0"), None).is_ok());
        assert_eq!(check(listen("0.0.0.0:0"), None), Err(Exit::Usage));
        assert_eq!(check(listen("10.0.0.7:0"), None), Err(Exit::Usage));
        assert!(check(listen("0.0.0.0:0"), token).is_ok());
        assert_eq!(check(listen("127.0.0.1:0"), Some("short")), Err(Exit::Usage));
        assert_eq!(check(listen("127.0.0.1:0"), Some("0123456789 abcdef")), Err(Exit::Usage));
    }
}
