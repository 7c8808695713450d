//! One raw HTTP request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

/// Sends a request, with these lines after the first, and reads to the end of the response.
pub(crate) fn send(address: SocketAddr, first: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = open(address, first, headers, body);
    let mut bytes = Vec::new();
    // Some servers keep the connection open. In that case, the length shows the end.
    let mut part = [0; 64 << 10];
    loop {
        let count = stream.read(&mut part).expect("it answers in time");
        bytes.extend_from_slice(&part[..count]);
        if count == 0 || is_whole(&bytes) {
            return Answer::parse(&bytes);
        }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned));
    length.is_some_and(|length| {
        let start = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        bytes.len() - start >= length.trim().parse::<usize>().unwrap()
    })
}

/// Sends a request. The caller reads the response.
pub(crate) fn open(address: SocketAddr, first: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut request = format!("{first} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).expect("it reads");
    stream
}
