//! A process: the rules of the client, and its connections to the server.

use crate::{
    bounds::{ASK_AGAIN, Bounds, CLAIM, HEARTBEAT, SETTLING},
    rules::Rule,
    server::{Command, Gap, Lease, Meant, Push, Reply, Tick, Token},
};

/// A command in flight, and the meaning of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub command: Command,
    pub sent: Tick,
    /// For the first attempt of a `leave`: the time until which this process certainly had the lease.
    pub certain_until: Tick,
}

/// The connection for commands: first in, first out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    pub is_up: bool,
    pub requests: Vec<Packet>,
    pub requests_are_slow: bool,
    pub replies: Vec<(Packet, Reply)>,
    pub replies_are_slow: bool,
    /// The commands of broken connections that may still arrive, and the end of that time.
    pub late: Vec<Packet>,
    pub late_until: Tick,
}

/// Whether other events may happen while a message is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speed {
    Fast,
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Idle,
    Waiting(Attempt),
    Held(Hold),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub token: Token,
    pub since: Tick,
    /// When the `enter` without a reply was sent.
    pub asked: Option<Tick>,
    pub ask_at: Tick,
    /// The server's time when it found this process in the queue, and when the process had asked.
    pub pair: Option<(Tick, Tick)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    pub token: Token,
    pub since: Tick,
    pub deadline: Tick,
    pub fence: u8,
    /// Fencing tokens that are reserved for the next local holders.
    pub fences_left: u8,
    pub renew_at: Tick,
    pub keep_until: Tick,
    /// A mutant still holds the lock although `leave` was sent.
    pub left: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub number: u8,
    pub is_alive: bool,
    pub phase: Phase,
    /// The number of future acquisitions.
    pub wanted: u8,
    /// Tasks of this process that wait for the lease to be handed on.
    pub locals: u8,
    pub next_nonce: u8,
    pub link: Link,
    /// Other events may overtake the slow ones.
    pub pushes: Vec<(Push, Speed)>,
    /// Tokens whose `leave` must be sent again, and when.
    pub pending: Vec<(Token, Tick, Tick)>,
    /// The last lost lease. Only mutants remember it.
    pub lost: Option<Hold>,
    /// A release was reported as a loss.
    pub reported_loss: bool,
    /// A section continued after it had ended.
    pub revived: bool,
}

/// When a pending `leave` is sent: as soon as there is a connection.
const AT_ONCE: Tick = 0;

impl Link {
    /// Breaks the connection. Replies are lost, and commands arrive late or never.
    pub fn breaks(&mut self, now: Tick) {
        let requests = std::mem::take(&mut self.requests);
        self.late.extend(requests);
        self.late_until = now + SETTLING;
        self.replies.clear();
        (self.requests_are_slow, self.replies_are_slow, self.is_up) = (false, false, false);
    }
}

impl Process {
    pub fn new(number: u8, wanted: u8, locals: u8) -> Self {
        Process {
            number,
            is_alive: true,
            phase: Phase::Idle,
            wanted,
            locals,
            next_nonce: 0,
            link: Link { is_up: true, ..Link::default() },
            pushes: Vec::new(),
            pending: Vec::new(),
            lost: None,
            reported_loss: false,
            revived: false,
        }
    }

    /// Whether the process believes that it holds the lock.
    pub fn believes(&self, now: Tick) -> bool {
        self.is_alive && matches!(self.phase, Phase::Held(hold) if hold.deadline > now)
    }

    pub fn begin(&mut self, bounds: &Bounds, now: Tick) {
        let token = Token { process: self.number, nonce: self.next_nonce };
        if bounds.keeps(Rule::TokensAreFresh) {
            self.next_nonce += 1;
        }
        self.wanted -= 1;
        let attempt = Attempt { token, since: now, asked: None, ask_at: now, pair: None };
        self.phase = Phase::Waiting(attempt);
        self.ask(bounds, now);
    }

    /// Cancels the wait.
    pub fn cancel(&mut self, now: Tick) {
        if let Phase::Waiting(attempt) = self.phase {
            self.phase = Phase::Idle;
            self.leave(now, attempt.token, 0, Gap::NotDue, Meant::Cancel, 0);
        }
    }

