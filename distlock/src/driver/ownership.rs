//! The owner of a command in flight. At first, this is its caller, which polls the command so that no other thread is
//! woken. If the reply takes longer than a moment, the I/O thread takes the command over. The reason is that a caller
//! may not be polled because its runtime is blocked, and others may wait for the reply. A command whose caller was
//! dropped gets another caller: see [`unawaited`](super::unawaited).

#[cfg(all(test, distlock_loom))]
mod loom_tests;

use std::task::Waker;

/// The present owner of a command. `W` is the command, and `A` its answer. No foreign code runs in these functions, so
/// wakers and commands to drop are returned.
#[derive(Debug)]
pub(super) enum Ownership<W, A> {
    /// Its caller has it, and is not polling it.
    WithCaller(W, Option<Waker>),
    /// Its caller is polling it.
    Polled(CallerAction),
    /// The I/O thread awaits the reply, and then wakes this caller.
    WithIoThread(Option<Waker>),
    Answered(A),
    /// The answer was taken.
    Over,
}

/// The next step of the caller after its poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerAction {
    Nothing,
    TakeOver,
    /// The I/O thread has ended.
    End,
}

/// The result for a caller that polls.
#[derive(Debug)]
pub(super) enum Found<W, A> {
    /// The caller must poll the command now. Contains the waker of the last poll.
    Work(W, Option<Waker>),
    Answer(A),
    WithIoThread,
    Nothing,
}

/// The next step for a command that was polled and is not ready.
#[derive(Debug)]
pub(super) enum After<W> {
    Stays,
    TakenOver(W),
    Ends(W, Option<Waker>),
}

