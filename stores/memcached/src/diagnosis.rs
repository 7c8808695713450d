//! Risks for locks on a server.
//!
//! The reply to `stats` has many lines, unlike the replies to the commands of a lock. So it uses a separate connection.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::MemcachedStore;
use distlock_store::Severity::{Fine, Note, Warning};
use distlock_store::{Finding, StoreError};

/// The maximum number of lines. A server reports about a hundred figures.
const MOST_LINES: usize = 1_000;
/// The maximum length of a line, in case the peer is not Memcached.
const LONGEST_LINE: u64 = 4 * 1024;

impl MemcachedStore {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let login = self.config.login().await?;
        let limit = self.config.connect_timeout + self.config.response_timeout;
        match timeout(limit, self.figures(login)).await {
            Ok(Ok(figures)) => Ok(found(&figures)),
            Ok(Err(error)) => {
                Err(StoreError::not_sent(format!("cannot read the statistics of Memcached: {error}")))
            }
            Err(_) => {
                Err(StoreError::not_sent(format!("Memcached did not report its statistics within {limit:?}")))
            }
        }
    }

    async fn figures(&self, login: Option<(String, String)>) -> io::Result<HashMap<String, String>> {
        let host = &self.config.host;
        let mut stream = BufReader::new(TcpStream::connect((host.name.as_str(), host.port)).await?);
        let mut figures = ask(&mut stream, "stats").await?;
        if figures.is_empty()
            && let Some((user, password)) = login
        {
            // Sent only if the server requires it: a server without passwords would store it as an item.
            let login = format!("{user} {password}");
            let line = format!("set login 0 0 {}\r\n{login}\r\n", login.len());
            stream.write_all(line.as_bytes()).await?;
            next_line(&mut stream).await?;
            figures = ask(&mut stream, "stats").await?;
        }
        let settings = ask(&mut stream, "stats settings").await?;
        figures.extend(settings.into_iter().map(|(name, value)| (format!("settings:{name}"), value)));
        Ok(figures)
    }
}

/// Returns nothing if the server refuses.
async fn ask(
    stream: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
    command: &str,
) -> io::Result<HashMap<String, String>> {
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut figures = HashMap::new();
    for _ in 0..MOST_LINES {
        let line = next_line(stream).await?;
        let Some((name, value)) = figure(&line) else {
            // `END`, or an error.
            return Ok(figures);
        };
        figures.insert(name.to_owned(), value.to_owned());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "too many statistics"))
}

async fn next_line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LONGEST_LINE).read_line(&mut line).await?;
    if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

pub(super) fn figure(line: &str) -> Option<(&str, &str)> {
    line.trim_end().strip_prefix("STAT ")?.split_once(' ')
}

pub(super) fn found(figures: &HashMap<String, String>) -> Vec<Finding> {
    let number = |name: &str| figures.get(name).and_then(|value| value.parse().ok()).unwrap_or(0_u64);
    let Some(evicts) = figures.get("settings:evictions") else {
        return vec![Finding::new(Note, "settings", "the server does not report them")];
    };
    let (evicted, mib) = (number("evictions"), number("limit_maxbytes") / (1024 * 1024));
    let mut found = vec![match (evicts.as_str(), evicted) {
        ("off", _) => {
            Finding::new(Fine, "evictions", "off: a server that is full refuses locks and renewals")
        }
        (_, 0) => {
            let text =
                format!("on, and none yet: if {mib} MiB are full, locks may be evicted while they are held");
            let remedy = "start the server with `-M`, or give locks a server of their own";
            Finding::new(Note, "evictions", text).remedy(remedy)
        }
        (_, evicted) => {
            let text = format!(
                "{evicted} items evicted so far, among them perhaps locks that were held: two holders"
            );
            let remedy =
                "start the server with `-M`, give it more memory (`-m`), or give locks a server of their own";
            Finding::new(Warning, "evictions", text).remedy(remedy)
        }
    }];
    let (refused, most) = (number("listen_disabled_num"), number("max_connections"));
    found.push(if refused > 0 {
        let text = format!("all {most} were in use {refused} times, and others had to wait");
        Finding::new(Warning, "connections", text).remedy("raise their number (`-c`)")
    } else {
        Finding::new(Fine, "connections", format!("{} of {most} are in use", number("curr_connections")))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severities(pairs: &[(&str, &str)]) -> Vec<distlock_store::Severity> {
        let figures = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        found(&figures).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn evictions_are_found_if_they_may_happen_and_more_so_if_they_have() {
        assert_eq!(severities(&[("settings:evictions", "off"), ("evictions", "5")]), [Fine, Fine]);
        assert_eq!(severities(&[("settings:evictions", "on"), ("evictions", "0")]), [Note, Fine]);
        assert_eq!(severities(&[("settings:evictions", "on"), ("evictions", "5")]), [Warning, Fine]);
        assert_eq!(severities(&[]), [Note]);
    }

    #[test]
    fn connections_that_had_to_wait_are_found() {
        assert_eq!(
            severities(&[("settings:evictions", "off"), ("listen_disabled_num", "1")]),
            [Fine, Warning]
        );
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_not_read_to_its_end() {
        let endless = usize::try_from(LONGEST_LINE).unwrap() * 2;
        let (mut server, client) = tokio::io::duplex(endless);
        server.write_all("STAT a 1\r\nSTAT b c d\r\nEND\r\n".as_bytes()).await.unwrap();
        server.write_all("S".repeat(endless / 2).as_bytes()).await.unwrap();
        let mut client = BufReader::new(client);
        let figures = ask(&mut client, "stats").await.unwrap();
        assert_eq!((figures.len(), &*figures["b"]), (2, "c d"));
        // The server keeps the connection open.
        assert_eq!(ask(&mut client, "stats").await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
