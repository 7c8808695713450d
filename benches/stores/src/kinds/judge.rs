//! Judges a history of one key: which sections overlapped others that they exclude, and how long a hand-off took.
//!
//! A section may begin when there is room for it. The release that made room is the last one that it had to wait for:
//!
//! - for a writer, the last release of all sections that began before it;
//! - for a reader, the last release of the writers among them;
//! - for the `i`th section (from 0) of a lock with at most *n* holders, the `i − n`th release.
//!
//! A section that began before that release overlaps. A hand-off is the time from that release until the section
//! began, if its process had asked for the lock before that release. So a release that makes room for six readers is
//! followed by six hand-offs, and the wait of a writer that readers overtake does not count: its hand-off begins with
//! the release of the last of them.

use crate::kinds::contenders::{Kind, MOST};

/// Times of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) kind: Kind,
    pub(crate) asked: u64,
    pub(crate) start: u64,
    /// The instant before it is released.
    pub(crate) end: u64,
}

/// A judged section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) start: u64,
    pub(crate) overlaps: bool,
    /// In nanoseconds.
    pub(crate) hand_off: Option<u64>,
}

/// Judges the sections, in the order in which they began. A limited lock has sections of no other kind.
pub(crate) fn judge(mut sections: Vec<Section>) -> Vec<Entry> {
    sections.sort_unstable_by_key(|section| section.start);
    let mut releases: Vec<u64> = sections.iter().map(|section| section.end).collect();
    releases.sort_unstable();
    let (mut any, mut writers) = (0, 0);
    let judged = sections.iter().enumerate().map(|(index, section)| {
        let Section { kind, asked, start, end } = *section;
        let room = match kind {
            Kind::Exclusive => any,
            Kind::Shared => writers,
            Kind::Limited => index.checked_sub(MOST as usize).map_or(0, |nth| releases[nth]),
        };
        any = any.max(end);
        if kind == Kind::Exclusive {
            writers = writers.max(end);
        }
        let overlaps = start < room;
        let hand_off = (asked < room && !overlaps).then(|| start - room);
        Entry { kind, start, overlaps, hand_off }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Exclusive, Limited, Shared};

    /// For each section, in the order of their begins: the hand-off, or the overlap.
    fn verdicts(history: &[(Kind, u64, u64, u64)]) -> Vec<Result<Option<u64>, &'static str>> {
        let section = |&(kind, asked, start, end): &_| Section { kind, asked, start, end };
        let judged = judge(history.iter().map(section).collect());
        judged.into_iter().map(|it| if it.overlaps { Err("overlaps") } else { Ok(it.hand_off) }).collect()
    }

    #[test]
    fn a_hand_off_begins_with_the_release_that_made_room() {
        // Readers wait for the writer. A writer waits for the last reader.
        let history = [
            (Exclusive, 1, 2, 10),
            (Shared, 5, 13, 20),
            (Shared, 6, 14, 30),
            (Exclusive, 7, 34, 40),
            (Shared, 39, 42, 50),
        ];
        assert_eq!(verdicts(&history), [Ok(None), Ok(Some(3)), Ok(Some(4)), Ok(Some(4)), Ok(Some(2))]);
    }

    #[test]
    fn a_section_that_asked_after_the_release_did_not_wait() {
        let history =
            [(Exclusive, 1, 2, 10), (Exclusive, 10, 12, 20), (Shared, 21, 22, 30), (Shared, 23, 24, 25)];
        assert_eq!(verdicts(&history), [Ok(None); 4]);
    }

    #[test]
    fn readers_share_and_nothing_else_does() {
        let cases = [
            ([(Shared, 1, 2, 10), (Shared, 1, 5, 20)], Ok(None)),
            ([(Shared, 1, 2, 10), (Exclusive, 1, 9, 20)], Err("overlaps")),
            ([(Exclusive, 1, 2, 10), (Shared, 1, 9, 20)], Err("overlaps")),
            ([(Exclusive, 1, 2, 10), (Exclusive, 1, 9, 20)], Err("overlaps")),
            ([(Exclusive, 1, 2, 10), (Exclusive, 1, 10, 20)], Ok(Some(0))),
        ];
        for (history, verdict) in cases {
            assert_eq!(verdicts(&history), [Ok(None), verdict], "{history:?}");
        }
    }

    #[test]
    fn an_overlap_with_an_older_section_is_found() {
        // The first reader stays longer than the second one.
        let history = [(Shared, 1, 2, 50), (Shared, 1, 3, 10), (Exclusive, 4, 20, 30), (Shared, 4, 31, 40)];
        assert_eq!(verdicts(&history), [Ok(None), Ok(None), Err("overlaps"), Ok(Some(1))]);
    }

    #[test]
    fn of_a_limited_lock_each_release_makes_room_for_one() {
        let history = [
            (Limited, 1, 2, 10),
            (Limited, 1, 3, 20),
            (Limited, 4, 13, 40),
            (Limited, 5, 25, 30),
            // There was room since 30, and not since 40.
            (Limited, 6, 44, 50),
        ];
        assert_eq!(verdicts(&history), [Ok(None), Ok(None), Ok(Some(3)), Ok(Some(5)), Ok(Some(14))]);
        let history = [(Limited, 1, 2, 10), (Limited, 1, 3, 20), (Limited, 4, 9, 12), (Limited, 11, 11, 15)];
        assert_eq!(verdicts(&history), [Ok(None), Ok(None), Err("overlaps"), Err("overlaps")]);
    }
}
