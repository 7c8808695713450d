//! `ls`: all locks.

use std::cmp::Reverse;
use std::io::{self, Write};

use distlock::{LockEntry, Locks};
use serde_json::json;

use crate::args::{General, Ls, Sort};
use crate::as_json;
use crate::connect::connect;
use crate::exit::Exit;
use crate::out::{complain, json_line, say_json};
use crate::rates::host;
use crate::words::{Parties, kind, shown, time_or_dash};

/// The columns, and their minimum widths.
const COLUMNS: [(&str, usize); 7] =
    [("KEY", 32), ("KIND", 12), ("HOLDERS", 7), ("AGE", 7), ("LEFT", 7), ("WAITERS", 7), ("OWNER", 0)];

pub(crate) async fn ls(general: &General, options: Ls) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let mut locks = manager.list(&options.pattern);
    let here = options.mine.then(host);
    let wanted = |entry: &LockEntry| {
        let is_here =
            |host: &String| Parties::from(entry).clients().any(|client| client.host.as_ref() == Some(host));
        (!options.waiting || entry.waiters > 0) && here.as_ref().is_none_or(is_here)
    };
    let mut out = Out { json: general.json, begun: false };
    let rank: fn(&LockEntry) -> u128 = match options.sort {
        // Printed as they arrive, for any number of locks.
        Sort::Key => {
            while let Some(entry) = next(&mut locks).await? {
                if wanted(&entry) && out.print(&out.line(&entry)).is_err() {
                    return Ok(Exit::Success);
                }
            }
            out.end(&locks, 0);
            return Ok(Exit::Success);
        }
        Sort::Age => |entry| Parties::from(entry).age().map_or(0, |age| 1 + age.as_nanos()),
        Sort::Waiters => |entry| entry.waiters.into(),
    };
    let mut sorted = Sorted::default();
    while let Some(entry) = next(&mut locks).await? {
        if wanted(&entry) {
            sorted.add(rank(&entry), out.line(&entry));
        }
    }
    sorted.cut();
    if sorted.lines.iter().try_for_each(|(_, line)| out.print(line)).is_ok() {
        out.end(&locks, sorted.hidden);
    }
    Ok(Exit::Success)
}

/// The lines that have room, those with the highest rank first.
#[derive(Default)]
struct Sorted {
    lines: Vec<(u128, String)>,
    bytes: usize,
    hidden: usize,
}

impl Sorted {
    /// At most this many bytes of lines are kept, which is more than a hundred thousand lines.
    const ROOM: usize = 16 << 20;

    fn add(&mut self, rank: u128, line: String) {
        self.bytes += line.len();
        self.lines.push((rank, line));
        if self.bytes > 2 * Self::ROOM {
            self.cut();
        }
    }

    /// Sorts the lines, and drops those that have no room.
    fn cut(&mut self) {
        self.lines.sort_by_key(|(rank, _)| Reverse(*rank));
        let (mut bytes, before) = (0, self.lines.len());
        let has_room = |(_, line): &&(u128, String)| {
            bytes += line.len();
            bytes <= Self::ROOM
        };
        let most = self.lines.iter().take_while(has_room).count();
        self.lines.truncate(most);
        self.bytes = self.lines.iter().map(|(_, line)| line.len()).sum();
        self.hidden += before - most;
    }
}

async fn next(locks: &mut Locks) -> Result<Option<LockEntry>, Exit> {
    locks.next().await.transpose().map_err(|error| Exit::told(&error))
}

/// The output of the lines. An error: the reader is gone, for example behind `| head`.
struct Out {
    json: bool,
    begun: bool,
}

impl Out {
    /// The line of a lock.
    fn line(&self, entry: &LockEntry) -> String {
        let parties = Parties::from(entry);
        if self.json {
            return json_line(&as_json::lock(&parties));
        }
        line(&[
            shown(parties.key),
            kind(parties.kind),
            parties.holders.len().to_string(),
            time_or_dash(parties.age()),
            time_or_dash(parties.left()),
            parties.waiters.to_string(),
            parties.owner(),
        ])
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if !self.json && !std::mem::replace(&mut self.begun, true) {
            writeln!(out, "{}", line(&COLUMNS.map(|(name, _)| name.to_owned())))?;
        }
        writeln!(out, "{text}")
    }

    /// Prints the silent clients and the missing parts of the list.
    fn end(&self, locks: &Locks, hidden: usize) {
        let (unanswered, unread) = (locks.unanswered(), locks.unread());
        if self.json {
            return say_json(&json!({ "unanswered": unanswered, "unread": unread, "hidden": hidden }));
        }
        if !unanswered.is_empty() {
            complain(format_args!("no sign of life from {}", unanswered.join(", ")));
        }
        if !unread.is_empty() {
            complain(format_args!("{} cannot be read, so its locks are missing", unread.join(", ")));
        }
        if hidden > 0 {
            complain(format_args!("{hidden} more are not shown: name a pattern, or sort by key"));
        }
    }
}

fn line(cells: &[String; COLUMNS.len()]) -> String {
    let mut text = String::new();
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        text.push_str(&format!("{cell:<width$}  "));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any number of lines, only a limited number is kept, and these are the first ones.
    #[test]
    fn of_very_many_lines_the_first_in_the_order_are_shown() {
        let mut sorted = Sorted::default();
        let mut most = 0;
        let count = 4 * Sorted::ROOM / 1024;
        for number in 0..count {
            sorted.add(number as u128, format!("{number:01024}"));
            most = most.max(sorted.bytes);
        }
        sorted.cut();
        assert!(most <= 2 * Sorted::ROOM + 1024, "{most}");
        assert_eq!((sorted.lines.len(), sorted.hidden), (Sorted::ROOM / 1024, count - Sorted::ROOM / 1024));
        assert_eq!(sorted.lines[0].0, count as u128 - 1);
    }
}
