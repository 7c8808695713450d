//! Which servers are there, which of them count, and whether that makes a majority.

use std::time::Duration;

use super::super::{Failure, LinkEvent, OpError, Pushes};
use super::council::{Council, Effect, Now};
use super::member::{Member, Origin, Standing};
use super::round::majority;
use crate::clock::{Time, drift};

/// How long the first majority waits for the others.
const TOGETHER: Duration = Duration::from_millis(250);

/// What is known of a server's clock is refreshed so often: what is old tells nothing.
const LOOK: Duration = Duration::from_secs(10);
/// The same while a server is young that somebody else may vouch for.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Whether there is a majority.
#[derive(Debug)]
pub(super) struct Gathering {
    stage: Stage,
    pushes: Pushes,
    /// No server was ever seen that somebody had vouched for, so nobody can ever have held a lock.
    untouched: bool,
    /// When to ask all servers for their time and their mark.
    look_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not yet. When the first majority does not wait for the others any more.
    Forming(Option<Time>),
    Up,
    Down,
}

impl Gathering {
    pub(super) fn new() -> Gathering {
        Gathering { stage: Stage::Forming(None), pushes: Pushes::Off, untouched: true, look_at: Time(0) }
    }
}

impl Council {
    /// A server is ready for commands, and was asked at `sent` what it is. `settled`: see [`LinkEvent::Up`].
    pub(super) fn joined(
        &mut self,
        now: Now,
        node: usize,
        sent: Time,
        settled: bool,
        pushes: Pushes,
        origin: Origin,
    ) {
        let twin = (0..self.members.len()).find(|other| {
            *other != node && self.members[*other].run_id.as_deref() == Some(origin.run_id.as_str())
        });
        if let Some(twin) = twin {
            let text = format!(
                "{} and {} are the same server: a quorum needs different ones",
                self.names[twin], self.names[node]
            );
            return self.misfit(now, node, OpError::new(Failure::Refused, text));
        }
        let Some(member) = self.members.get_mut(node) else { return };
        member.up = true;
        member.misfit = None;
        member.cause = None;
        member.pushes = pushes;
        let same = member.run_id.as_deref() == Some(origin.run_id.as_str());
        if !same || member.standing == Standing::Unknown {
            member.standing = Standing::Young(now.time.before(origin.age));
        }
        member.run_id = Some(origin.run_id.clone());
        self.gathering.untouched &= origin.vouched.is_none();
        member.is_vouched_for(&origin);
        member.heard_time(origin.us, sent, now.time);
        self.grow_up(now);
        self.look_soon(now);
        if !settled {
            self.owe_again(now, node);
        }
        self.pay(now, node, true);
        self.gather(now, None);
    }

    /// A server is not there, or an attempt to reach it has failed.
    pub(super) fn parted(&mut self, now: Now, node: usize, cause: OpError) {
        if cause.kind == Failure::Refused {
            return self.misfit(now, node, cause);
        }
        let Some(member) = self.members.get_mut(node) else { return };
        member.up = false;
        member.cause = Some(cause.clone());
        self.gather(now, Some(cause));
    }

    fn misfit(&mut self, now: Now, node: usize, cause: OpError) {
        let Some(member) = self.members.get_mut(node) else { return };
        member.up = false;
        member.cause = Some(cause.clone());
        member.misfit = Some(cause.clone());
        self.gather(now, Some(cause));
    }

    pub(super) fn listens(&mut self, now: Now, node: usize, pushes: Pushes) {
        if let Some(member) = self.members.get_mut(node) {
            member.pushes = pushes;
        }
        self.gather(now, None);
    }

    /// Servers that are old enough count. So do all of them if none has ever been used.
    fn grow_up(&mut self, now: Now) {
        let met = self.members.iter().all(|member| member.standing != Standing::Unknown);
        let first_use = self.gathering.untouched && met;
        let after = self.grown_after();
        for (node, member) in self.members.iter_mut().enumerate() {
            let since = match member.standing {
                Standing::Young(born) if first_use => born.before(after),
                Standing::Young(at) | Standing::Stepped(at) => at,
                Standing::Unknown | Standing::Counts => continue,
            };
            if let Some(run_id) = &member.run_id
                && now.time.since(since) >= after
            {
                member.standing = Standing::Counts;
                self.out.push(Effect::Vouch { node, run_id: run_id.clone() });
            }
        }
        if self.members.iter().any(|member| member.standing == Standing::Counts) {
            self.gathering.untouched = false;
        }
    }

