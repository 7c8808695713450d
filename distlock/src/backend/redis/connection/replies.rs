//! Assigns replies to the tasks that await them. Replies arrive in the order of the commands.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use redis::{RedisResult, Value};

/// The slot for the reply to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplySlot(usize);

/// The number of replies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    One,
    Several(usize),
}

impl Expected {
    pub(super) fn count(self) -> usize {
        match self {
            Expected::One => 1,
            Expected::Several(count) => count,
        }
    }
}

/// All replies to one request.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    One(Value),
    Several(Vec<Value>),
}

enum ReplyState {
    Free,
    /// `waker` belongs to the task that awaits the reply, as soon as that was polled.
    Awaited {
        expected: Expected,
        so_far: Vec<Value>,
        waker: Option<Waker>,
    },
    /// The request was dropped. This many of its replies must still be discarded.
    Unwanted {
        left: usize,
    },
    Ready(RedisResult<Reply>),
}

/// Slots are reused, so a request needs no separate memory.
#[derive(Default)]
pub(super) struct Replies {
    slots: Vec<ReplyState>,
    free: Vec<usize>,
    /// The slots of the requests that lack replies, in the order of the commands.
    order: VecDeque<usize>,
    /// The number of replies whose tasks were not polled since the reply arrived.
    untaken: usize,
}

