//! The answer to one request. Any thread sends it once, to the task that awaits it.
//!
//! Nearly every request is answered by the reply to its own command, that is, by its own task while it is polled. A
//! general channel would wake the task although it is running. Its runtime would queue the task once more, and wake
//! another thread for it. So a task takes its waker back before any step that may answer its request: see
//! [`AnswerReceiver::pause`].

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use distlock_store::kit::sync::Locked;

/// Sends the answer.
#[derive(Debug)]
pub(crate) struct AnswerSender<T>(Arc<Locked<State<T>>>);

/// Awaits the answer. If this is dropped, the sender gets the answer back.
#[derive(Debug)]
pub(crate) struct AnswerReceiver<T>(Arc<Locked<State<T>>>);

#[derive(Debug)]
enum State<T> {
    /// `Some`: the answer wakes this task.
    Awaited(Option<Waker>),
    Given(T),
    /// The answer was taken, will never be sent, or is no longer wanted.
    Over,
}

/// The answer will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

pub(crate) fn answer<T>() -> (AnswerSender<T>, AnswerReceiver<T>) {
    let state = Arc::new(Locked::new(State::Awaited(None)));
    (AnswerSender(Arc::clone(&state)), AnswerReceiver(state))
}

impl<T> AnswerSender<T> {
    /// Sends the answer. Returns it if the receiver was dropped.
    pub(crate) fn give(self, answer: T) -> Result<(), T> {
        self.end(State::Given(answer)).map_or(Ok(()), Err)
    }

    /// Ends the state, and returns the answer if it could not be delivered.
    fn end(&self, last: State<T>) -> Option<T> {
        let mut state = self.0.lock();
        let State::Awaited(waker) = &mut *state else {
            return match last {
                State::Given(answer) => Some(answer),
                State::Awaited(_) | State::Over => None,
            };
        };
        let waker = waker.take();
        *state = last;
        drop(state);
        // A waker is foreign code, which may panic. The driver contains the panics of each effect.
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }
}

impl<T> Drop for AnswerSender<T> {
    fn drop(&mut self) {
        self.end(State::Over);
    }
}

impl<T> AnswerReceiver<T> {
    /// Called while the task runs, which needs no wake-up before its next poll.
    pub(crate) fn pause(&mut self) {
        let former = match &mut *self.0.lock() {
            State::Awaited(waker) => waker.take(),
            State::Given(_) | State::Over => None,
        };
        drop(former);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, NoAnswer>> {
        // A waker is neither cloned nor dropped while the mutex is held, because it is foreign code.
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        if let State::Awaited(known) = &mut *state {
            let former = known.replace(waker);
            drop(state);
            drop(former);
            return Poll::Pending;
        }
        drop(state);
        self.now().map_or(Poll::Pending, Poll::Ready)
    }

    /// The answer, if it has arrived.
    pub(crate) fn now(&mut self) -> Option<Result<T, NoAnswer>> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Given(answer) => Some(Ok(answer)),
            State::Over => Some(Err(NoAnswer)),
            awaited @ State::Awaited(_) => {
                *state = awaited;
                None
            }
        }
    }

    /// Whether the answer is still missing.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.0.lock(), State::Awaited(_))
    }

    /// From now on, no answer can be sent, and no task is woken. Drops an answer that was sent and not taken.
    pub(crate) fn close(&mut self) {
        let last = std::mem::replace(&mut *self.0.lock(), State::Over);
        drop(last);
    }

    /// For a forked process. The answer belongs to the parent, and the mutex may be locked by a thread that does not
    /// exist here. So the protected data is never freed here.
    pub(crate) fn leave_to_parent(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.0, Arc::new(Locked::new(State::Over))));
    }
}

impl<T> Drop for AnswerReceiver<T> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::wakes::Wakes;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Task(Wakes);

    impl Task {
        fn poll<T>(&self, awaited: &mut AnswerReceiver<T>) -> Poll<Result<T, NoAnswer>> {
            awaited.poll(&mut Context::from_waker(&self.0.waker()))
        }

        fn wakes(&self) -> usize {
            self.0.count()
        }
    }

    #[test]
    fn a_task_is_woken_by_its_answer() {
        let task = Task::default();
        let (answer, mut awaited) = answer();
        assert!(task.poll(&mut awaited).is_pending());
        assert!(awaited.is_open());
        assert_eq!(answer.give(7), Ok(()));
        assert!(!awaited.is_open());
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll(&mut awaited), Poll::Ready(Ok(7)));
    }

    #[test]
    fn a_task_that_runs_is_not_woken() {
        let task = Task::default();
        let (answer, mut awaited) = answer();
        assert!(task.poll(&mut awaited).is_pending());
        awaited.pause();
        answer.give(7).unwrap();
        assert_eq!(task.poll(&mut awaited), Poll::Ready(Ok(7)));
        assert_eq!(task.wakes(), 0);
    }

    #[test]
    fn a_task_that_has_paused_is_woken_after_its_next_poll() {
        let task = Task::default();
        let (answer, mut awaited) = answer();
        assert!(task.poll(&mut awaited).is_pending());
        awaited.pause();
        assert!(task.poll(&mut awaited).is_pending());
        answer.give(7).unwrap();
        assert_eq!(task.wakes(), 1);
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken() {
        let tasks = [Task::default(), Task::default()];
        let (answer, mut awaited) = answer();
        for task in &tasks {
            assert!(task.poll(&mut awaited).is_pending());
            awaited.pause();
        }
        assert!(tasks[0].poll(&mut awaited).is_pending());
        assert!(tasks[1].poll(&mut awaited).is_pending());
        answer.give(7).unwrap();
        assert_eq!(tasks.map(|task| task.wakes()), [0, 1]);
    }

    #[test]
    fn an_answer_that_nobody_wants_goes_back() {
        let (answer, awaited) = answer();
        drop(awaited);
        assert_eq!(answer.give(7), Err(7));
    }

    #[test]
    fn a_request_learns_that_no_answer_will_come() {
        let task = Task::default();
        let (answer, mut awaited) = answer::<u8>();
        assert!(task.poll(&mut awaited).is_pending());
        drop(answer);
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll(&mut awaited), Poll::Ready(Err(NoAnswer)));
    }

    /// A fork copies the mutex in its present state, locked or not.
    #[test]
    fn a_forked_process_does_not_wait_for_a_mutex_that_nobody_gives_back() {
        let (answer, mut awaited) = answer::<u8>();
        let held_by_the_parent = answer.0.lock();
        awaited.leave_to_parent();
        drop(awaited);
        drop(held_by_the_parent);
    }

    #[test]
    fn nobody_is_woken_after_the_request_was_closed() {
        let task = Task::default();
        let (answer, mut awaited) = answer::<u8>();
        assert!(task.poll(&mut awaited).is_pending());
        awaited.close();
        drop(answer);
        assert_eq!(task.wakes(), 0);
    }
}
