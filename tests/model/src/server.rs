//! The server: the effect of the scripts `enter`, `leave` and `renew` on one key. It has no clock, because time is
//! passed in.

use crate::{
    bounds::{Bounds, CLAIM, KEEP, LONG_TTL, TTL},
    rules::Rule,
};

/// A time of the model's clock.
pub type Tick = u8;

/// `dl1:<client>:<nonce>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    pub process: u8,
    pub nonce: u8,
}

/// The value of the lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Holder(Token),
    /// Released, but kept for a while.
    Kept,
    /// A foreign client, which knows only `SET NX PX` and compare-and-delete.
    Plain,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub token: Token,
    pub until: Tick,
    /// The number of fencing tokens to reserve.
    pub fences: u8,
    /// A fencing token that a mutant created too early.
    pub drawn: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    pub lock: Option<(Value, Tick)>,
    pub queue: Vec<Entry>,
    /// The newest fencing token.
    pub last_fence: u8,
}

/// The ttl that a renewal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    Normal,
    Long,
}

impl Lease {
    pub fn ticks(self) -> Tick {
        match self {
            Lease::Normal => TTL,
            Lease::Long => LONG_TTL,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Acquires the lock, queues, keeps the place in the queue, or claims a grant.
    Enter {
        token: Token,
        fences: u8,
    },
    /// Releases the lock, passes it on, cancels, or compensates. `hold` is how long others are excluded.
    Leave {
        token: Token,
        hold: Tick,
        gap: Gap,
        meant: Meant,
    },
    Renew {
        token: Token,
        lease: Lease,
    },
}

/// Whether a release leaves the lock free for a moment, so that foreign clients can acquire it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gap {
    Due,
    NotDue,
}

/// Only a mutant of the server uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meant {
    Release,
    Cancel,
}

impl Command {
    pub fn token(&self) -> Token {
        match *self {
            Command::Enter { token, .. } | Command::Leave { token, .. } | Command::Renew { token, .. } => {
                token
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Fresh {
        fence: u8,
    },
    Mine {
        fence: u8,
    },
    /// `us` is the server's time. `rest` is the remaining time of the holder's lease.
    Busy {
        us: Tick,
        rest: Tick,
    },
    Renewed,
    Left,
    NotYours,
}

/// A push to the process of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Push {
    Grant { token: Token, us: Tick, fence: u8 },
    Gap { token: Token },
}

impl Push {
    pub fn token(&self) -> Token {
        match *self {
            Push::Grant { token, .. } | Push::Gap { token } => token,
        }
    }
}

impl Server {
    /// Executes one command.
    pub fn apply(&mut self, bounds: &Bounds, now: Tick, command: Command, pushes: &mut Vec<Push>) -> Reply {
        self.expire(now);
        match command {
            Command::Enter { token, fences } => self.enter(bounds, now, token, fences),
            Command::Leave { token, hold, gap, meant } => {
                self.leave(bounds, now, token, hold, (gap, meant), pushes)
            }
            Command::Renew { token, lease } => self.renew(bounds, now, token, lease),
        }
    }

    /// Removes expired data. Called whenever time passes, so that equivalent states are equal.
    pub fn expire(&mut self, now: Tick) {
        self.lock = self.lock.filter(|&(_, until)| until > now);
    }

    pub fn is_held_by(&self, token: Token) -> bool {
        self.lock.is_some_and(|(value, _)| value == Value::Holder(token))
    }

    fn enter(&mut self, bounds: &Bounds, now: Tick, token: Token, fences: u8) -> Reply {
        let fresh = self.lock.is_none();
        if fresh {
            self.lock = Some((Value::Holder(token), now + TTL));
        }
        if self.is_held_by(token) {
            if bounds.keeps(Rule::MineExtends) {
                self.last_until(now + TTL);
            }
            if bounds.keeps(Rule::DirectAcquireLeavesTheQueue) {
                self.queue.retain(|entry| entry.token != token);
            }
            let fence = self.draw(fences);
            return if fresh { Reply::Fresh { fence } } else { Reply::Mine { fence } };
        }
        let until = now + KEEP;
        match self.queue.iter_mut().find(|entry| entry.token == token) {
            Some(entry) => (entry.until, entry.fences) = (until, fences),
            None => {
                let drawn = (!bounds.keeps(Rule::FenceIsDrawnAtTheGrant)).then(|| self.draw(fences));
                self.queue.push(Entry { token, until, fences, drawn });
            }
        }
        let rest = self.lock.map_or(0, |(_, until)| until - now);
        Reply::Busy { us: now, rest }
    }

    fn leave(
        &mut self,
        bounds: &Bounds,
        now: Tick,
        token: Token,
        hold: Tick,
        (gap, meant): (Gap, Meant),
        pushes: &mut Vec<Push>,
    ) -> Reply {
        let cancels_only = meant == Meant::Cancel && !bounds.keeps(Rule::CancelTestsTheKey);
        let ours = self.is_held_by(token) || (self.lock.is_some() && !bounds.keeps(Rule::LeaveCompares));
        if !ours || cancels_only {
            let places = self.queue.len();
            self.queue.retain(|entry| entry.token != token);
            return if self.queue.len() < places { Reply::Left } else { Reply::NotYours };
        }
        if hold > 0 {
            let value =
                if bounds.keeps(Rule::MinHoldReplacesTheToken) { Value::Kept } else { Value::Holder(token) };
            self.lock = Some((value, now + hold));
            return Reply::Left;
        }
        self.lock = None;
        self.serve(bounds, now, gap, pushes);
        Reply::Left
    }

    /// Grants the lock to the first live waiter in the queue.
    fn serve(&mut self, bounds: &Bounds, now: Tick, gap: Gap, pushes: &mut Vec<Push>) {
        if bounds.keeps(Rule::DeadEntriesAreSkipped) {
            while self.queue.first().is_some_and(|entry| entry.until <= now) {
                self.queue.remove(0);
            }
        }
        let Some(&Entry { token, fences, drawn, .. }) = self.queue.first() else { return };
        if gap == Gap::Due {
            return pushes.push(Push::Gap { token });
        }
        self.queue.remove(0);
        let fence = drawn.unwrap_or_else(|| self.draw(fences));
        self.lock = Some((Value::Holder(token), now + CLAIM));
        pushes.push(Push::Grant { token, us: now, fence });
    }

    fn renew(&mut self, bounds: &Bounds, now: Tick, token: Token, lease: Lease) -> Reply {
        if !self.is_held_by(token) {
            return Reply::NotYours;
        }
        if bounds.keeps(Rule::RenewalNeverShortens) {
            self.last_until(now + lease.ticks());
        } else {
            self.lock = Some((Value::Holder(token), now + lease.ticks()));
        }
        Reply::Renewed
    }

    fn last_until(&mut self, until: Tick) {
        if let Some((_, end)) = &mut self.lock {
            *end = until.max(*end);
        }
    }

    /// Reserves consecutive fencing tokens, and returns the first.
    fn draw(&mut self, count: u8) -> u8 {
        let first = self.last_fence + 1;
        self.last_fence += count;
        first
    }
}
