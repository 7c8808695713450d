//! The stage of a command that no caller awaits. Several threads may poll it, but only one at a time.

/// `W` is the command. No foreign code runs in these functions, so commands to drop are returned.
#[derive(Debug)]
pub(in crate::driver) enum Stage<W> {
    Waits(W),
    /// A thread is polling it.
    Polled(SinceThen),
    Over,
}

/// What has happened since the poll began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum SinceThen {
    Nothing,
    Woken,
    /// The I/O thread has ended.
    Ended,
}

/// The next step after a poll without a reply.
#[derive(Debug)]
pub(in crate::driver) enum Next<W> {
    Wait,
    PollAgain,
    Drop(W),
}

impl<W> Stage<W> {
    /// `None`: another thread is polling it and will do so again, or it is over.
    pub(in crate::driver) fn begin_poll(&mut self) -> Option<W> {
        let (next, work) = match std::mem::replace(self, Stage::Over) {
            Stage::Waits(work) => (Stage::Polled(SinceThen::Nothing), Some(work)),
            Stage::Polled(SinceThen::Nothing) => (Stage::Polled(SinceThen::Woken), None),
            other => (other, None),
        };
        *self = next;
        work
    }

    /// The command is done.
    pub(in crate::driver) fn ready(&mut self) {
        *self = Stage::Over;
    }

    /// The command is not done.
    pub(in crate::driver) fn put_back(&mut self, work: W) -> Next<W> {
        let (stage, next) = match std::mem::replace(self, Stage::Over) {
            Stage::Polled(SinceThen::Nothing) => (Stage::Waits(work), Next::Wait),
            Stage::Polled(SinceThen::Woken) => (Stage::Waits(work), Next::PollAgain),
            Stage::Polled(SinceThen::Ended) | Stage::Waits(_) | Stage::Over => {
                (Stage::Over, Next::Drop(work))
            }
        };
        *self = stage;
        next
    }

    /// The I/O thread has ended. A thread that is polling the command drops it after its poll.
    pub(in crate::driver) fn end(&mut self) -> Option<W> {
        match std::mem::replace(self, Stage::Over) {
            Stage::Waits(work) => Some(work),
            Stage::Polled(_) => {
                *self = Stage::Polled(SinceThen::Ended);
                None
            }
            Stage::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled() -> Stage<&'static str> {
        let mut stage = Stage::Waits("work");
        assert_eq!(stage.begin_poll(), Some("work"));
        stage
    }

    #[test]
    fn a_command_that_is_not_done_waits_for_the_next_poll() {
        let mut stage = polled();
        assert!(matches!(stage.put_back("work"), Next::Wait));
        assert_eq!(stage.begin_poll(), Some("work"));
        stage.ready();
        assert_eq!(stage.begin_poll(), None);
    }

    #[test]
    fn a_command_that_is_woken_while_it_is_polled_is_polled_again() {
        let mut stage = polled();
        assert_eq!([stage.begin_poll(), stage.begin_poll()], [None; 2]);
        assert!(matches!(stage.put_back("work"), Next::PollAgain));
        assert_eq!(stage.begin_poll(), Some("work"));
        assert!(matches!(stage.put_back("work"), Next::Wait));
    }

    #[test]
    fn the_end_takes_a_command_that_waits_and_one_that_is_polled() {
        let mut stage = Stage::Waits("work");
        assert_eq!([stage.end(), stage.end()], [Some("work"), None]);
        let mut stage = polled();
        assert_eq!(stage.end(), None);
        assert_eq!(stage.begin_poll(), None, "the end is not forgotten");
        assert!(matches!(stage.put_back("work"), Next::Drop("work")));
        assert_eq!(stage.begin_poll(), None);
    }
}
