//! A command that its caller polls, so that no other thread is woken for it; and how the I/O thread, which is called
//! home here, takes it over.
//!
//! A caller may be dropped, and nobody promises that it is polled: its runtime may be blocked. Others wait for the
//! command's turn meanwhile. So home looks after all commands that are lent (see [`take_over`](crate::take_over)), and
//! carries on those that are older than a moment, as it does all others: with their time-out, and whatever becomes of
//! the caller. A store's future is polled by one of them at a time, with the runtime of the I/O thread entered, and
//! polled at once by who takes it over.

#[cfg(all(test, distlock_loom))]
mod loom_tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use super::command::{Submitted, Turn, failed, in_time};
use super::{ended, lock};
use crate::backend::{BoxFuture, ServerTime};
use crate::contained::{Panicked, contained};
use crate::process;
use crate::take_over::{Entry, Lendable, Lookout};
use distlock_store::StoreError;

/// What the store has said, and when it was asked.
pub(super) type Said<T> = Result<(T, ServerTime), StoreError>;

/// Where a command is. `W`: the command; `A`: its answer. No foreign code runs in these functions: wakers and commands
/// that are to be dropped are returned.
#[derive(Debug)]
enum Place<W, A> {
    /// Its caller has it, and does not poll it at this moment.
    Lent(W, Option<Waker>),
    /// Its caller polls it.
    Polled(Called),
    /// Home carries it out, and wakes this caller.
    Home(Option<Waker>),
    Answered(A),
    /// The answer was taken, or nobody wants it.
    Over,
}

/// What a caller that is polling has to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    Nothing,
    GoHome,
    /// Home has ended.
    End,
}

/// What a caller finds.
#[derive(Debug)]
enum Found<W, A> {
    /// It is to be polled now. With the waker of the last poll.
    Work(W, Option<Waker>),
    Answer(A),
    AtHome,
    Nothing,
}

/// What becomes of a command that was polled and is not ready.
#[derive(Debug)]
enum After<W> {
    Stays,
    GoesHome(W),
    Ends(W, Option<Waker>),
}

