//! A request that awaits its reply.

use std::pin::Pin;
use std::task::{Context, Poll};

use redis::RedisResult;

use super::Connection;
use super::replies::{Reply, ReplySlot};

/// A request whose command has its place in the order.
pub(super) struct ReplyFuture<'a> {
    pub(super) connection: &'a Connection,
    pub(super) slot: ReplySlot,
    pub(super) is_over: bool,
}

impl Future for ReplyFuture<'_> {
    type Output = RedisResult<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Reply>> {
        // Cloned before the mutex is locked, because a waker is foreign code.
        let mut waker = Some(cx.waker().clone());
        let mut queue = self.connection.queue.lock();
        let Some(reply) = queue.replies.poll(self.slot, &mut waker) else { return Poll::Pending };
        let may_write = queue.replies.untaken() == 0 && queue.may_write();
        drop(queue);
        self.is_over = true;
        if may_write {
            self.connection.write();
        }
        Poll::Ready(reply)
    }
}

impl Drop for ReplyFuture<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.connection.queue.lock();
        let former = queue.replies.forget(self.slot);
        drop(queue);
        drop(former);
        if self.connection.may_write() {
            self.connection.write();
        }
    }
}
