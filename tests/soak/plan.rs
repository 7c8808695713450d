//! The random next step of a client's task.

use std::{fmt, time::Duration};

use fastrand::Rng;

use crate::record::Kind;

/// Others may wait for this long after a crash. It is short, so that leases expire while other faults last.
const TTL_MS: std::ops::Range<u64> = 1_000..2_000;
/// The ttl of some locks. It is so short that they expire on a busy machine even without faults.
const SHORT_TTL_MS: std::ops::Range<u64> = 300..1_000;
pub(crate) const LONGEST_TTL: Duration = Duration::from_millis(TTL_MS.end);
/// How long `min_hold` keeps a key taken. It is shorter than the ttl, so that it also holds for a killed holder.
const MIN_HOLD_MS: std::ops::Range<u64> = 200..600;

/// The abilities of the store under test in addition to exclusive locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Shared and limited locks.
    pub(crate) shared: bool,
    /// Fencing tokens, and therefore leaders.
    pub(crate) fenced: bool,
    pub(crate) min_hold: bool,
    pub(crate) linger: bool,
    /// The percentage of the sections that would hold a key for long and that do so. The long ones limit the number of
    /// sections in a minute.
    pub(crate) long_percent: u32,
    /// The number of keys, as a multiple of the usual one. With more keys, a key that a killed process has left blocks
    /// fewer tasks, so there are more sections in a minute.
    pub(crate) key_factor: u32,
}

impl Offer {
    /// The number of one of the keys of a kind.
    fn draw_key(self, rng: &mut Rng, usual: u32) -> u32 {
        rng.u32(..usual * self.key_factor)
    }
}

/// How the lock is acquired and released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A guard, whose release is awaited.
    Released,
    /// A guard that is dropped.
    Dropped,
    /// `LockRequest::run`.
    Run,
    /// `LockRequest::run` with a release in the background.
    Background,
    /// A function with the attribute.
    Attribute,
    /// A term of office.
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Once,
    For(Duration),
    Forever,
}

impl Wait {
    /// The longest wait, for an attribute, which needs a time.
    pub(crate) fn longest(self) -> Duration {
        match self {
            Wait::Once => Duration::ZERO,
            Wait::For(time) => time,
            Wait::Forever => Duration::from_secs(20),
        }
    }

    /// How long a request may take while servers are unreachable, or another process holds the lock.
    pub(crate) fn allowed(self) -> Duration {
        match self {
            Wait::Once => Duration::from_secs(3),
            Wait::For(time) => time + Duration::from_secs(3),
            // All other holders release the lock after a while.
            Wait::Forever => Duration::from_secs(30),
        }
    }
}

/// One critical section to come.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) form: Form,
    pub(crate) kind: Kind,
    pub(crate) keys: Vec<String>,
    /// The number in the key of an annotated function.
    pub(crate) number: u32,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) renews: bool,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) linger: Option<Duration>,
    pub(crate) fenced: bool,
    /// The duration of the body.
    pub(crate) work: Duration,
    /// The request is dropped after this time, if it is still waiting.
    pub(crate) cancel_after: Option<Duration>,
    /// The pause before the next section.
    pub(crate) pause: Duration,
}

