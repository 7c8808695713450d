//! The timer that writes the commands that were held back: see
//! [`WriteCoalescing`](super::write_coalescing::WriteCoalescing).

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;

use tokio::time::sleep;

use super::Connection;
use super::write_coalescing::MAX_WRITE_DELAY;

impl Connection {
    /// Writes commands that were held back for [`MAX_WRITE_DELAY`] while no reply arrived.
    pub(super) async fn flush_when_due(&self) -> Infallible {
        loop {
            poll_fn(|cx| {
                let waker = cx.waker().clone();
                let mut queue = self.queue.lock();
                let is_due = !queue.unsent.is_empty();
                let former = if is_due { queue.flush_timer.take() } else { queue.flush_timer.replace(waker) };
                drop(queue);
                drop(former);
                if is_due { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            sleep(MAX_WRITE_DELAY).await;
            if self.may_write() {
                self.write();
            }
        }
    }
}