    /// The holder releases the lock.
    pub fn release(&mut self, bounds: &Bounds, now: Tick, gap: Gap) {
        let Phase::Held(hold) = self.phase else { return };
        let hands_on = self.locals > 0 && hold.fences_left > 0 && hold.keep_until <= now;
        if hands_on && bounds.keeps(Rule::NoHandOnAfterLeave) {
            return self.hand_on(now, hold);
        }
        self.phase = Phase::Idle;
        if !hold.left {
            let keep = hold.keep_until.saturating_sub(now);
            self.leave(now, hold.token, keep, gap, Meant::Release, hold.deadline);
        }
        if hands_on {
            self.hand_on(now, Hold { left: true, ..hold });
        }
    }

    fn hand_on(&mut self, now: Tick, hold: Hold) {
        self.locals -= 1;
        let fences_left = hold.fences_left.saturating_sub(1);
        self.phase = Phase::Held(Hold { since: now, fence: hold.fence + 1, fences_left, ..hold });
    }

    pub fn extend(&mut self, now: Tick) {
        if let Phase::Held(hold) = self.phase {
            self.send(now, Command::Renew { token: hold.token, lease: Lease::Long }, 0);
        }
    }

    /// Called before any other event is handled: a deadline that has passed is a loss.
    pub fn notice_loss(&mut self, bounds: &Bounds, now: Tick) {
        let Phase::Held(hold) = self.phase else { return };
        if hold.deadline > now {
            return;
        }
        self.phase = Phase::Idle;
        if bounds.broken.is_some() {
            self.lost = Some(hold);
        }
        if self.locals > 0 && !bounds.keeps(Rule::NoHandOnAfterLoss) {
            self.hand_on(now, Hold { deadline: now + CLAIM, ..hold });
            return;
        }
        self.undo(now, hold.token);
    }

    /// Whether a timer is due.
    pub fn is_due(&self, now: Tick) -> bool {
        if !self.is_alive || !self.link.is_up {
            return false;
        }
        let leave_is_due = self.pending.iter().any(|&(_, from, _)| from <= now);
        leave_is_due
            || match self.phase {
                Phase::Idle => false,
                Phase::Waiting(attempt) => match attempt.asked {
                    None => attempt.ask_at <= now,
                    Some(at) => at + ASK_AGAIN <= now,
                },
                Phase::Held(hold) => self.may_renew(hold, now),
            }
    }

    /// There is one renewal at a time.
    fn may_renew(&self, hold: Hold, now: Tick) -> bool {
        let is_renewal =
            |packet: &Packet| matches!(packet.command, Command::Renew { lease: Lease::Normal, .. });
        hold.renew_at <= now
            && !hold.left
            && !self.link.requests.iter().any(is_renewal)
            && !self.link.replies.iter().any(|(packet, _)| is_renewal(packet))
    }

    pub fn fire(&mut self, bounds: &Bounds, now: Tick) {
        self.send_pending(bounds, now);
        match self.phase {
            Phase::Idle => {}
            Phase::Waiting(attempt) => {
                if attempt.asked.map_or(attempt.ask_at, |at| at + ASK_AGAIN) <= now {
                    self.ask(bounds, now);
                }
            }
            Phase::Held(hold) => {
                if self.may_renew(hold, now) {
                    self.phase = Phase::Held(Hold { renew_at: now + 1, ..hold });
                    self.send(now, Command::Renew { token: hold.token, lease: Lease::Normal }, 0);
                }
            }
        }
    }

    fn ask(&mut self, bounds: &Bounds, now: Tick) {
        let fences = if bounds.keeps(Rule::TokensAreReserved) { 1 + self.locals } else { 1 };
        if let Phase::Waiting(attempt) = &mut self.phase {
            attempt.asked = Some(now);
            let token = attempt.token;
            self.send(now, Command::Enter { token, fences }, 0);
        }
    }

    fn send(&mut self, now: Tick, command: Command, certain_until: Tick) {
        self.link.requests.push(Packet { command, sent: now, certain_until });
    }

    /// Releases the rest of a token.
    fn undo(&mut self, now: Tick, token: Token) {
        let under_way =
            self.link.requests.iter().any(|packet| {
                packet.command.token() == token && matches!(packet.command, Command::Leave { .. })
            });
        if !under_way && !self.pending.iter().any(|&(other, from, _)| other == token && from == AT_ONCE) {
            self.leave(now, token, 0, Gap::NotDue, Meant::Release, 0);
        }
    }

