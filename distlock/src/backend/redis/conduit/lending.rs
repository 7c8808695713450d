//! Who reads the replies of a connection: its own task on the I/O thread, which is called home here, or a
//! guest, a task on the callers' runtime.
//!
//! A reply that home reads takes two wake-ups, that of the I/O thread and that of the caller by it. One that a
//! guest reads takes one, and whatever arrives together is acted upon by one thread without a switch. With several
//! hundred requests under way these costs are shared by many, and the I/O thread is a hand more. But a guest depends
//! on a runtime of the program, which may be busy, blocked, or end. So a guest is invited by quick requests of one
//! runtime, and arrives when that runtime polls it, not before. Home takes the connection back as soon as somebody
//! else sends a request, too many are under way, they come slowly or not at all, or a reply has lain unread between
//! two ticks of its watch.
//!
//! All of this is decided here, by plain values; callers of these functions do the rest. `R` names a runtime.

use std::time::Duration;

use distlock_store::engine::Time;

#[cfg(test)]
#[path = "lending_tests.rs"]
mod tests;

/// How often home looks after a guest. A reply lies unread for two of these at most.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// Writes are quick if the time between two of them is no longer than this …
const QUICK: Duration = Duration::from_millis(5);
/// … and no more requests are under way than this.
const FEW: usize = 128;
/// With more requests under way than this a guest is called home.
const MANY: usize = 192;
/// How many quick writes in a row invite a guest at first …
const FEWEST_QUICK: u32 = 32;
/// … and at most: twice as many after every visit that was not worth its two moves.
const MOST_QUICK: u32 = 4096;
/// A visit with so many writes was worth it.
const WORTH: u32 = 256;
/// So many writes in a row that were not quick end a visit.
const SLOW_WRITES: u32 = 4;
/// A visit ends after so many ticks without a request.
const IDLE_TICKS: u32 = 2;
/// A runtime that has kept a reply waiting gets no guest for so long, twice as long each time …
const FIRST_BAN: Duration = Duration::from_secs(1);
/// … up to this.
const LONGEST_BAN: Duration = Duration::from_secs(64);

/// One stay of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Visit(u64);

/// One who may be the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reader {
    Home,
    Guest(Visit),
}

#[cfg(test)]
pub(super) const A_GUEST: Reader = Reader::Guest(Visit(0));

/// Whether something lies in the socket that was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Inbox {
    Empty,
    Unread,
}