    /// Nobody can hold a lock that a server has forgotten, once it runs for so long.
    fn grown_after(&self) -> Duration {
        self.longest_ttl + drift(self.longest_ttl)
    }

    pub(super) fn presence_due(&self) -> Option<Time> {
        let grown = self.members.iter().filter_map(|member| match member.standing {
            Standing::Young(at) | Standing::Stepped(at) => Some(at.after(self.grown_after())),
            Standing::Unknown | Standing::Counts => None,
        });
        let forming = match self.gathering.stage {
            Stage::Forming(until) => until,
            Stage::Up | Stage::Down => None,
        };
        grown.chain(forming).chain([self.gathering.look_at]).min()
    }

    /// A server was asked at `sent` what it is.
    pub(super) fn looked(&mut self, now: Now, node: usize, sent: Time, origin: &Origin) {
        if let Some(member) = self.members.get_mut(node) {
            member.heard_time(origin.us, sent, now.time);
            member.is_vouched_for(origin);
        }
    }

    /// Whoever comes while another process begins to use new servers finds only some of its marks.
    fn look_soon(&mut self, now: Now) {
        if self.members.iter().any(|member| matches!(member.standing, Standing::Young(_))) {
            self.gathering.look_at = self.gathering.look_at.min(now.time.after(LOOK_AGAIN));
        }
    }

    fn look(&mut self, now: Now) {
        if self.gathering.look_at <= now.time {
            self.gathering.look_at = now.time.after(LOOK);
            self.look_soon(now);
            let here = (0..self.members.len()).filter(|node| self.members[*node].up);
            self.out.extend(here.map(|node| Effect::Look { node }));
        }
    }

    pub(super) fn fire_presence(&mut self, now: Now) {
        self.grow_up(now);
        self.look(now);
        if matches!(self.gathering.stage, Stage::Forming(Some(_))) {
            self.gather(now, None);
        }
    }

    /// Says whether there is a majority, when that changes. `cause`: why a server is missing, if that is news.
    fn gather(&mut self, now: Now, cause: Option<OpError>) {
        let (all, here) = (self.members.len(), self.members.iter().filter(|member| member.up).count());
        let most = majority(all);
        match self.gathering.stage {
            Stage::Forming(until) => {
                let misfit = self.members.iter().find_map(|member| member.misfit.clone());
                let failed = self.members.iter().filter(|member| member.cause.is_some()).count();
                if let Some(cause) = misfit {
                    self.gathering.stage = Stage::Forming(None);
                    self.out.push(Effect::Link(LinkEvent::Down { cause }));
                } else if here == all
                    || (here >= most && here + failed == all)
                    || until.is_some_and(|until| until <= now.time)
                {
                    self.is_up();
                } else if here >= most {
                    let until = until.unwrap_or(now.time.after(TOGETHER));
                    self.gathering.stage = Stage::Forming(Some(until));
                } else if all - failed < most {
                    self.is_down(cause);
                }
            }
            Stage::Down if here >= most => self.is_up(),
            Stage::Up if here < most => {
                self.gathering.stage = Stage::Down;
                self.is_down(cause);
            }
            Stage::Down => {
                if cause.is_some() {
                    self.is_down(cause);
                }
            }
            Stage::Up => {
                let pushes = self.pushes();
                if self.gathering.pushes != pushes {
                    self.gathering.pushes = pushes;
                    self.out.push(Effect::Link(LinkEvent::Pushes(pushes)));
                }
            }
        }
    }

    fn is_up(&mut self) {
        self.gathering.stage = Stage::Up;
        self.gathering.pushes = self.pushes();
        // What earlier commands may have left behind is given back server by server.
        let pushes = self.gathering.pushes;
        self.out.push(Effect::Link(LinkEvent::Up { settled: true, pushes }));
    }

    fn is_down(&mut self, cause: Option<OpError>) {
        let all = self.members.len();
        let here = self.members.iter().filter(|member| member.up).count();
        let cause = cause.or_else(|| self.members.iter().find_map(|member| member.cause.clone()));
        let text = format!("{here} of {all} servers can be reached, {} are needed", majority(all));
        let cause = match cause {
            Some(cause) => OpError::new(Failure::NotSent, format!("{text}; {cause}")),
            None => OpError::new(Failure::NotSent, text),
        };
        self.out.push(Effect::Link(LinkEvent::Down { cause }));
    }

    /// One server that tells when a lock is free is enough.
    fn pushes(&self) -> Pushes {
        let hears = |member: &Member| member.up && member.pushes == Pushes::On;
        if self.members.iter().any(hears) { Pushes::On } else { Pushes::Off }
    }
}
