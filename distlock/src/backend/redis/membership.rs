//! One server as a member of a quorum: the questions about the server itself, and the notes on it for other
//! processes.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::exec::{Exec, ask, ask_all, failed};
use super::link::Link;
use super::names::Tag;
use super::{errors, info, reply};
use crate::backend::{Failure, ServerTime, StoreError};

/// How long the notes stay on a server that no process uses.
const NOTE_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Notes on a server.
const NOTE: &str = include_str!("scripts/note.lua");

/// The report of a server about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Changes with every start.
    pub(crate) run_id: String,
    /// The time of its wall clock.
    pub(crate) server_time: ServerTime,
    /// The run in which a process last found that the server counts.
    pub(crate) attested: Option<String>,
    /// When a process first met this run, by the clocks of a majority.
    pub(crate) met: Option<ServerTime>,
    /// The longest ttl of any lease on it, as far as it remembers.
    pub(crate) longest_ttl: Duration,
    /// Its counter of fencing tokens.
    pub(crate) fences: u64,
}

impl Origin {
    /// A process has found that the server counts during this run.
    pub(crate) fn is_attested(&self) -> bool {
        self.attested.as_deref() == Some(self.run_id.as_str())
    }
}

/// Whether a note says that the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It counts, from now on and as long as this run lasts.
    Count,
    /// Prolongs the mark if there is one.
    Keep,
    /// Leaves the mark alone.
    None,
}

/// The note for a server. Numbers can only rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerNote {
    pub(crate) run_id: String,
    pub(crate) mark: Mark,
    pub(crate) longest_ttl: Duration,
    /// The new minimum of the counter of fencing tokens. 0 does not change it.
    pub(crate) fences: u64,
    /// When this run was first met, for the case that this is not noted yet.
    pub(crate) met: Option<ServerTime>,
}

impl Exec {
    /// The server's run and the notes on it. Its uptime is not used, because it follows the wall clock.
    pub(super) async fn origin(self: Arc<Self>, link: Arc<Link>) -> Result<Origin, StoreError> {
        let names = &self.wire.names;
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let mut commands = vec![info, redis::cmd("TIME")];
        for name in [names.run(), names.met(), names.longest_ttl(), names.fence(Tag::none())] {
            let mut get = redis::cmd("GET");
            name.add_to(&mut get);
            commands.push(get);
        }
        let answers = ask_all(&link, commands).await?;
        for answer in &answers {
            if let Value::ServerError(error) = answer
                && error.code() != "NOPERM"
            {
                return Err(failed(&link, error.clone()));
            }
        }
        let text = |at: usize| answers.get(at).and_then(info::text);
        let run_id = info::field(text(0), "run_id").map(str::to_owned);
        let (Some(run_id), Some(server_time)) = (run_id, answers.get(1).and_then(reply::of_time)) else {
            return Err(errors::found(
                Failure::Refused,
                "the server does not report its run and its time, so a quorum cannot know whether it has \
                 forgotten locks: grant `+info +get +time`",
            ));
        };
        let number = |at: usize| text(at).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        Ok(Origin {
            server_time,
            attested: text(2).map(str::to_owned),
            met: text(3)
                .and_then(|met| met.strip_prefix(&run_id)?.strip_prefix(' ')?.parse().ok())
                .map(ServerTime),
            longest_ttl: Duration::from_millis(number(4)),
            fences: number(5),
            run_id,
        })
    }

    pub(super) async fn note(self: Arc<Self>, link: Arc<Link>, note: ServerNote) -> Result<(), StoreError> {
        let names = &self.wire.names;
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(NOTE).arg(4);
        for name in [names.run(), names.met(), names.longest_ttl(), names.fence(Tag::none())] {
            name.add_to(&mut cmd);
        }
        let mark = match note.mark {
            Mark::Count => "count",
            Mark::Keep => "keep",
            Mark::None => "note",
        };
        cmd.arg(note.run_id).arg(mark);
        cmd.arg(note.longest_ttl.as_millis().to_string()).arg(note.fences);
        cmd.arg(note.met.map_or(0, |met| met.0)).arg(NOTE_TTL.as_millis().to_string());
        match ask(&link, cmd).await? {
            Value::ServerError(error) => Err(failed(&link, error)),
            _ => Ok(()),
        }
    }
}
