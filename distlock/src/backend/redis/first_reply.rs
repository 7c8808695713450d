//! The first exchange on a connection.
//!
//! A server that refuses a connection (protected mode, too many clients) reports why and closes, before it
//! was asked anything. A client that then writes many commands at once finds a broken connection and never
//! reads the reason. So every connection begins with one PING, and the reply is read even if the PING could
//! not be sent.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::ready;

use redis::{RedisError, RedisResult, ServerError, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::errors;
use super::stream::Stream;

/// A reply to PING is one line. The longest known one, that of the protected mode, has 900 bytes.
const MAX_LINE_BYTES: usize = 4096;
/// How much of a reply that makes no sense is quoted.
const MAX_QUOTED_BYTES: usize = 60;

/// Returns once the peer has replied in the protocol and has not refused the connection.
pub(super) async fn exchange(stream: &mut Stream) -> RedisResult<()> {
    let asked = write(stream, b"*1\r\n$4\r\nPING\r\n").await;
    let mut reply = Vec::new();
    let ended = loop {
        if reply.ends_with(b"\n") || reply.len() > MAX_LINE_BYTES {
            break None;
        }
        match read(stream, &mut reply).await {
            Ok(0) => break Some(asked.err().unwrap_or_else(|| io::ErrorKind::ConnectionAborted.into())),
            Ok(_) => {}
            Err(error) => break Some(error),
        }
    };
    match (reply.first(), ended) {
        (Some(b'+'), None) => Ok(()),
        (Some(b'-'), _) => refusal(&reply),
        (None, Some(error)) => Err(silent(&error).into()),
        _ => Err(nonsense(&reply).into()),
    }
}

async fn write(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    poll_fn(|cx| {
        while !bytes.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, bytes))?;
            bytes = match bytes.get(written..) {
                Some(rest) if written > 0 => rest,
                _ => return Err(io::ErrorKind::WriteZero.into()).into(),
            };
        }
        Pin::new(&mut *stream).poll_flush(cx)
    })
    .await
}

/// Appends the bytes that have arrived, and returns their number.
async fn read(stream: &mut Stream, to: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 512];
    let mut buffer = ReadBuf::new(&mut chunk);
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await?;
    to.extend(buffer.filled());
    Ok(buffer.filled().len())
}

/// An error reply. Some are expected: PING may need a login or a permission, or may be unknown.
fn refusal(reply: &[u8]) -> RedisResult<()> {
    let mut line = reply.trim_ascii_end().to_vec();
    line.extend(b"\r\n");
    match redis::parse_redis_value(&line) {
        Ok(Value::ServerError(error)) if is_final(&error) => Err(RedisError::from(error)),
        Ok(Value::ServerError(_)) => Ok(()),
        _ => Err(nonsense(reply).into()),
    }
}

fn is_final(error: &ServerError) -> bool {
    let passes = ["NOAUTH", "NOPERM", "LOADING", "BUSY", "MASTERDOWN"];
    !passes.contains(&error.code()) && !errors::is_unknown_command(error)
}

fn silent(error: &io::Error) -> io::Error {
    let text = format!("it closed the connection without an answer; does it expect TLS? ({error})");
    io::Error::new(error.kind(), text)
}

fn nonsense(reply: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(reply);
    let quoted: String = text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED_BYTES).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("this is not a Redis server: it answers {quoted:?}"))
}
