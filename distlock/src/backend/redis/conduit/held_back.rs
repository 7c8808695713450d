//! The timer for what is held back.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;

use tokio::time::sleep;

use super::Conduit;
use super::pace::LONGEST_HOLD;

impl Conduit {
    /// Writes what has been held back for long enough although no reply has come.
    pub(super) async fn write_what_is_held_back(&self) -> Infallible {
        loop {
            poll_fn(|cx| {
                let waker = cx.waker().clone();
                let mut queue = self.queue();
                let is_due = !queue.unsent.is_empty();
                let former = if is_due { queue.timer.take() } else { queue.timer.replace(waker) };
                drop(queue);
                drop(former);
                if is_due { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            sleep(LONGEST_HOLD).await;
            if self.may_write() {
                self.write();
            }
        }
    }
}
