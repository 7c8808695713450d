//! The reports of a client process, one line each, and their reader. Times are microseconds of a clock that all
//! processes of a machine share.
//!
//! A section shorter than [`PROGRESS`](crate::section::PROGRESS) is one line at its end. A longer section is reported
//! at its begin and repeatedly while it lasts, so that the known part of a killed process's section is judged.

use std::fmt;

/// Which holders are compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    Limited(u32),
}

/// The result of the write at the end of a fenced section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    None,
    Accepted,
    /// Refused because of a newer token, although the holder believed even after that that it holds the lock.
    RefusedWhileHeld,
    /// Refused because of a newer token, after the lock was lost. This is the purpose of the token.
    RefusedAfterLoss,
    /// Refused because the token had been used by another section.
    Repeated,
}

/// A critical section, and the request that led to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    /// Unique within its process.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) keys: Vec<String>,
    pub(crate) token: Option<u64>,
    pub(crate) times: Times,
    /// How long `min_hold` excludes others, counted from `entered`. 0: not requested.
    pub(crate) min_hold: u64,
    /// The lease must end within this time from `entered`, despite renewals. 0: no limit.
    pub(crate) cap: u64,
    pub(crate) write: Write,
}

/// The instants of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) asked: u64,
    /// The request returned the lock.
    pub(crate) entered: u64,
    /// The last instant at which the holder certainly believed. 0: there is none.
    pub(crate) left: u64,
    /// The end of the release. 0: unknown.
    pub(crate) released: u64,
    /// How long the process was not scheduled between `asked` and `released`.
    pub(crate) stalled: u64,
    /// How long the request was allowed to take.
    pub(crate) allowed: u64,
}

/// A request that did not get the lock, or a release that failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// The variant of the error. `Cancelled`: the request was dropped on purpose.
    pub(crate) variant: String,
    pub(crate) asked: u64,
    pub(crate) ended: u64,
    pub(crate) stalled: u64,
    pub(crate) allowed: u64,
    /// The options of the request, without spaces.
    pub(crate) how: String,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Ready,
    /// A long section has begun.
    Begun(Section),
    /// Its holder still believes that it holds the lock.
    Held {
        id: u64,
        at: u64,
    },
    Over(Section),
    Failed(Failure),
    /// The process ends. This many requests or releases did not finish.
    Done {
        hung: u64,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("x"),
            Kind::Shared => f.write_str("s"),
            Kind::Limited(limit) => write!(f, "{limit}"),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { asked, entered, left, released, stalled, allowed } = self.times;
        let write = match self.write {
            Write::None => '-',
            Write::Accepted => 'a',
            Write::RefusedWhileHeld => 'h',
            Write::RefusedAfterLoss => 'l',
            Write::Repeated => 'r',
        };
        write!(f, "{} {} {} {}", self.id, self.kind, self.keys.join(","), self.token.unwrap_or(0))?;
        write!(f, " {asked} {entered} {left} {released} {stalled} {allowed}")?;
        write!(f, " {} {} {write}", self.min_hold, self.cap)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Ready => f.write_str("ready"),
            Line::Begun(section) => write!(f, "begun {section}"),
            Line::Held { id, at } => write!(f, "held {id} {at}"),
            Line::Over(section) => write!(f, "over {section}"),
            Line::Failed(Failure { variant, asked, ended, stalled, allowed, how }) => {
                write!(f, "failed {variant} {asked} {ended} {stalled} {allowed} {how}")
            }
            Line::Done { hung } => write!(f, "done {hung}"),
        }
    }
}

impl Line {
    /// `None`: not a line of a client, or an incomplete line of a killed process.
    pub(crate) fn parse(line: &str) -> Option<Line> {
        let words: Vec<&str> = line.split(' ').collect();
        let line = match words[..] {
            ["ready"] => Line::Ready,
            ["begun", ref rest @ ..] => Line::Begun(section(rest)?),
            ["held", id, at] => Line::Held { id: number(id)?, at: number(at)? },
            ["over", ref rest @ ..] => Line::Over(section(rest)?),
            ["failed", variant, asked, ended, stalled, allowed, how] => Line::Failed(Failure {
                variant: variant.to_owned(),
                asked: number(asked)?,
                ended: number(ended)?,
                stalled: number(stalled)?,
                allowed: number(allowed)?,
                how: how.to_owned(),
            }),
            ["done", hung] => Line::Done { hung: number(hung)? },
            _ => return None,
        };
        Some(line)
    }
}

fn section(words: &[&str]) -> Option<Section> {
    let [id, kind, keys, token, asked, entered, left, released, stalled, allowed, min_hold, cap, write] =
        words[..]
    else {
        return None;
    };
    let kind = match kind {
        "x" => Kind::Exclusive,
        "s" => Kind::Shared,
        limit => Kind::Limited(limit.parse().ok()?),
    };
    let write = match write {
        "-" => Write::None,
        "a" => Write::Accepted,
        "h" => Write::RefusedWhileHeld,
        "l" => Write::RefusedAfterLoss,
        "r" => Write::Repeated,
        _ => return None,
    };
    let times = Times {
        asked: number(asked)?,
        entered: number(entered)?,
        left: number(left)?,
        released: number(released)?,
        stalled: number(stalled)?,
        allowed: number(allowed)?,
    };
    let keys = keys.split(',').map(str::to_owned).collect();
    let token = Some(number(token)?).filter(|&token| token > 0);
    let (id, min_hold, cap) = (number(id)?, number(min_hold)?, number(cap)?);
    Some(Section { id, kind, keys, token, times, min_hold, cap, write })
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let times = Times { asked: 1, entered: 2, left: 3, released: 4, stalled: 5, allowed: 6 };
        let section = Section {
            id: 7,
            kind: Kind::Limited(3),
            keys: vec!["a".to_owned(), "b".to_owned()],
            token: Some(9),
            times,
            min_hold: 10,
            cap: 11,
            write: Write::RefusedAfterLoss,
        };
        let failure = Failure {
            variant: "Busy".to_owned(),
            asked: 1,
            ended: 2,
            stalled: 3,
            allowed: 4,
            how: "Run:Once:a".to_owned(),
        };
        for line in [
            Line::Ready,
            Line::Begun(section.clone()),
            Line::Held { id: 7, at: 12 },
            Line::Over(section),
            Line::Failed(failure),
            Line::Done { hung: 0 },
        ] {
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        assert_eq!(Line::parse("over 7 x a"), None, "cut off");
    }
}
