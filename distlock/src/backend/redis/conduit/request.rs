//! A request that awaits its reply.

use std::pin::Pin;
use std::task::{Context, Poll};

use redis::RedisResult;

use super::Conduit;
use super::replies::{Look, Place, Reply};

/// A request whose command has its place in the order.
pub(super) struct Request<'a> {
    pub(super) conduit: &'a Conduit,
    pub(super) place: Place,
    pub(super) is_over: bool,
}

impl Future for Request<'_> {
    type Output = RedisResult<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Reply>> {
        let mut waker = None;
        loop {
            let mut queue = self.conduit.queue();
            match (queue.replies.look(self.place, cx.waker()), waker.take()) {
                (Look::Ready(reply), _) => {
                    let may_write = queue.replies.untaken() == 0 && queue.may_write();
                    drop(queue);
                    self.is_over = true;
                    if may_write {
                        self.conduit.write();
                    }
                    return Poll::Ready(reply);
                }
                (Look::Known, _) => return Poll::Pending,
                (Look::Other, Some(new)) => {
                    let former = queue.replies.set_waker(self.place, new);
                    drop(queue);
                    drop(former);
                    return Poll::Pending;
                }
                (Look::Other, None) => {
                    // A waker is foreign code.
                    drop(queue);
                    waker = Some(cx.waker().clone());
                }
            }
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.conduit.queue();
        let former = queue.replies.forget(self.place);
        drop(queue);
        drop(former);
        if self.conduit.may_write() {
            self.conduit.write();
        }
    }
}