impl Replies {
    pub(super) fn expect(&mut self, expected: Expected) -> ReplySlot {
        let so_far = match expected {
            Expected::One => Vec::new(),
            Expected::Several(count) => Vec::with_capacity(count),
        };
        let slot = ReplyState::Awaited { expected, so_far, waker: None };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(ReplyState::Free);
            self.slots.len() - 1
        });
        self.slots[index] = slot;
        if expected.count() == 0 {
            drop(self.ready(index, Ok(Reply::Several(Vec::new()))));
        } else {
            self.order.push_back(index);
        }
        ReplySlot(index)
    }

    fn ready(&mut self, index: usize, result: RedisResult<Reply>) -> Option<Waker> {
        match mem::replace(&mut self.slots[index], ReplyState::Ready(result)) {
            ReplyState::Awaited { waker, .. } => {
                self.untaken += 1;
                waker
            }
            ReplyState::Free | ReplyState::Unwanted { .. } | ReplyState::Ready(_) => {
                self.slots[index] = ReplyState::Free;
                self.free.push(index);
                None
            }
        }
    }

    /// The next reply has arrived. `false`: no request awaits a reply.
    pub(super) fn answer(&mut self, value: Value, woken: &mut Vec<Waker>) -> bool {
        let Some(&index) = self.order.front() else { return false };
        let reply = match &mut self.slots[index] {
            ReplyState::Awaited { expected: Expected::One, .. } => Some(Reply::One(value)),
            ReplyState::Awaited { expected: Expected::Several(count), so_far, .. } => {
                so_far.push(value);
                (so_far.len() >= *count).then(|| Reply::Several(mem::take(so_far)))
            }
            ReplyState::Unwanted { left } => {
                *left -= 1;
                (*left == 0).then_some(Reply::One(value))
            }
            // The order contains only slots of the other two kinds.
            ReplyState::Free | ReplyState::Ready(_) => None,
        };
        if let Some(reply) = reply {
            self.order.pop_front();
            woken.extend(self.ready(index, Ok(reply)));
        }
        true
    }

    /// Called by the task that awaits the reply. If it is not ready, it will wake `waker`, which then contains the
    /// former waker. That one must be dropped outside of the mutex, because it may be the last reference to a task.
    pub(super) fn poll(
        &mut self,
        ReplySlot(index): ReplySlot,
        waker: &mut Option<Waker>,
    ) -> Option<RedisResult<Reply>> {
        if let ReplyState::Awaited { waker: known, .. } = &mut self.slots[index] {
            mem::swap(known, waker);
            return None;
        }
        match mem::replace(&mut self.slots[index], ReplyState::Free) {
            ReplyState::Ready(result) => {
                self.free.push(index);
                self.untaken -= 1;
                Some(result)
            }
            other => {
                // The owner of the slot has already taken the reply.
                self.slots[index] = other;
                None
            }
        }
    }

    /// The request is dropped. The returned waker must be dropped outside of the mutex.
    pub(super) fn forget(&mut self, ReplySlot(index): ReplySlot) -> Option<Waker> {
        match mem::replace(&mut self.slots[index], ReplyState::Free) {
            ReplyState::Awaited { expected, so_far, waker } => {
                self.slots[index] = ReplyState::Unwanted { left: expected.count() - so_far.len() };
                waker
            }
            ReplyState::Ready(_) => {
                self.free.push(index);
                self.untaken -= 1;
                None
            }
            other => {
                self.slots[index] = other;
                None
            }
        }
    }

    /// No more replies will arrive. `error` creates the error for each request.
    pub(super) fn end(&mut self, mut error: impl FnMut() -> redis::RedisError, woken: &mut Vec<Waker>) {
        while let Some(index) = self.order.pop_front() {
            woken.extend(self.ready(index, Err(error())));
        }
    }

    /// The number of requests that lack replies.
    pub(super) fn in_flight(&self) -> usize {
        self.order.len()
    }

    /// The number of replies whose tasks must still run.
    pub(super) fn untaken(&self) -> usize {
        self.untaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::wakes::Wakes;

    fn answer(replies: &mut Replies, number: i64) -> bool {
        let mut woken = Vec::new();
        let asked = replies.answer(Value::Int(number), &mut woken);
        woken.into_iter().for_each(Waker::wake);
        asked
    }

    fn taken(replies: &mut Replies, slot: ReplySlot) -> Option<Reply> {
        replies.poll(slot, &mut None).map(Result::unwrap)
    }

    #[test]
    fn replies_go_to_requests_in_their_order_whenever_they_are_taken() {
        let mut replies = Replies::default();
        let first = replies.expect(Expected::One);
        let second = replies.expect(Expected::Several(2));
        let third = replies.expect(Expected::One);
        for number in 1..=3 {
            assert!(answer(&mut replies, number));
        }
        assert_eq!(taken(&mut replies, third), None);
        let several = Reply::Several(vec![Value::Int(2), Value::Int(3)]);
        assert_eq!(taken(&mut replies, second), Some(several));
        assert_eq!(replies.untaken(), 1);
        assert_eq!(taken(&mut replies, first), Some(Reply::One(Value::Int(1))));
        assert_eq!(replies.untaken(), 0);
        assert!(answer(&mut replies, 4));
        assert_eq!(taken(&mut replies, third), Some(Reply::One(Value::Int(4))));
        assert!(!answer(&mut replies, 5), "no request awaits it");
    }

    #[test]
    fn slots_are_used_again_but_not_before_all_their_replies_have_come() {
        let mut replies = Replies::default();
        let unwanted = replies.expect(Expected::Several(2));
        assert!(answer(&mut replies, 1));
        assert!(replies.forget(unwanted).is_none());
        let next = replies.expect(Expected::One);
        assert_ne!(next, unwanted);
        assert!(answer(&mut replies, 2));
        assert_eq!(taken(&mut replies, next), None, "that reply was the other request's");
        assert!(answer(&mut replies, 3));
        assert_eq!(taken(&mut replies, next), Some(Reply::One(Value::Int(3))));
        replies.expect(Expected::One);
        replies.expect(Expected::One);
        assert_eq!(replies.slots.len(), 2);
    }

    #[test]
    fn a_reply_that_is_not_taken_any_more_does_not_count_as_untaken() {
        let mut replies = Replies::default();
        let slot = replies.expect(Expected::One);
        assert!(answer(&mut replies, 1));
        assert_eq!(replies.untaken(), 1);
        assert!(replies.forget(slot).is_none());
        assert_eq!(replies.untaken(), 0);
    }

    #[test]
    fn the_last_waker_is_woken_once() {
        let (one, other) = (Wakes::default(), Wakes::default());
        let mut replies = Replies::default();
        let slot = replies.expect(Expected::One);
        for wakes in [&one, &other] {
            assert!(replies.poll(slot, &mut Some(wakes.waker())).is_none());
        }
        assert!(answer(&mut replies, 1));
        assert_eq!([&one, &other].map(Wakes::count), [0, 1]);
    }

    #[test]
    fn at_the_end_every_request_learns_why() {
        let mut replies = Replies::default();
        let slots = [Expected::One, Expected::Several(3)].map(|expected| replies.expect(expected));
        let gone = replies.expect(Expected::One);
        replies.forget(gone);
        replies.end(|| std::io::Error::from(std::io::ErrorKind::BrokenPipe).into(), &mut Vec::new());
        for slot in slots {
            assert!(matches!(replies.poll(slot, &mut None), Some(Err(_))));
        }
        assert_eq!(replies.untaken(), 0);
    }
}
