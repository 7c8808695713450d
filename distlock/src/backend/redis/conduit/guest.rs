//! The guest that reads for a while, and home, which looks after it meanwhile. Who reads when: see
//! [`Lending`](super::lending::Lending).
//!
//! Rule: the connection changes its runtime, and with it its reader, only while the mutex of the socket is
//! held.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use redis::RedisResult;
use tokio::runtime::{Handle, Id};
use tokio::time::{MissedTickBehavior, interval};

use super::lending::{Asked, Inbox, TICK, Visit};
use super::on_ready::OnReady;
use super::{Conduit, Queue, broken};
use crate::contained::contained;
use distlock_store::clock;

/// Not where a socket belongs to its runtime for good, and not where a runtime without an I/O driver, which tokio tells
/// of by a panic alone, would end the process.
const LENDS: bool = cfg!(unix) && cfg!(panic = "unwind");

/// Runtimes of which the program has said that they have an I/O driver. There is no way to ask a runtime: tokio panics
/// if a socket is registered with one that has none, and a panic that is caught has run the program's panic hook, which
/// may end the process. So no other runtime is invited.
static WITH_IO: Mutex<Vec<Id>> = Mutex::new(Vec::new());
/// So many of them are remembered: the latest. A program has few.
const MOST_WITH_IO: usize = 64;

/// The current runtime, if there is one, has an I/O driver.
pub(crate) fn this_runtime_has_io() {
    let Ok(here) = Handle::try_current() else { return };
    let mut known = WITH_IO.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains(&here.id()) {
        if known.len() >= MOST_WITH_IO {
            known.remove(0);
        }
        known.push(here.id());
    }
}

fn has_io(runtime: Id) -> bool {
    WITH_IO.lock().unwrap_or_else(PoisonError::into_inner).contains(&runtime)
}

/// A change of readers that the sender of a request has to make.
pub(super) enum Change {
    Invite(Visit, Handle),
    CallHome,
}

impl Queue {
    /// For a request that is sent on this thread.
    pub(super) fn change_of_reader(&mut self) -> Option<Change> {
        let mut host = None;
        let (home, under_way) = (self.home_runtime, self.replies.under_way());
        let asked = self.lending.asked(under_way, || {
            let here = Handle::try_current().ok()?;
            let id = here.id();
            host = Some(here);
            (LENDS && home != Some(id)).then_some(id)
        });
        match asked {
            Asked::Nothing => None,
            Asked::Invite(visit) => match host.filter(|host| has_io(host.id())) {
                Some(host) => Some(Change::Invite(visit, host)),
                None => {
                    // It is asked again after a second, and then less and less often.
                    self.lending.left(visit);
                    None
                }
            },
            Asked::CallHome => Some(Change::CallHome),
        }
    }
}

impl Conduit {
    /// What a request has found that it sent on this thread.
    pub(super) fn make(self: &Arc<Self>, change: Change) {
        match change {
            Change::Invite(visit, host) => {
                let stay = Stay { conduit: Arc::clone(self), visit };
                // If the runtime ends already, this drops the stay.
                drop(host.spawn(stay.read()));
            }
            Change::CallHome => self.call_home(),
        }
    }

    fn call_home(&self) {
        let home = self.queue().home.take();
        drop(contained(|| home.map(Waker::wake)));
    }

    fn left(&self, visit: Visit) {
        if self.queue().lending.left(visit) {
            self.call_home();
        }
    }

    /// Registers the connection with the current runtime, which is the guest's. `false`: it is not to read.
    fn arrive(&self, visit: Visit) -> bool {
        if !self.queue().lending.expects(visit, clock::now()) {
            return false;
        }
        let Some(Ok(duplicate)) = self.with_socket(|socket| socket.stream.duplicate()) else { return false };
        // It panics if the program was wrong about its runtime.
        let Ok(Ok(registered)) = contained(|| duplicate.register()) else { return false };
        let has_arrived = self.with_socket(|socket| {
            let has_arrived = self.queue().lending.arrived(visit);
            if has_arrived && let Err(fault) = socket.stream.lend(registered) {
                socket.fault.get_or_insert_with(|| fault.into());
            }
            has_arrived
        });
        // It has to look after the guest from now on.
        self.call_home();
        has_arrived == Some(true)
    }

    /// While a guest reads. Returns when the connection is home again.
    pub(super) async fn look_after(&self) -> RedisResult<()> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is due at once.
        ticks.tick().await;
        while !self.queue().lending.is_called_home() {
            let ticked = {
                let mut tick = pin!(ticks.tick());
                poll_fn(|cx| {
                    let former = self.queue().home.replace(cx.waker().clone());
                    drop(former);
                    if self.queue().lending.is_called_home() {
                        return Poll::Ready(false);
                    }
                    tick.as_mut().poll(cx).map(|_| true)
                })
                .await
            };
            if ticked {
                self.tick()?;
            }
        }
        Ok(self.take_back()?)
    }

    fn tick(&self) -> RedisResult<()> {
        let unread = self.with_socket(|socket| socket.stream.has_unread()).ok_or_else(broken)?;
        let mut queue = self.queue();
        let under_way = queue.replies.under_way();
        queue.lending.tick(if unread { Inbox::Unread } else { Inbox::Empty }, under_way);
        Ok(())
    }

    fn take_back(&self) -> io::Result<()> {
        let taken_back: Option<io::Result<_>> = self.with_socket(|socket| {
            let former = socket.stream.take_back()?;
            let mut queue = self.queue();
            queue.lending.came_home(clock::now());
            Ok((former, queue.guest.take()))
        });
        // Dropped here, and woken, without any mutex: a guest learns that it is over.
        let Some((_former, guest)) = taken_back.transpose()? else { return Ok(()) };
        drop(contained(|| guest.map(Waker::wake)));
        Ok(())
    }
}

/// A guest's stay, from its invitation. Its runtime may drop it at any moment.
struct Stay {
    conduit: Arc<Conduit>,
    visit: Visit,
}

impl Stay {
    async fn read(self) {
        if self.conduit.made_in.is_another() || !self.conduit.arrive(self.visit) {
            return;
        }
        let reads = OnReady::new(&self.conduit, self.visit);
        poll_fn(|cx| reads.poll(cx)).await;
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // In a forked process a thread that does not exist there may hold the mutexes.
        if !self.conduit.made_in.is_another() {
            self.conduit.left(self.visit);
        }
    }
}
