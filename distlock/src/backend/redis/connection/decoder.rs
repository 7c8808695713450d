//! Decodes bytes into replies.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use redis::{RedisResult, Value, ValueCodec};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::codec::Decoder;

use super::broken;
use crate::backend::redis::stream::Stream;

/// The maximum number of bytes of one read.
const READ_SIZE: usize = 16 * 1024;

/// Stores a part of a reply until any task reads the rest.
pub(super) struct ReplyDecoder {
    chunk: Vec<u8>,
    bytes: BytesMut,
    codec: ValueCodec,
    /// Emptied after each read. The memory is reused.
    pub(super) values: Vec<Value>,
}

impl ReplyDecoder {
    pub(super) fn new() -> ReplyDecoder {
        ReplyDecoder {
            chunk: vec![0; READ_SIZE],
            bytes: BytesMut::with_capacity(READ_SIZE),
            codec: ValueCodec::default(),
            values: Vec::new(),
        }
    }

    /// Reads once, and adds all complete replies to `values`, including those before a fault.
    pub(super) fn poll_read(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<RedisResult<()>> {
        let mut buffer = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(broken()));
        }
        self.bytes.extend_from_slice(buffer.filled());
        loop {
            match self.codec.decode(&mut self.bytes)? {
                // A message that no command requested.
                Some(Value::Push { .. }) => {}
                Some(value) => self.values.push(value),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}
