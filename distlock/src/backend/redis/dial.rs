//! TCP connections to a host that may have several addresses, some of which may not answer.
//!
//! The next address is tried before the previous one has failed (RFC 8305, "Happy Eyeballs"): an address that
//! never answers costs a quarter of a second, not the whole timeout. Names are resolved again for every
//! connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long an address may take before the next one is tried, too.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// After this much silence the kernel probes whether the peer is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
/// Connects to the first address of `host` that accepts.
pub(super) async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = first_of(alternating(resolve(host, port).await?)).await?;
    // Commands are small, and a caller waits for each of them.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(crate::protocol::LATE_COMMANDS))?;
    Ok(stream)
}

async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(addresses) = names::lookup(host) {
        return Ok(addresses);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// The resolver's order, but with alternating address families: usually it is a whole family that does not
/// work.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut turns = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        let pair = [one.next(), other.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

/// The first connection that is made. The other attempts end with this call.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        }
        let ended = match addresses.len() {
            0 => Ok(attempts.join_next().await),
            _ => timeout(NEXT_ADDRESS_AFTER, attempts.join_next()).await,
        };
        match ended {
            // It is time for the next one.
            Err(_) => {}
            Ok(Some(Ok((_, Ok(stream))))) => return Ok(stream),
            Ok(Some(Ok((address, Err(error))))) => failures.push((address, error)),
            // The runtime ends.
            Ok(Some(Err(ended))) => return Err(io::Error::other(ended)),
            Ok(None) => return Err(nobody(failures)),
        }
    }
}

/// Why no address could be reached.
fn nobody(mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    let kind = match failures.as_slice() {
        [] => return io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        [_] => return failures.remove(0).1,
        [(_, first), ..] => first.kind(),
    };
    let each: Vec<_> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    io::Error::new(kind, each.join("; "))
}

/// Host names that exist only in tests.
#[cfg(test)]
pub(super) mod names {
    use std::collections::HashMap;
    use std::net::SocketAddr;
    use std::sync::{LazyLock, Mutex};

    static KNOWN: LazyLock<Mutex<HashMap<String, Vec<SocketAddr>>>> = LazyLock::new(Mutex::default);

    pub(in super::super) fn learn(host: &str, addresses: &[SocketAddr]) {
        KNOWN.lock().unwrap().insert(host.to_owned(), addresses.to_vec());
    }

    pub(super) fn lookup(host: &str) -> Option<Vec<SocketAddr>> {
        KNOWN.lock().unwrap().get(host).cloned()
    }
}

/// An address that neither accepts nor refuses connections: its backlog is full.
#[cfg(test)]
pub(super) struct BlackHole {
    listener: std::net::TcpListener,
    _queued: Vec<std::net::TcpStream>,
}

#[cfg(test)]
impl BlackHole {
    pub(super) fn open() -> BlackHole {
        use redis::io::tcp::socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = std::net::TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            queued.push(stream);
            assert!(queued.len() < 10_000, "this system queues connections without end");
        }
        BlackHole { listener, _queued: queued }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns_beginning_with_the_resolvers_first() {
        let found = ["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"].map(at);
        let expected = ["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"].map(at);
        assert_eq!(alternating(found.to_vec()), expected);
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_a_quarter_of_a_second() {
        let (hole, good) = (BlackHole::open(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let good = good.local_addr().unwrap();
        for holes in 1..=2 {
            let mut addresses = vec![hole.address(); holes];
            addresses.push(good);
            let start = Instant::now();
            let stream = first_of(addresses).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), good);
            let took = start.elapsed();
            assert!(took >= NEXT_ADDRESS_AFTER && took < Duration::from_secs(2), "{took:?}");
        }
    }

    #[tokio::test]
    async fn an_address_that_refuses_costs_nothing_and_each_one_is_named() {
        let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let good = good.local_addr().unwrap();
        let (one, two) = (at("127.0.0.1:1"), at("127.0.0.1:2"));
        let start = Instant::now();
        assert_eq!(first_of(vec![one, two, good]).await.unwrap().peer_addr().unwrap(), good);
        assert!(start.elapsed() < NEXT_ADDRESS_AFTER, "{:?}", start.elapsed());
        let error = first_of(vec![one, two]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains("127.0.0.1:1:") && error.to_string().contains("127.0.0.1:2:"));
        assert!(!first_of(vec![one]).await.unwrap_err().to_string().contains("127.0.0.1"));
        assert_eq!(first_of(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
