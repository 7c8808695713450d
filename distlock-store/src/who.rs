//! Which process an owner belongs to.

use std::fmt::Write as _;

use crate::fields::{Optional, cut, optional};

/// The longest name of a host, of a program and of a version, in bytes. What is longer is cut by the writer; a text
/// in which it is longer tells of nobody.
pub const LONGEST_NAME: usize = 255;

/// The process that a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub program: Option<String>,
    /// Of this library.
    pub version: Option<String>,
    pub met: Option<Met>,
}

/// What a client has met since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Requests that have ended as busy.
    pub busy: u64,
    /// Holds that were lost.
    pub lost: u64,
}

impl Who {
    /// What others may learn of this process.
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

    /// As fields that are separated by blanks: host, pid, program, version; and, if it is known, what it has met.
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

    /// The process that these fields tell of; `None`: of none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Who> {
        let who = Who::read(&mut text.split(' '))?;
        Some(who).filter(|who| who.host.is_some() || who.pid.is_some())
    }

    /// Reads the fields of a process; `None`: they are garbled.
    pub fn read<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<Who> {
        let mut next = || fields.next().map_or(Some(None), |name| optional(name, LONGEST_NAME));
        let (host, pid, program, version) = (next()?, next()?, next()?, next()?);
        let mut count = || fields.next().and_then(|count| count.parse().ok());
        let met = count().zip(count()).map(|(busy, lost)| Met { busy, lost });
        Some(Who { host, pid: pid.and_then(|pid| pid.parse().ok()), program, version, met })
    }
}
