//! The explored worlds. Each needs some rules, and together they need every rule.
//!
//! The small size, which every test run uses, has 4.1 million states. It takes 25 s on two shared cores, at
//! `opt-level = 1`:
//!
//! | world | processes | ticks | states | longest shortest way | states at the large size |
//! |---|---|---|---|---|---|
//! | `delays` | 2 | 5 | 514 646 | 55 events | 7 009 954 |
//! | `pushes` | 2 | 4 | 820 744 | 52 | 2 403 126 |
//! | `broken_links` | 2 | 4 | 481 601 | 42 | 7 262 685 |
//! | `broken_links_without_kill` | 2 | 4 | 687 034 | 44 | 10 941 319 |
//! | `cancels` | 3 | 2 | 62 187 | 40 | 2 252 773 |
//! | `extensions` | 2 | 5 | 721 361 | 49 | 7 712 553 |
//! | `chains` | 2 | 5 | 640 306 | 56 | 10 146 885 |
//! | `kept` | 2 | 3 | 47 231 | 45 | 3 685 453 |
//! | `gaps` | 2, and a plain client | 5 | 114 158 | 49 | not explored to its end |
//! | `progress` | 2 | 6 | 727 | 25 | 181 229 |
//! | `dead_waiters` | 3 | 7 | 22 600 | 78 | 26 919 |
//!
//! The large size allows more ticks, slow messages or processes. It takes up to two minutes and some gigabytes for each
//! world.

use crate::bounds::{Bounds, ClientKill, Crashes, Faults, MIN_HOLD};

/// The size of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Explored in seconds, in every test run.
    Small,
    /// Explored in minutes.
    Large,
}

impl Size {
    fn pick<T>(self, small: T, large: T) -> T {
        match self {
            Size::Small => small,
            Size::Large => large,
        }
    }
}

/// Slow commands, replies and pushes, and leases that end meanwhile.
pub fn delays(size: Size) -> Bounds {
    Bounds {
        processes: vec![2, 1],
        faults: Faults { slow: size.pick(2, 3), ..Faults::default() },
        ..Bounds::calm(2, size.pick(5, 6))
    }
}

/// Pushes that are lost, doubled or late.
pub fn pushes(size: Size) -> Bounds {
    Bounds {
        processes: vec![2, 1],
        faults: Faults { slow: 2, lost_pushes: size.pick(0, 1), doubled_pushes: 1, ..Faults::default() },
        ..Bounds::calm(2, size.pick(4, 5))
    }
}

/// Connections that break, and may be killed by the next one.
pub fn broken_links(size: Size) -> Bounds {
    Bounds {
        faults: Faults { slow: size.pick(1, 2), breaks: 1, ..Faults::default() },
        cancels: 1,
        ..Bounds::calm(2, size.pick(4, 5))
    }
}

/// Connections that break, and that no client may kill.
pub fn broken_links_without_kill(size: Size) -> Bounds {
    Bounds { client_kill: ClientKill::Forbidden, ..broken_links(size) }
}

/// Waiters that cancel.
pub fn cancels(size: Size) -> Bounds {
    Bounds {
        faults: Faults { slow: size.pick(1, 2), ..Faults::default() },
        cancels: size.pick(1, 2),
        ..Bounds::calm(3, size.pick(2, 3))
    }
}

/// Leases that are extended, and renewed at the same time.
pub fn extensions(size: Size) -> Bounds {
    Bounds {
        faults: Faults { slow: size.pick(2, 3), ..Faults::default() },
        extensions: 1,
        ..Bounds::calm(2, size.pick(5, 6))
    }
}

/// Tasks of one process that pass the lock to each other.
pub fn chains(size: Size) -> Bounds {
    Bounds { locals: size.pick(1, 2), ..delays(size) }
}

/// Locks that are kept for a while after their release, pushes that come twice, and connections that break.
pub fn kept(size: Size) -> Bounds {
    Bounds {
        processes: vec![1, 2],
        min_hold: MIN_HOLD,
        faults: Faults { slow: size.pick(0, 1), breaks: 1, doubled_pushes: 1, ..Faults::default() },
        ..Bounds::calm(2, size.pick(3, 5))
    }
}

/// Gaps, and a plain client that uses them.
pub fn gaps(size: Size) -> Bounds {
    Bounds {
        processes: size.pick(vec![1, 1], vec![2, 1]),
        faults: Faults { slow: size.pick(1, 2), lost_pushes: 1, ..Faults::default() },
        gaps: size.pick(1, 2),
        plain: size.pick(1, 2),
        ..Bounds::calm(2, size.pick(5, 6))
    }
}

/// No message is late, but a push may be lost and a process may crash. Tests how long the other processes wait.
pub fn progress(size: Size) -> Bounds {
    Bounds {
        faults: Faults { lost_pushes: 1, crashes: size.pick(0, 1), ..Faults::default() },
        longest_hold: 1,
        longest_wait: size.pick(2, 8),
        ..Bounds::calm(size.pick(2, 3), size.pick(6, 9))
    }
}

/// A waiter that crashed some time ago does not delay the waiters after it.
pub fn dead_waiters(size: Size) -> Bounds {
    Bounds {
        faults: Faults { crashes: 1, ..Faults::default() },
        crashes: Crashes::OfWaitersAtFirst,
        longest_hold: 4,
        longest_wait: 4,
        ..Bounds::calm(3, size.pick(7, 8))
    }
}

/// A world, at the requested size.
pub type World = fn(Size) -> Bounds;

/// All of them, by name.
pub const ALL: [(&str, World); 11] = [
    ("delays", delays),
    ("pushes", pushes),
    ("broken_links", broken_links),
    ("broken_links_without_kill", broken_links_without_kill),
    ("cancels", cancels),
    ("extensions", extensions),
    ("chains", chains),
    ("kept", kept),
    ("gaps", gaps),
    ("progress", progress),
    ("dead_waiters", dead_waiters),
];