/// One word, for the examples of the verdict.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { form, kind, keys, wait, .. } = self;
        write!(f, "{form:?}:{kind:?}:{wait:?}:{}", keys.join(","))
    }
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng, offer: Offer) -> Plan {
        let long = rng.u32(..100) < offer.long_percent;
        let mut plan = Plan {
            form: Form::Released,
            kind: Kind::Exclusive,
            keys: Vec::new(),
            number: 0,
            ttl: draw_ttl(rng),
            wait: draw_wait(rng),
            renews: rng.u32(..100) >= 8,
            min_hold: None,
            max_hold: None,
            linger: None,
            fenced: false,
            work: draw_work(rng, long),
            cancel_after: (rng.u32(..100) < 4).then(|| Duration::from_micros(rng.u64(..30_000))),
            pause: Duration::from_micros(rng.u64(..3_000)),
        };
        match rng.u32(..100) {
            0..25 => plan.hot(rng, offer),
            25..40 => plan.cold(rng, offer),
            40..50 => plan.annotated(rng, offer),
            50..58 => plan.several(rng, offer, long),
            58..66 if offer.min_hold && long => plan.kept(rng, offer),
            66..70 if offer.fenced && long => plan.office(rng, offer),
            70..85 if offer.shared => plan.shared(rng, offer, long),
            85..95 if offer.shared => plan.limited(rng, offer, long),
            95..100 if offer.linger => plan.lingering(rng, offer),
            // The store does not have the drawn ability.
            _ => plan.cold(rng, offer),
        }
        if plan.kind == Kind::Exclusive && plan.keys.len() == 1 && plan.form != Form::Leader {
            plan.fenced = offer.fenced && rng.u32(..100) < 60;
        }
        plan
    }

    /// Keys that all tasks want, with short sections.
    fn hot(&mut self, rng: &mut Rng, offer: Offer) {
        self.keys = vec![format!("hot:{}", offer.draw_key(rng, 2))];
        let longest = if rng.u32(..500) == 0 { 600_000 } else { 3_000 };
        self.work = Duration::from_micros(rng.u64(..longest));
        self.form = draw_form(rng);
    }

    fn cold(&mut self, rng: &mut Rng, offer: Offer) {
        self.keys = vec![format!("cold:{}", offer.draw_key(rng, 24))];
        self.form = draw_form(rng);
        if self.renews && rng.u32(..10) == 0 {
            self.max_hold = Some(self.ttl + Duration::from_millis(rng.u64(..500)));
        }
    }

    fn annotated(&mut self, rng: &mut Rng, offer: Offer) {
        self.number = offer.draw_key(rng, 6);
        self.keys = vec![format!("attr:{}", self.number)];
        self.form = Form::Attribute;
        self.renews = true;
    }

    fn several(&mut self, rng: &mut Rng, offer: Offer, long: bool) {
        let count = rng.usize(2..=3);
        let mut numbers: Vec<u32> = (0..6 * offer.key_factor).collect();
        rng.shuffle(&mut numbers);
        self.keys = numbers[..count].iter().map(|number| format!("part:{number}")).collect();
        self.work = self.work.min(Duration::from_millis(50));
        match rng.u32(..8) {
            0 if offer.min_hold && long => self.keep(rng),
            1 if self.renews => self.max_hold = Some(self.ttl),
            _ => {}
        }
    }

    /// Keys that stay taken for a while, like those of scheduled jobs.
    fn kept(&mut self, rng: &mut Rng, offer: Offer) {
        self.keys = vec![format!("kept:{}", offer.draw_key(rng, 6))];
        self.form = draw_form(rng);
        self.keep(rng);
    }

    /// Others are excluded for a while, at whatever time the section ends.
    fn keep(&mut self, rng: &mut Rng) {
        self.min_hold = Some(Duration::from_millis(rng.u64(MIN_HOLD_MS)));
        self.ttl = Duration::from_millis(rng.u64(TTL_MS));
    }

    /// Leaders, who resign soon.
    fn office(&mut self, rng: &mut Rng, offer: Offer) {
        self.keys = vec![format!("office:{}", offer.draw_key(rng, 2))];
        self.form = Form::Leader;
        self.wait = Wait::Forever;
        self.renews = true;
        self.cancel_after = Some(Duration::from_millis(rng.u64(100..5_000)));
    }

    /// The process keeps an unused lock for a while.
    fn lingering(&mut self, rng: &mut Rng, offer: Offer) {
        self.keys = vec![format!("linger:{}", offer.draw_key(rng, 3))];
        self.form = draw_form(rng);
        self.linger = Some(Duration::from_millis(rng.u64(10..300)));
    }

    fn shared(&mut self, rng: &mut Rng, offer: Offer, long: bool) {
        self.keys = vec![format!("rw:{}", offer.draw_key(rng, 3))];
        self.form = draw_form(rng);
        if rng.u32(..4) > 0 {
            self.kind = Kind::Shared;
            if long {
                self.stay(rng, offer);
            }
        }
    }

    fn limited(&mut self, rng: &mut Rng, offer: Offer, long: bool) {
        let limit = rng.u32(1..=3);
        self.keys = vec![format!("limit:{limit}:{}", offer.draw_key(rng, 2))];
        self.form = draw_form(rng);
        self.kind = Kind::Limited(limit);
        if long {
            self.stay(rng, offer);
        }
    }

    /// Holders that others join, and that leave before these: with a `min_hold`, by an expired lease, or by a release.
    /// Some of the holders that have joined are not renewed, and stay for most of their leases.
    fn stay(&mut self, rng: &mut Rng, offer: Offer) {
        match rng.u32(..8) {
            0 if offer.min_hold => self.keep(rng),
            1 => {
                self.renews = false;
                self.work = Duration::from_micros(rng.u64(..1_000_000));
            }
            2 => self.work = Duration::from_micros(rng.u64(..600_000)),
            _ => {}
        }
    }

    /// The lease must end after this time since its acquisition in any case.
    pub(crate) fn cap(&self) -> Option<Duration> {
        if self.renews { self.max_hold } else { Some(self.ttl) }
    }
}

fn draw_ttl(rng: &mut Rng) -> Duration {
    let range = if rng.u32(..4) == 0 { SHORT_TTL_MS } else { TTL_MS };
    Duration::from_millis(rng.u64(range))
}

fn draw_form(rng: &mut Rng) -> Form {
    match rng.u32(..10) {
        0..6 => Form::Released,
        6..8 => Form::Dropped,
        8 => Form::Background,
        _ => Form::Run,
    }
}

fn draw_wait(rng: &mut Rng) -> Wait {
    match rng.u32(..20) {
        0..3 => Wait::Once,
        3 => Wait::Forever,
        _ => Wait::For(Duration::from_millis(rng.u64(20..4_000))),
    }
}

fn draw_work(rng: &mut Rng, long: bool) -> Duration {
    let longest = match rng.u32(..100) {
        92..99 if long => 150_000,
        99 if long => 3_000_000,
        70..92 => 20_000,
        _ => 2_000,
    };
    Duration::from_micros(rng.u64(..longest))
}