/// What the sender of a request has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    /// Start this guest on its runtime.
    Invite(Visit),
    /// Wake home: it has to take the connection back.
    CallHome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lending<R> {
    place: Place<R>,
    visits: u64,
    last_write: Time,
    /// Quick writes in a row.
    quick: u32,
    /// So many invite a guest.
    quick_needed: u32,
    banned_until: Time,
    next_ban: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place<R> {
    Home,
    /// Home reads until this guest arrives.
    Invited {
        visit: Visit,
        runtime: R,
        since: Time,
    },
    Guest(Guest<R>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Guest<R> {
    visit: Visit,
    runtime: R,
    writes: u32,
    slow_writes: u32,
    /// Since the last tick.
    has_read: bool,
    has_written: bool,
    /// At the last tick.
    inbox: Inbox,
    idle_ticks: u32,
    called_home: Option<Why>,
}

/// Why a guest is called home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Why {
    /// There is nothing to gain.
    NoGain,
    /// A reply was not read in time.
    Late,
    /// The guest is gone: its runtime has ended, or the connection.
    Gone,
}

impl<R> Default for Lending<R> {
    fn default() -> Lending<R> {
        Lending {
            place: Place::Home,
            visits: 0,
            last_write: Time(0),
            quick: 0,
            quick_needed: FEWEST_QUICK,
            banned_until: Time(0),
            next_ban: FIRST_BAN,
        }
    }
}

impl<R: Copy + Eq> Lending<R> {
    pub(super) fn reader(&self) -> Reader {
        match &self.place {
            Place::Home | Place::Invited { .. } => Reader::Home,
            Place::Guest(guest) => Reader::Guest(guest.visit),
        }
    }

    /// As after many quick writes.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        (self.quick, self.banned_until) = (self.quick_needed, Time(0));
    }

    /// Requests have been written, so many are under way.
    pub(super) fn wrote(&mut self, now: Time, under_way: usize) {
        let is_quick = now.duration_since(self.last_write) <= QUICK;
        self.last_write = now;
        match &mut self.place {
            Place::Home | Place::Invited { .. } => {
                self.quick = if is_quick && under_way <= FEW { self.quick.saturating_add(1) } else { 0 };
            }
            Place::Guest(guest) => {
                guest.has_written = true;
                guest.writes = guest.writes.saturating_add(1);
                guest.slow_writes = if is_quick { 0 } else { guest.slow_writes.saturating_add(1) };
                if guest.slow_writes >= SLOW_WRITES {
                    guest.call_home(Why::NoGain);
                }
            }
        }
    }

    /// A request is sent by a task of `runtime`; of none that could have a guest: `None`.
    pub(super) fn asked(&mut self, under_way: usize, runtime: impl FnOnce() -> Option<R>) -> Asked {
        match &mut self.place {
            Place::Home if self.quick >= self.quick_needed && self.last_write >= self.banned_until => {
                self.quick = 0;
                let Some(runtime) = runtime() else { return Asked::Nothing };
                self.visits += 1;
                let visit = Visit(self.visits);
                self.place = Place::Invited { visit, runtime, since: self.last_write };
                Asked::Invite(visit)
            }
            Place::Guest(guest) if under_way > MANY || runtime() != Some(guest.runtime) => {
                guest.call_home(Why::NoGain)
            }
            Place::Home | Place::Invited { .. } | Place::Guest(_) => Asked::Nothing,
        }
    }

    /// Whether a guest whose runtime polls it may register the connection there. A runtime that has taken longer
    /// than a reply may lie unread gets no guest.
    pub(super) fn expects(&self, visit: Visit, now: Time) -> bool {
        match &self.place {
            Place::Invited { visit: invited, since, .. } => {
                *invited == visit && now.duration_since(*since) <= 2 * TICK
            }
            Place::Home | Place::Guest(_) => false,
        }
    }

    /// The connection was registered with the guest's runtime. `false`: the guest is not expected any more.
    pub(super) fn arrived(&mut self, visit: Visit) -> bool {
        match self.place {
            Place::Invited { visit: invited, runtime, .. } if invited == visit => {
                self.place = Place::Guest(Guest::new(visit, runtime));
                true
            }
            Place::Home | Place::Invited { .. } | Place::Guest(_) => false,
        }
    }

    /// The guest will not read any more. `true`: home has to take the connection back.
    pub(super) fn left(&mut self, visit: Visit) -> bool {
        match &mut self.place {
            Place::Invited { visit: invited, .. } if *invited == visit => {
                // It came too late, could not register, or its runtime has ended.
                self.place = Place::Home;
                self.ban(self.last_write);
                false
            }
            Place::Guest(guest) if guest.visit == visit => {
                guest.call_home(Why::Gone);
                true
            }
            Place::Home | Place::Invited { .. } | Place::Guest(_) => false,
        }
    }

    /// Replies were read.
    pub(super) fn has_read(&mut self) {
        if let Place::Guest(guest) = &mut self.place {
            guest.has_read = true;
        }
    }

    /// Home looks after its guest.
    pub(super) fn tick(&mut self, inbox: Inbox, under_way: usize) {
        let Place::Guest(guest) = &mut self.place else { return };
        if guest.called_home.is_some() {
            return;
        }
        if (inbox, guest.inbox) == (Inbox::Unread, Inbox::Unread) && !guest.has_read {
            guest.call_home(Why::Late);
        }
        guest.inbox = inbox;
        guest.has_read = false;
        let is_idle = under_way == 0 && !guest.has_written;
        guest.has_written = false;
        guest.idle_ticks = if is_idle { guest.idle_ticks + 1 } else { 0 };
        if guest.idle_ticks >= IDLE_TICKS {
            guest.call_home(Why::NoGain);
        }
    }

    /// Whether home has to take the connection back.
    pub(super) fn is_called_home(&self) -> bool {
        matches!(&self.place, Place::Guest(Guest { called_home: Some(_), .. }))
    }

    /// Home has taken the connection back.
    pub(super) fn came_home(&mut self, now: Time) {
        let Place::Guest(guest) = std::mem::replace(&mut self.place, Place::Home) else { return };
        self.quick = 0;
        match guest.called_home {
            Some(Why::Late) => self.ban(now),
            _ if guest.writes >= WORTH => {
                self.quick_needed = FEWEST_QUICK;
                self.next_ban = FIRST_BAN;
            }
            _ => self.quick_needed = (self.quick_needed * 2).min(MOST_QUICK),
        }
    }

    fn ban(&mut self, now: Time) {
        self.banned_until = now.after(self.next_ban);
        self.next_ban = (self.next_ban * 2).min(LONGEST_BAN);
    }
}

impl<R> Guest<R> {
    fn new(visit: Visit, runtime: R) -> Guest<R> {
        Guest {
            visit,
            runtime,
            writes: 0,
            slow_writes: 0,
            has_read: false,
            has_written: false,
            inbox: Inbox::Empty,
            idle_ticks: 0,
            called_home: None,
        }
    }

    /// The first reason counts.
    fn call_home(&mut self, why: Why) -> Asked {
        if self.called_home.is_some() {
            return Asked::Nothing;
        }
        self.called_home = Some(why);
        Asked::CallHome
    }
}
