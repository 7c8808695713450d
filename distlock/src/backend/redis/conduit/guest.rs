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
use crate::clock;
use crate::contained::contained;

/// Not where a socket belongs to its runtime for good, and not where a runtime without an I/O driver would end
/// the process: tokio tells of that by a panic.
const LENDS: bool = cfg!(unix) && cfg!(panic = "unwind");

/// Runtimes that no socket could be registered with. A program has few.
pub(super) static WITHOUT_SOCKETS: Mutex<Vec<Id>> = Mutex::new(Vec::new());
/// With so many of them in it, nobody is invited any more.
const MOST_WITHOUT_SOCKETS: usize = 64;

/// Whether this was found of the current runtime.
fn without_sockets() -> bool {
    let without = WITHOUT_SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let here = Handle::try_current().ok().map(|handle| handle.id());
    here.is_none_or(|here| without.contains(&here)) || without.len() >= MOST_WITHOUT_SOCKETS
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
            Asked::Invite(visit) => host.map(|host| Change::Invite(visit, host)),
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
        if !self.queue().lending.expects(visit, clock::now()) || without_sockets() {
            return false;
        }
        let Some(Ok(duplicate)) = self.with_socket(|socket| socket.stream.duplicate()) else { return false };
        let Ok(registered) = contained(|| duplicate.register()) else {
            let mut without = WITHOUT_SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
            without.extend(Handle::try_current().ok().map(|handle| handle.id()));
            return false;
        };
        let Ok(registered) = registered else { return false };
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
