//! A command that has its turn: its caller polls the store's future itself, so that no other thread is woken for it.
//!
//! The driver limits this to a moment, even if the caller is dropped or blocked. After that, the I/O thread polls the
//! future, as a normal task of that thread with the same time-out. A store's future relies on the runtime of the I/O
//! thread, so that runtime is entered wherever the future is polled or dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::command::{Submitted, TimedReply, Turn, failed, in_time};
use super::ended;
use crate::backend::{BoxFuture, ServerTime};
use crate::contained::{contained, poll_contained};
use crate::process::{self, Process};
use distlock_store::StoreError;

/// The answer to a command. There is always one.
pub(super) struct StoreAnswer<T: Send + 'static, L: FnOnce(T) + Send + 'static> {
    pub(super) made_in: Process,
    pub(super) from: AnswerFrom<T, L>,
}

pub(super) enum AnswerFrom<T, L> {
    IoThread(oneshot::Receiver<TimedReply<T>>),
    /// Gone once it has answered.
    Store(Option<Called<T, L>>),
}

pub(super) struct Called<T, L> {
    pub(super) call: BoxFuture<Result<T, StoreError>>,
    pub(super) turn: Turn,
    /// Told what the store says later than in time.
    pub(super) late: L,
    pub(super) io_thread: Handle,
    pub(super) submitted: Submitted,
    pub(super) asked: ServerTime,
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Called<T, L> {
    fn is_on_io_thread(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.io_thread.id())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimedReply<T>> {
        let _entered = self.io_thread.enter();
        poll_contained(self.call.as_mut(), cx).map(|said| failed(said).map(|said| (said, self.asked)))
    }

    /// In a task of the I/O thread.
    fn carry_on(self) -> oneshot::Receiver<TimedReply<T>> {
        let Called { call, turn, late, io_thread, submitted, asked } = self;
        let (sender, answer) = oneshot::channel();
        // No task awaits the answer if the caller is gone.
        let tell = move |said: Result<T, StoreError>| drop(sender.send(said.map(|said| (said, asked))));
        // At the end of the runtime the command is dropped here, and the sender with it.
        drop(contained(|| io_thread.spawn(in_time(call, submitted.left(), turn, tell, late))));
        answer
    }

    fn drop_entered(self) {
        let Called { call, turn, late, io_thread, .. } = self;
        drop(contained(|| {
            let _entered = io_thread.enter();
            drop((call, late));
        }));
        drop(turn);
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> StoreAnswer<T, L> {
    fn take_called(&mut self) -> Option<Called<T, L>> {
        let AnswerFrom::Store(called) = &mut self.from else { return None };
        called.take()
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Unpin for StoreAnswer<T, L> {}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Future for StoreAnswer<T, L> {
    type Output = TimedReply<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TimedReply<T>> {
        let this = self.get_mut();
        if this.made_in.is_another() {
            return Poll::Ready(Err(process::forked()));
        }
        if let AnswerFrom::Store(Some(called)) = &mut this.from {
            if !called.is_on_io_thread() {
                let said = ready!(called.poll(cx));
                this.take_called().into_iter().for_each(Called::drop_entered);
                return Poll::Ready(said);
            }
            if let Some(called) = this.take_called() {
                this.from = AnswerFrom::IoThread(called.carry_on());
            }
        }
        match &mut this.from {
            AnswerFrom::IoThread(answer) => {
                Pin::new(answer).poll(cx).map(|said| said.unwrap_or_else(|_| Err(ended())))
            }
            AnswerFrom::Store(_) => Poll::Ready(Err(ended())),
        }
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Drop for StoreAnswer<T, L> {
    /// Other commands wait for the end of its turn, and what it may still acquire must be released.
    fn drop(&mut self) {
        if self.made_in.is_another() {
            // The parent process has the command. A mutex may be locked by a thread that does not exist here.
            std::mem::forget(std::mem::replace(&mut self.from, AnswerFrom::Store(None)));
            return;
        }
        drop(self.take_called().map(Called::carry_on));
    }
}
