//! A request that awaits its reply.

use std::pin::Pin;
use std::task::{Context, Poll};

use redis::RedisResult;

use super::Connection;
use super::replies::{Reply, ReplySlot, SlotPoll};

/// A request whose command has its place in the order.
pub(super) struct ReplyFuture<'a> {
    pub(super) connection: &'a Connection,
    pub(super) slot: ReplySlot,
    pub(super) is_over: bool,
}

impl Future for ReplyFuture<'_> {
    type Output = RedisResult<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Reply>> {
        let mut waker = None;
        loop {
            let mut queue = self.connection.queue.lock();
            match (queue.replies.poll(self.slot, cx.waker()), waker.take()) {
                (SlotPoll::Ready(reply), _) => {
                    let may_write = queue.replies.untaken() == 0 && queue.may_write();
                    drop(queue);
                    self.is_over = true;
                    if may_write {
                        self.connection.write();
                    }
                    return Poll::Ready(reply);
                }
                (SlotPoll::SameWaker, _) => return Poll::Pending,
                (SlotPoll::NewWaker, Some(new)) => {
                    let former = queue.replies.set_waker(self.slot, new);
                    drop(queue);
                    drop(former);
                    return Poll::Pending;
                }
                (SlotPoll::NewWaker, None) => {
                    // Unlocked first, because a waker is foreign code.
                    drop(queue);
                    waker = Some(cx.waker().clone());
                }
            }
        }
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
