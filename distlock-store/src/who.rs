//! The process of an owner.

use std::fmt::Write as _;

use crate::fields::{Optional, cut, optional};

/// The longest name of a host, of a program and of a version, in bytes. Writers cut longer names. A text with a longer
/// name is void.
pub const LONGEST_NAME: usize = 255;

/// The process that a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub program: Option<String>,
    /// The version of this library.
    pub version: Option<String>,
    pub met: Option<Met>,
}

/// The counters of a client since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Requests that failed as busy.
    pub busy: u64,
    /// Holds that were lost.
    pub lost: u64,
}

impl Who {
    /// The record of this process for others.
    #[must_use]
    pub fn this_process() -> Who {
        let program = std::env::current_exe().ok();
        let program = program.as_ref().and_then(|path| path.file_name());
        Who {
            host: rustix::system::uname().nodename().to_str().ok().map(str::to_owned),
            pid: Some(std::process::id()),
            program: program.map(|name| name.to_string_lossy().into_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            met: None,
        }
    }

    /// Fields that are separated by blanks: host, pid, program, version, and the counters, if they are known.
    #[must_use]
    pub fn to_text(&self) -> String {
        let pid = self.pid.map(|pid| pid.to_string());
        let fields = [&self.host, &pid, &self.program, &self.version]
            .map(|field| Optional(field.as_deref().map(|name| cut(name, LONGEST_NAME))).to_string());
        let mut text = fields.join(" ");
        if let Some(Met { busy, lost }) = self.met {
            // Writing to a string does not fail.
            let _written = write!(text, " {busy} {lost}");
        }
        text
    }

    /// The process in these fields. `None`: they are void.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Who> {
        let mut fields = text.split(' ');
        let mut next = || fields.next().map_or(Some(None), |name| optional(name, LONGEST_NAME));
        let (host, pid, program, version) = (next()?, next()?, next()?, next()?);
        let mut count = || fields.next().and_then(|count| count.parse().ok());
        let met = count().zip(count()).map(|(busy, lost)| Met { busy, lost });
        let who = Who { host, pid: pid.and_then(|pid| pid.parse().ok()), program, version, met };
        Some(who).filter(|who| who.host.is_some() || who.pid.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Who {
        Who {
            host: Some("web 1".into()),
            pid: Some(4711),
            program: Some(name.into()),
            version: None,
            met: Some(Met { busy: 3, lost: 1 }),
        }
    }

    #[test]
    fn a_process_is_read_as_it_was_written_whatever_its_name() {
        for name in ["order:42", "a b", "line\nend", "100%", "%", "", "\u{e4}\u{1f512}", "-"] {
            assert_eq!(Who::from_text(&who(name).to_text()), Some(who(name)));
        }
        let longer = who("x").to_text() + " and what a later version adds";
        assert_eq!(Who::from_text(&longer), Some(who("x")));
        assert_eq!(Who::from_text("- - - -"), None);
        assert_eq!(Who::from_text(&"A".repeat(5_000_000)), None);
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        assert_eq!(cut("\u{e4}\u{e4}", 3), "\u{e4}");
        assert_eq!(cut("abc", 3), "abc");
    }
}