impl<W, A> Place<W, A> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Place::Over)
    }

    /// The caller is polled. [`Place::put_back`] or [`Place::ready`] follows if it gets the command. If that is at
    /// home, the former waker is left in `mine`.
    fn poll(&mut self, mine: &mut Option<Waker>) -> Found<W, A> {
        match self.take() {
            Place::Lent(work, waker) => {
                *self = Place::Polled(Called::Nothing);
                Found::Work(work, waker)
            }
            Place::Answered(answer) => Found::Answer(answer),
            Place::Home(former) => {
                *self = Place::Home(std::mem::replace(mine, former));
                Found::AtHome
            }
            Place::Polled(_) | Place::Over => Found::Nothing,
        }
    }

    fn put_back(&mut self, work: W, waker: Option<Waker>) -> After<W> {
        let (place, after) = match self.take() {
            Place::Polled(Called::GoHome) => (Place::Home(waker), After::GoesHome(work)),
            Place::Polled(Called::End) => (Place::Over, After::Ends(work, waker)),
            _ => (Place::Lent(work, waker), After::Stays),
        };
        *self = place;
        after
    }

    fn ready(&mut self) {
        *self = Place::Over;
    }

    /// Home wants it. Returns it if it is to be carried on now; a caller that polls it brings it.
    fn call_home(&mut self) -> Option<W> {
        match self.take() {
            Place::Lent(work, waker) => {
                *self = Place::Home(waker);
                Some(work)
            }
            Place::Polled(Called::Nothing) => {
                *self = Place::Polled(Called::GoHome);
                None
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// Home has the answer. Returns whom to wake, and the answer if nobody wants it.
    fn answer(&mut self, answer: A) -> (Option<Waker>, Option<A>) {
        match self.take() {
            Place::Home(waker) => {
                *self = Place::Answered(answer);
                (waker, None)
            }
            other => {
                *self = other;
                (None, Some(answer))
            }
        }
    }

    /// Home has ended. What it had itself is answered by whoever drops it.
    fn end(&mut self, answer: A) -> Option<(W, Option<Waker>)> {
        match self.take() {
            Place::Lent(work, waker) => {
                *self = Place::Answered(answer);
                Some((work, waker))
            }
            Place::Polled(_) => {
                *self = Place::Polled(Called::End);
                None
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// The caller is gone. What it had is to be carried on at home, all the rest is to be dropped.
    fn leave(&mut self) -> Self {
        self.take()
    }
}

/// A command under way.
struct Work<T, L> {
    call: BoxFuture<Result<T, StoreError>>,
    turn: Turn,
    late: L,
}

/// What a caller and home share.
pub(super) struct Lent<T, L> {
    place: Mutex<Place<Work<T, L>, Said<T>>>,
    home: Handle,
    submitted: Submitted,
    asked: ServerTime,
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Lent<T, L> {
    /// Home carries it on.
    fn carry_on(self: Arc<Self>, work: Work<T, L>) {
        let Work { call, turn, late } = work;
        let left = self.submitted.left();
        let home = self.home.clone();
        let teller = Teller(Some(self));
        let carried_on = in_time(call, left, turn, move |said| teller.tell(said), late);
        // At the end of the runtime the command is dropped here, and the teller with it.
        drop(contained(|| home.spawn(carried_on)));
    }

    /// With the runtime that the store counts on.
    fn at_home<O>(&self, work: impl FnOnce() -> O) -> Result<O, Panicked> {
        contained(|| {
            let _entered = self.home.enter();
            work()
        })
    }

    fn answer(&self, said: Said<T>) {
        let (waker, unwanted) = lock(&self.place).answer(said);
        drop(unwanted);
        wake(waker);
    }

    fn drop_work(&self, work: Work<T, L>) {
        let Work { call, turn, late } = work;
        drop(self.at_home(move || drop((call, late))));
        drop(turn);
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Lendable for Lent<T, L> {
    fn call_home(self: Arc<Self>) {
        let work = lock(&self.place).call_home();
        if let Some(work) = work {
            self.carry_on(work);
        }
    }

    fn end(&self) {
        let lent = lock(&self.place).end(Err(ended()));
        if let Some((work, waker)) = lent {
            self.drop_work(work);
            wake(waker);
        }
    }
}

/// A waker is foreign code.
fn wake(waker: Option<Waker>) {
    drop(contained(|| waker.map(Waker::wake)));
}

/// Tells the caller, in any case: also if the runtime ends, and drops the command.
struct Teller<T: Send + 'static, L: FnOnce(T) + Send + 'static>(Option<Arc<Lent<T, L>>>);

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Teller<T, L> {
    fn tell(mut self, said: Result<T, StoreError>) {
        if let Some(lent) = self.0.take() {
            lent.answer(said.map(|said| (said, lent.asked)));
        }
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Drop for Teller<T, L> {
    fn drop(&mut self) {
        if let Some(lent) = self.0.take() {
            lent.answer(Err(ended()));
        }
    }
}

/// The caller's end. If it is dropped before the answer, home carries the command on.
pub(super) struct Loan<T: Send + 'static, L: FnOnce(T) + Send + 'static> {
    lent: Arc<Lent<T, L>>,
    lookout: Arc<Lookout>,
    entry: Entry,
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Loan<T, L> {
    /// `Err`: home has ended.
    pub(super) fn new(
        (call, late): (BoxFuture<Result<T, StoreError>>, L),
        turn: Turn,
        (submitted, asked): (Submitted, ServerTime),
        (home, lookout): (Handle, &Arc<Lookout>),
    ) -> Result<Self, StoreError> {
        let place = Mutex::new(Place::Lent(Work { call, turn, late }, None));
        let lent = Arc::new(Lent { place, home, submitted, asked });
        let entry = lookout.keep(lent.clone()).ok_or_else(ended)?;
        Ok(Loan { lent, lookout: lookout.clone(), entry })
    }

    fn poll_work(
        &self,
        mut work: Work<T, L>,
        mine: Option<Waker>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, StoreError>> {
        let said = match self.lent.at_home(|| work.call.as_mut().poll(cx)) {
            Ok(Poll::Pending) => {
                let after = lock(&self.lent.place).put_back(work, mine);
                match after {
                    After::Stays => return Poll::Pending,
                    After::GoesHome(work) => {
                        self.lent.clone().carry_on(work);
                        return Poll::Pending;
                    }
                    After::Ends(work, mine) => {
                        drop(contained(|| drop(mine)));
                        self.lent.drop_work(work);
                        return Poll::Ready(Err(ended()));
                    }
                }
            }
            Ok(Poll::Ready(said)) => Ok(said),
            Err(panicked) => Err(panicked),
        };
        lock(&self.lent.place).ready();
        self.lookout.forget(self.entry);
        self.lent.drop_work(work);
        Poll::Ready(failed(said))
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Future for Loan<T, L> {
    type Output = Said<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Said<T>> {
        if self.lookout.made_in.is_another() {
            return Poll::Ready(Err(process::forked()));
        }
        // Before the command is in hand: a waker is foreign code, and may panic.
        let mut mine = Some(cx.waker().clone());
        let found = lock(&self.lent.place).poll(&mut mine);
        match found {
            Found::Work(work, former) => {
                drop(contained(|| drop(former)));
                let asked = self.lent.asked;
                self.poll_work(work, mine, cx).map(|said| said.map(|said| (said, asked)))
            }
            Found::Answer(answer) => Poll::Ready(answer),
            Found::AtHome => Poll::Pending,
            Found::Nothing => Poll::Ready(Err(ended())),
        }
    }
}

impl<T: Send + 'static, L: FnOnce(T) + Send + 'static> Drop for Loan<T, L> {
    fn drop(&mut self) {
        if self.lookout.made_in.is_another() {
            // The parent process has the command. A mutex may be locked by a thread that does not exist here.
            return;
        }
        let left = lock(&self.lent.place).leave();
        self.lookout.forget(self.entry);
        match left {
            Place::Lent(work, waker) => {
                drop(contained(|| drop(waker)));
                self.lent.clone().carry_on(work);
            }
            Place::Home(waker) => drop(contained(|| drop(waker))),
            Place::Polled(_) | Place::Answered(_) | Place::Over => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tried = Place<&'static str, u32>;

    fn waker() -> Option<Waker> {
        Some(Waker::noop().clone())
    }

    fn polled() -> Tried {
        let mut place = Tried::Lent("work", None);
        assert!(matches!(place.poll(&mut waker()), Found::Work("work", None)));
        place
    }

    fn at_home() -> Tried {
        let mut place = Tried::Lent("work", waker());
        assert_eq!(place.call_home(), Some("work"));
        place
    }

    #[test]
    fn a_caller_that_is_not_done_keeps_its_command() {
        let mut place = polled();
        assert!(matches!(place.put_back("work", waker()), After::Stays));
        assert!(matches!(place.poll(&mut waker()), Found::Work("work", Some(_))));
        place.ready();
        assert!(matches!(place.poll(&mut waker()), Found::Nothing));
    }

    #[test]
    fn a_command_that_is_called_home_while_it_is_polled_goes_there_then() {
        let mut place = polled();
        assert_eq!(place.call_home(), None);
        assert_eq!(place.call_home(), None, "once is enough");
        assert!(matches!(place.put_back("work", waker()), After::GoesHome("work")));
        assert!(matches!(place.answer(7), (Some(_), None)));
        assert!(matches!(place.poll(&mut waker()), Found::Answer(7)));
        assert!(matches!(place.poll(&mut waker()), Found::Nothing));
    }

    #[test]
    fn a_command_that_was_called_home_while_it_became_ready_is_answered_by_its_caller() {
        let mut place = polled();
        assert_eq!(place.call_home(), None);
        place.ready();
        assert_eq!(place.call_home(), None);
        assert!(matches!(place.answer(7), (None, Some(7))));
    }

    #[test]
    fn a_command_is_taken_home_once_and_its_caller_is_woken() {
        let mut place = at_home();
        assert_eq!(place.call_home(), None);
        let mut mine = None;
        assert!(matches!(place.poll(&mut mine), Found::AtHome));
        assert!(mine.is_some(), "the former one, to be dropped");
        assert!(matches!(place.poll(&mut waker()), Found::AtHome));
        assert!(matches!(place.answer(7), (Some(_), None)));
        assert!(matches!(place.poll(&mut waker()), Found::Answer(7)));
    }

    #[test]
    fn a_caller_that_leaves_gives_its_command_back_and_is_not_told() {
        let mut place = Tried::Lent("work", None);
        assert!(matches!(place.leave(), Place::Lent("work", None)));
        assert_eq!(place.call_home(), None);
        let mut place = at_home();
        assert!(matches!(place.leave(), Place::Home(Some(_))));
        assert!(matches!(place.answer(7), (None, Some(7))));
    }

    #[test]
    fn every_caller_learns_of_the_end() {
        let mut place = Tried::Lent("work", waker());
        assert!(matches!(place.end(0), Some(("work", Some(_)))));
        assert!(matches!(place.poll(&mut waker()), Found::Answer(0)));
        let mut place = polled();
        assert!(place.end(0).is_none());
        assert!(matches!(place.put_back("work", waker()), After::Ends("work", Some(_))));
        // Whoever drops it at home answers.
        let mut place = at_home();
        assert!(place.end(0).is_none());
        assert!(matches!(place.answer(1), (Some(_), None)));
    }

    /// Called home by one, and by the end, while a third polls.
    #[test]
    fn the_end_comes_before_the_way_home() {
        let mut place = polled();
        assert_eq!(place.call_home(), None);
        assert!(place.end(0).is_none());
        assert!(matches!(place.put_back("work", waker()), After::Ends("work", Some(_))));
    }
}