impl<W, A> Ownership<W, A> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Ownership::Over)
    }

    /// The caller is polled. If it gets the command, [`Ownership::put_back`] or [`Ownership::ready`] follows. If the
    /// I/O thread has the command, `mine` then contains the former waker.
    pub(super) fn poll(&mut self, mine: &mut Option<Waker>) -> Found<W, A> {
        match self.take() {
            Ownership::WithCaller(work, waker) => {
                *self = Ownership::Polled(CallerAction::Nothing);
                Found::Work(work, waker)
            }
            Ownership::Answered(answer) => Found::Answer(answer),
            Ownership::WithIoThread(former) => {
                *self = Ownership::WithIoThread(std::mem::replace(mine, former));
                Found::WithIoThread
            }
            Ownership::Polled(_) | Ownership::Over => Found::Nothing,
        }
    }

    pub(super) fn put_back(&mut self, work: W, waker: Option<Waker>) -> After<W> {
        let (ownership, after) = match self.take() {
            Ownership::Polled(CallerAction::TakeOver) => {
                (Ownership::WithIoThread(waker), After::TakenOver(work))
            }
            Ownership::Polled(CallerAction::End) => (Ownership::Over, After::Ends(work, waker)),
            _ => (Ownership::WithCaller(work, waker), After::Stays),
        };
        *self = ownership;
        after
    }

    pub(super) fn ready(&mut self) {
        *self = Ownership::Over;
    }

    /// The I/O thread takes the command over. Returns the command if this is possible now. A caller that is polling it
    /// passes it on after its poll.
    pub(super) fn take_over(&mut self) -> Option<W> {
        match self.take() {
            Ownership::WithCaller(work, waker) => {
                *self = Ownership::WithIoThread(waker);
                Some(work)
            }
            Ownership::Polled(CallerAction::Nothing) => {
                *self = Ownership::Polled(CallerAction::TakeOver);
                None
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// The I/O thread has the answer. Returns the waker of the caller, or the answer if it comes too late.
    pub(super) fn answer(&mut self, answer: A) -> (Option<Waker>, Option<A>) {
        match self.take() {
            Ownership::WithIoThread(waker) => {
                *self = Ownership::Answered(answer);
                (waker, None)
            }
            other => {
                *self = other;
                (None, Some(answer))
            }
        }
    }

    /// The I/O thread has ended. If it had the command, the drop of the command answers.
    pub(super) fn end(&mut self, answer: A) -> Option<(W, Option<Waker>)> {
        match self.take() {
            Ownership::WithCaller(work, waker) => {
                *self = Ownership::Answered(answer);
                Some((work, waker))
            }
            Ownership::Polled(_) => {
                *self = Ownership::Polled(CallerAction::End);
                None
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tried = Ownership<&'static str, u32>;

    fn waker() -> Option<Waker> {
        Some(Waker::noop().clone())
    }

    fn polled() -> Tried {
        let mut ownership = Tried::WithCaller("work", None);
        assert!(matches!(ownership.poll(&mut waker()), Found::Work("work", None)));
        ownership
    }

    fn with_io_thread() -> Tried {
        let mut ownership = Tried::WithCaller("work", waker());
        assert_eq!(ownership.take_over(), Some("work"));
        ownership
    }

    #[test]
    fn a_caller_that_is_not_done_keeps_its_command() {
        let mut ownership = polled();
        assert!(matches!(ownership.put_back("work", waker()), After::Stays));
        assert!(matches!(ownership.poll(&mut waker()), Found::Work("work", Some(_))));
        ownership.ready();
        assert!(matches!(ownership.poll(&mut waker()), Found::Nothing));
    }

    #[test]
    fn a_command_that_is_taken_over_while_it_is_polled_goes_then() {
        let mut ownership = polled();
        assert_eq!(ownership.take_over(), None);
        assert_eq!(ownership.take_over(), None, "once is enough");
        assert!(matches!(ownership.put_back("work", waker()), After::TakenOver("work")));
        assert!(matches!(ownership.answer(7), (Some(_), None)));
        assert!(matches!(ownership.poll(&mut waker()), Found::Answer(7)));
        assert!(matches!(ownership.poll(&mut waker()), Found::Nothing));
    }

    #[test]
    fn a_command_that_became_ready_while_it_was_taken_over_stays_with_its_caller() {
        let mut ownership = polled();
        assert_eq!(ownership.take_over(), None);
        ownership.ready();
        assert_eq!(ownership.take_over(), None);
        assert!(matches!(ownership.answer(7), (None, Some(7))));
    }

    #[test]
    fn a_command_is_taken_over_once_and_its_caller_is_woken() {
        let mut ownership = with_io_thread();
        assert_eq!(ownership.take_over(), None);
        let mut mine = None;
        assert!(matches!(ownership.poll(&mut mine), Found::WithIoThread));
        assert!(mine.is_some(), "the former one, to be dropped");
        assert!(matches!(ownership.poll(&mut waker()), Found::WithIoThread));
        assert!(matches!(ownership.answer(7), (Some(_), None)));
        assert!(matches!(ownership.poll(&mut waker()), Found::Answer(7)));
    }

    #[test]
    fn every_caller_learns_of_the_end() {
        let mut ownership = Tried::WithCaller("work", waker());
        assert!(matches!(ownership.end(0), Some(("work", Some(_)))));
        assert!(matches!(ownership.poll(&mut waker()), Found::Answer(0)));
        let mut ownership = polled();
        assert!(ownership.end(0).is_none());
        assert!(matches!(ownership.put_back("work", waker()), After::Ends("work", Some(_))));
        // The drop on the I/O thread answers.
        let mut ownership = with_io_thread();
        assert!(ownership.end(0).is_none());
        assert!(matches!(ownership.answer(1), (Some(_), None)));
    }

    /// Both happen while the command is being polled.
    #[test]
    fn the_end_comes_before_the_take_over() {
        let mut ownership = polled();
        assert_eq!(ownership.take_over(), None);
        assert!(ownership.end(0).is_none());
        assert!(matches!(ownership.put_back("work", waker()), After::Ends("work", Some(_))));
    }
}
