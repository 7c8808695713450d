//! Tasks that wait for the end of a hold or a command.
//!
//! A waker is foreign code. event-listener calls wakers while the mutex of its list is locked. A waker that polls or
//! drops its future at once would lock the mutex again, and the thread would wait for itself. A panic would leave the
//! list half woken. So the wakers are called after the mutex was unlocked, and their panics are contained.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use event_listener::{Event, EventListener, Listener};

use crate::contained::contained;

/// The tasks that wait for an event.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Event);

impl Listeners {
    /// Notifies all of them.
    pub(crate) fn notify(&self) {
        deferring(|| {
            self.0.notify(usize::MAX);
        });
    }

    /// Becomes ready at the next notification. Create it, then check the condition, then wait.
    pub(crate) fn listen(&self) -> Listening {
        Listening { listener: Some(self.0.listen()), waker: None }
    }
}

/// Waits for one notification.
pub(crate) struct Listening {
    listener: Option<EventListener>,
    /// The waker of the last poll, and the one that the list has instead of it.
    waker: Option<(Waker, Waker)>,
}

impl Listening {
    /// Must not be polled again after it was ready.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(listener) = &mut self.listener else { return Poll::Ready(()) };
        let former = self.waker.take_if(|(waker, _)| !waker.will_wake(cx.waker()));
        let made = || (cx.waker().clone(), Waker::from(Arc::new(DeferredWaker(cx.waker().clone()))));
        let (_, waker) = self.waker.get_or_insert_with(made);
        let polled = Pin::new(listener).poll(&mut Context::from_waker(waker));
        // The list no longer has it, so that it is dropped here and not under the mutex.
        drop(former);
        polled
    }

    /// Blocks this thread. `false`: there was no notification until then.
    pub(crate) fn wait_deadline(mut self, until: Instant) -> bool {
        let mut notified = true;
        // If it was notified too late, the list notifies the next listener.
        deferring(|| notified = self.listener.take().is_none_or(|it| it.wait_deadline(until).is_some()));
        notified
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // If it was notified and not polled, the list notifies the next listener.
        deferring(|| drop(self.listener.take()));
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

thread_local! {
    /// `Some`: this thread may have locked the mutex of a list. The wakers that are to be called after that.
    static DEFERRED: RefCell<Option<Vec<Arc<DeferredWaker>>>> = const { RefCell::new(None) };
}

/// Calls the list of an event, and after that the wakers that it called.
fn deferring(call: impl FnOnce()) {
    let _deferring = Deferring(replace_deferred(Some(Vec::new())));
    call();
}

/// Dropped after the call, also if it panics. Contains the value of an outer call.
struct Deferring(Option<Vec<Arc<DeferredWaker>>>);

impl Drop for Deferring {
    fn drop(&mut self) {
        let called = replace_deferred(self.0.take());
        called.into_iter().flatten().for_each(|waker| waker.call());
    }
}

/// `None` at the end of the thread, when its wakers are no longer deferred.
fn replace_deferred(wakers: Option<Vec<Arc<DeferredWaker>>>) -> Option<Vec<Arc<DeferredWaker>>> {
    DEFERRED.try_with(|deferred| deferred.replace(wakers)).unwrap_or_default()
}

struct DeferredWaker(Waker);

impl DeferredWaker {
    fn call(&self) {
        // The panic hook has reported it. Its consequences for the task are the concern of the program.
        drop(contained(|| self.0.wake_by_ref()));
    }
}

impl Wake for DeferredWaker {
    fn wake(self: Arc<Self>) {
        let mut waker = Some(self);
        // Fails at the end of the thread only.
        let _: Result<(), _> = DEFERRED.try_with(|deferred| {
            if let Some(deferred) = &mut *deferred.borrow_mut() {
                deferred.extend(waker.take());
            }
        });
        if let Some(waker) = waker {
            waker.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use distlock_store::kit::sync::Locked;

    use super::*;
    use crate::simulation::wakes::Wakes;

    type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn poll(listening: &mut Listening, waker: &Waker) -> Poll<()> {
        listening.poll(&mut Context::from_waker(waker))
    }

    /// An executor that ends tasks, or runs them, where they are woken.
    struct Inline {
        polls: bool,
        task: Locked<Option<Task>>,
    }

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let task = self.task.lock().take();
            if let (Some(mut task), true) = (task, self.polls) {
                assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
            }
        }
    }

    /// On a thread, because one that waits for its own mutex does not end.
    #[track_caller]
    fn ends(work: impl FnOnce() + Send + 'static) {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            work();
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(20)).expect("the mutex is not locked");
    }

    #[test]
    fn a_waker_may_poll_or_drop_the_future_that_it_wakes() {
        for polls in [false, true] {
            let listeners = Listeners::default();
            let mut listening = listeners.listen();
            let mut task: Task = Box::pin(async move { poll_fn(|cx| listening.poll(cx)).await });
            let inline = Arc::new(Inline { polls, task: Locked::new(None) });
            let waker = Waker::from(inline.clone());
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            *inline.task.lock() = Some(task);
            ends(move || listeners.notify());
            assert!(inline.task.lock().is_none(), "it was woken");
        }
    }

    #[test]
    fn so_may_one_that_is_woken_because_another_future_was_dropped() {
        let listeners = Listeners::default();
        let mut first = listeners.listen();
        assert!(poll(&mut first, Waker::noop()).is_pending());
        listeners.notify();
        let mut second = listeners.listen();
        let mut task: Task = Box::pin(async move { poll_fn(|cx| second.poll(cx)).await });
        let inline = Arc::new(Inline { polls: false, task: Locked::new(None) });
        let waker = Waker::from(inline.clone());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *inline.task.lock() = Some(task);
        ends(move || drop(first));
        assert!(inline.task.lock().is_none(), "it was woken");
    }

    #[test]
    fn the_waker_of_the_last_poll_is_called_once() {
        let listeners = Listeners::default();
        let mut listening = listeners.listen();
        let wakes = [Wakes::default(), Wakes::default()];
        for waker in [&wakes[0], &wakes[1], &wakes[1]] {
            assert!(poll(&mut listening, &waker.waker()).is_pending());
        }
        listeners.notify();
        listeners.notify();
        assert_eq!(wakes.each_ref().map(Wakes::count), [0, 1]);
        assert!(poll(&mut listening, &wakes[1].waker()).is_ready());
    }
}