    fn leave(&mut self, now: Tick, token: Token, hold: Tick, gap: Gap, meant: Meant, certain_until: Tick) {
        if self.link.is_up {
            self.send(now, Command::Leave { token, hold, gap, meant }, certain_until);
            // A command of the old connection may arrive after it.
            if !self.link.late.is_empty() {
                self.pend(token, self.link.late_until, now + hold);
            }
        } else {
            self.pend(token, AT_ONCE, now + hold);
        }
    }

    fn pend(&mut self, token: Token, from: Tick, keep_until: Tick) {
        if !self.pending.contains(&(token, from, keep_until)) {
            self.pending.push((token, from, keep_until));
        }
    }

    fn send_pending(&mut self, bounds: &Bounds, now: Tick) {
        let due: Vec<_> = self.pending.iter().copied().filter(|&(_, from, _)| from <= now).collect();
        self.pending.retain(|&(_, from, _)| from > now);
        for (token, from, keep_until) in due {
            let keep = keep_until.saturating_sub(now);
            let once_more = from == AT_ONCE && !self.link.late.is_empty();
            self.send(
                now,
                Command::Leave { token, hold: keep, gap: Gap::NotDue, meant: Meant::Release },
                if bounds.keeps(Rule::RepeatedLeaveIsNotReported) { 0 } else { Tick::MAX },
            );
            if once_more && bounds.keeps(Rule::LeaveOnceMoreWithoutKill) {
                self.pend(token, self.link.late_until, keep_until);
            }
        }
    }

    /// Notices the broken connection. Replies are lost, and commands arrive late or never.
    pub fn lose_link(&mut self, bounds: &Bounds, now: Tick) {
        let unanswered: Vec<Packet> = self.link.replies.iter().map(|&(packet, _)| packet).collect();
        for packet in unanswered.into_iter().chain(self.link.requests.clone()) {
            if let Command::Leave { token, hold, .. } = packet.command
                && bounds.keeps(Rule::LeavesAreRepeated)
            {
                self.pend(token, AT_ONCE, packet.sent + hold);
            }
        }
        self.link.breaks(now);
        if let Phase::Waiting(attempt) = &mut self.phase {
            (attempt.pair, attempt.asked, attempt.ask_at) = (None, None, now);
        }
    }

    /// Makes a new connection. The old one is killed, pending commands are sent, and every waiter asks again.
    pub fn connect(&mut self, bounds: &Bounds, now: Tick) {
        self.link.is_up = true;
        let kills = bounds.client_kill == crate::bounds::ClientKill::Permitted;
        if kills && bounds.keeps(Rule::KillComesFirst) {
            self.link.late.clear();
        }
        if kills && !bounds.keeps(Rule::KillComesFirst) {
            // The old connection is killed, but only after this.
            let late = std::mem::take(&mut self.link.late);
            self.send_pending(bounds, now);
            self.link.late = late;
        }
        self.fire(bounds, now);
    }

    /// From now on, no command of a broken connection arrives.
    pub fn settle(&mut self, now: Tick) {
        if self.link.late_until <= now {
            self.link.late.clear();
        }
    }

    /// A reply arrives.
    pub fn hear(&mut self, bounds: &Bounds, now: Tick, packet: Packet, reply: Reply) {
        match packet.command {
            Command::Enter { token, fences } => {
                self.entered(bounds, now, (token, fences), packet.sent, reply)
            }
            Command::Leave { .. } => {
                self.reported_loss |= reply == Reply::NotYours && now < packet.certain_until;
            }
            Command::Renew { token, lease } => {
                self.renewed(bounds, now, token, packet.sent + lease.ticks(), reply)
            }
        }
    }

    fn entered(
        &mut self,
        bounds: &Bounds,
        now: Tick,
        (token, fences): (Token, u8),
        sent: Tick,
        reply: Reply,
    ) {
        match (self.phase, reply) {
            (Phase::Waiting(attempt), Reply::Fresh { fence } | Reply::Mine { fence })
                if attempt.token == token =>
            {
                let from = if bounds.keeps(Rule::ReplyCountsFromItsRequest) { sent } else { now };
                self.got(bounds, now, token, from + Lease::Normal.ticks(), (fence, fences));
            }
            (Phase::Waiting(mut attempt), Reply::Busy { us, rest }) if attempt.token == token => {
                attempt.pair = Some((us, sent));
                attempt.asked = None;
                let wait = if bounds.keeps(Rule::WaitersKeepAsking) { HEARTBEAT.min(rest) } else { rest };
                attempt.ask_at = now + wait.max(1);
                self.phase = Phase::Waiting(attempt);
            }
            (Phase::Held(hold), Reply::Fresh { .. })
                if hold.token == token && bounds.keeps(Rule::FreshIsALoss) =>
            {
                self.phase = Phase::Idle;
                self.undo(now, token);
            }
            (Phase::Held(hold), Reply::Mine { .. } | Reply::Fresh { .. }) if hold.token == token => {
                self.lasts_until(sent + Lease::Normal.ticks());
            }
            (Phase::Held(hold), _) if hold.token == token => {}
            // The lock is no longer wanted.
            (_, Reply::Fresh { .. }) if self.revives(bounds, Rule::FreshIsALoss, now, token, sent) => {}
            _ => self.undo(now, token),
        }
    }

