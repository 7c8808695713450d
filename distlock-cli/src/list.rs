//! `ls`: all locks.

use std::io::{self, Write};

use distlock::{LockEntry, Locks};
use serde_json::json;

use crate::args::{General, Ls, Sort};
use crate::as_json;
use crate::connect::connect;
use crate::exit::Exit;
use crate::out::say;
use crate::rates::host;
use crate::words::{Parties, kind, shown, time_or_dash};

/// The columns, and how wide they are at least.
const COLUMNS: [(&str, usize); 7] =
    [("KEY", 32), ("KIND", 12), ("HOLDERS", 7), ("AGE", 7), ("LEFT", 7), ("WAITERS", 7), ("OWNER", 0)];

pub(crate) async fn ls(general: &General, options: Ls) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let mut locks = manager.list(&options.pattern);
    let here = options.mine.then(host);
    let wanted = |entry: &LockEntry| {
        let is_here =
            |host: &String| Parties::from(entry).clients().any(|client| client.host.as_ref() == Some(host));
        (!options.waiting || !entry.waiting.is_empty()) && here.as_ref().is_none_or(is_here)
    };
    let mut out = Out { json: general.json, begun: false };
    match options.sort {
        // As they come: however many there are.
        Sort::Key => {
            while let Some(entry) = next(&mut locks).await? {
                if wanted(&entry) && out.lock(&entry).is_err() {
                    return Ok(Exit::Success);
                }
            }
        }
        Sort::Age | Sort::Waiters => {
            let mut entries = Vec::new();
            while let Some(entry) = next(&mut locks).await? {
                entries.extend(Some(entry).filter(|entry| wanted(entry)));
            }
            match options.sort {
                Sort::Age => entries.sort_by_key(|entry| std::cmp::Reverse(Parties::from(entry).age())),
                _ => entries.sort_by_key(|entry| std::cmp::Reverse(entry.waiting.len())),
            }
            if entries.iter().try_for_each(|entry| out.lock(entry)).is_err() {
                return Ok(Exit::Success);
            }
        }
    }
    out.end(locks.unanswered());
    Ok(Exit::Success)
}

async fn next(locks: &mut Locks) -> Result<Option<LockEntry>, Exit> {
    locks.next().await.transpose().map_err(|error| Exit::told(&error))
}

/// Where the lines go. An error: nobody reads them any more, as behind `| head`.
struct Out {
    json: bool,
    begun: bool,
}

impl Out {
    fn lock(&mut self, entry: &LockEntry) -> io::Result<()> {
        let parties = Parties::from(entry);
        let mut out = io::stdout().lock();
        if self.json {
            return writeln!(out, "{}", as_json::lock(&parties));
        }
        if !std::mem::replace(&mut self.begun, true) {
            line(&mut out, &COLUMNS.map(|(name, _)| name.to_owned()))?;
        }
        let cells = [
            shown(parties.key),
            kind(parties.kind),
            parties.holders.len().to_string(),
            time_or_dash(parties.age()),
            time_or_dash(parties.left()),
            parties.waiters.to_string(),
            parties.owner(),
        ];
        line(&mut out, &cells)
    }

    /// What is missing.
    fn end(&self, unanswered: &[String]) {
        if self.json {
            say(json!({ "unanswered": unanswered }));
        } else if !unanswered.is_empty() {
            let names: Vec<String> = unanswered.iter().map(|client| shown(client)).collect();
            eprintln!("distlock: no answer from {}: their locks are missing", names.join(", "));
        }
    }
}

fn line(out: &mut impl Write, cells: &[String; COLUMNS.len()]) -> io::Result<()> {
    let mut text = String::new();
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        text.push_str(&format!("{cell:<width$}  "));
    }
    writeln!(out, "{}", text.trim_end())
}