    /// A mutant continues a section that was lost.
    fn revives(&mut self, bounds: &Bounds, rule: Rule, now: Tick, token: Token, sent: Tick) -> bool {
        let Some(hold) = self.lost.filter(|hold| hold.token == token && !bounds.keeps(rule)) else {
            return false;
        };
        let deadline = sent + Lease::Normal.ticks();
        if deadline <= now || self.phase != Phase::Idle {
            return false;
        }
        self.revived = true;
        self.phase = Phase::Held(Hold { deadline, renew_at: now, ..hold });
        true
    }

    fn got(&mut self, bounds: &Bounds, now: Tick, token: Token, deadline: Tick, (fence, fences): (u8, u8)) {
        if deadline <= now {
            self.phase = Phase::Idle;
            return self.undo(now, token);
        }
        let fences_left = if bounds.keeps(Rule::TokensAreReserved) { fences - 1 } else { self.locals };
        let keep = if self.number == 0 { bounds.min_hold } else { 0 };
        let hold = Hold {
            token,
            since: now,
            deadline,
            fence,
            fences_left,
            renew_at: now + 1,
            keep_until: now + keep,
            left: false,
        };
        self.phase = Phase::Held(hold);
    }

    fn renewed(&mut self, bounds: &Bounds, now: Tick, token: Token, until: Tick, reply: Reply) {
        match (self.phase, reply) {
            (Phase::Held(hold), Reply::Renewed) if hold.token == token => self.lasts_until(until),
            (Phase::Held(hold), Reply::NotYours) if hold.token == token => {
                self.reported_loss = true;
                self.phase = Phase::Idle;
            }
            (_, Reply::Renewed) => {
                let sent = until.saturating_sub(Lease::Normal.ticks());
                self.revives(bounds, Rule::LossIsFinal, now, token, sent);
            }
            _ => {}
        }
    }

    fn lasts_until(&mut self, until: Tick) {
        if let Phase::Held(hold) = &mut self.phase {
            hold.deadline = hold.deadline.max(until);
        }
    }

    /// A push arrives.
    pub fn told(&mut self, bounds: &Bounds, now: Tick, push: Push) {
        let token = push.token();
        match (self.phase, push) {
            (Phase::Waiting(attempt), Push::Grant { us, fence, .. }) if attempt.token == token => {
                self.granted(bounds, now, attempt, us, fence);
            }
            (Phase::Waiting(attempt), Push::Gap { .. }) if attempt.token == token => self.ask(bounds, now),
            (Phase::Held(hold), _) if hold.token == token => {}
            (_, Push::Gap { .. }) => {}
            _ => self.undo(now, token),
        }
    }

    fn granted(&mut self, bounds: &Bounds, now: Tick, attempt: Attempt, us: Tick, fence: u8) {
        let Some((seen, sent)) = attempt.pair.filter(|_| self.link.is_up) else {
            // The age of the grant is unknown, and the reply to `enter` contains the remaining time.
            if self.link.is_up {
                self.ask(bounds, now);
            }
            return;
        };
        if us < seen && bounds.keeps(Rule::StalePushIgnored) {
            return;
        }
        let deadline = if bounds.keeps(Rule::PushCountsFromItsGrant) {
            sent + us.saturating_sub(seen) + CLAIM
        } else {
            now + CLAIM
        };
        if deadline.saturating_sub(now) < CLAIM / 2 {
            return self.ask(bounds, now);
        }
        self.got(bounds, now, attempt.token, deadline, (fence, 1 + self.locals));
        if let Phase::Held(hold) = &mut self.phase {
            hold.renew_at = now;
        }
    }
}
