//! The book lists every error with its cause and its remedy.

use std::fs;
use std::path::Path;
use std::time::Duration;

use distlock::{LockError, LockKey, LockManager, LostReason, Ticket};

use crate::documents::markdown::{Document, Table, code_spans};
use crate::documents::messages::messages;
use crate::documents::{read, root, sources};

fn book(page: &str) -> String {
    read(&root().join("docs/book/src").join(page))
}

/// Whether `text` matches `pattern`, in which `…` matches any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        last = Some(piece);
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty() || last.is_some_and(|piece| piece.is_empty() || rest.ends_with(piece))
}

/// The names of the variants of an enum of `error.rs`.
fn variants(name: &str) -> Vec<String> {
    let source = read(&root().join("distlock/src/error.rs"));
    let body = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum").1;
    let body = body.split_once("\n}").expect("its end").0;
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let named = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    named.map(|line| line.chars().take_while(|char| char.is_alphanumeric()).collect()).collect()
}

/// The first cells of all rows of `tables`.
fn first_cells(tables: &[Table]) -> Vec<String> {
    tables.iter().flatten().map(|row| row[0].clone()).collect()
}

#[test]
fn every_kind_of_error_and_every_reason_of_a_loss_has_a_row() {
    let cells = first_cells(&Document::parse(&book("errors.md")).tables);
    let (errors, reasons) = (variants("LockError"), variants("LostReason"));
    assert!(errors.len() >= 9 && reasons.len() >= 5, "{errors:?} {reasons:?}");
    for name in errors.iter().chain(&reasons) {
        let begins = format!("`{name}`");
        assert!(cells.iter().any(|cell| cell.starts_with(&begins)), "errors.md has no row for {name}");
    }
}

/// One error of each kind, as programs get it.
async fn one_of_each() -> Vec<LockError> {
    let manager = LockManager::in_memory();
    let held = manager.lock("k").acquire().await.expect("it is free");
    let shared = manager.lock("k").shared().no_wait();
    let export = manager.lock("exports").max_holders(3).acquire().await.expect("it is free");
    let nested = manager.clone();
    let once_more = manager.lock("n").run(async |_held| nested.lock("n").acquire().await.map(drop));
    let mut errors = vec![
        manager.lock("k").wait(Duration::from_millis(1)).acquire().await.expect_err("it is held"),
        shared.acquire().await.expect_err("it is held"),
        LockError::lost("k"),
        LockError::unavailable("k", "connection refused"),
        LockError::unavailable("", "connection refused"),
        manager.lock("exports").acquire().await.expect_err("it is a semaphore"),
        once_more.await.expect("the outer one").expect_err("it is held"),
        LockKey::new("").expect_err("it is empty"),
        "no ticket".parse::<Ticket>().expect_err("it is none"),
        manager.lock("k").ttl(Duration::ZERO).acquire().await.expect_err("it is no ttl"),
        LockManager::current().expect_err("there is none"),
    ];
    manager.force_release("k").await.expect("it is in memory");
    errors.push(held.release().await.expect_err("it was taken away"));
    let handle = manager.lock("section").run(async |held| held).await.expect("it is free");
    errors.push(handle.check().expect_err("the section has ended"));
    drop(export);
    let again = manager.clone();
    let reader = manager.lock("report").shared();
    let written = reader.run(async |_held| again.lock("report").reentrant().acquire().await.map(drop)).await;
    errors.push(written.expect("the outer one").expect_err("it is held as a shared one"));
    errors.push(deadlock().await);
    manager.shutdown(Duration::ZERO).await;
    errors.push(manager.lock("k").acquire().await.expect_err("it is shut down"));
    errors
}

/// Two sections wait for each other, until one of the requests ends.
async fn deadlock() -> LockError {
    let manager = LockManager::builder().break_deadlocks(true).in_memory().expect("the options are valid");
    let both_hold = tokio::sync::Barrier::new(2);
    let section = async |held: &'static str, wanted: &'static str| {
        let outer = manager.lock(held).run(async |_held| {
            both_hold.wait().await;
            manager.lock(wanted).run(async |_held| ()).await
        });
        outer.await.expect("it is free")
    };
    let (one, other) = tokio::join!(section("a", "b"), section("b", "a"));
    one.and(other).expect_err("one of them ends")
}

#[tokio::test]
async fn every_message_stands_in_a_heading_and_every_heading_is_a_message() {
    let headings = Document::parse(&book("errors.md")).headings;
    let patterns: Vec<String> = headings.iter().flat_map(|(_, heading)| code_spans(heading)).collect();
    let errors = one_of_each().await;
    let messages: Vec<String> = errors.iter().map(|error| error.to_string().replace('`', "")).collect();
    for message in &messages {
        let found = patterns.iter().any(|pattern| fits(pattern, message));
        assert!(found, "errors.md has no heading for: {message}");
    }
    for pattern in &patterns {
        let met = messages.iter().any(|message| fits(pattern, message));
        assert!(met, "no error reads like the heading: {pattern}");
    }
}

#[test]
fn every_reason_of_a_loss_is_quoted() {
    let page = book("errors.md");
    for reason in [
        LostReason::Expired,
        LostReason::Taken,
        LostReason::MaxHold,
        LostReason::Shutdown,
        LostReason::Released,
    ] {
        let text = reason.to_string().replace('`', "");
        assert!(page.replace('`', "").contains(&text), "errors.md does not quote: {text}");
    }
}

/// The longest part of a message that does not depend on values.
fn fixed_part(message: &str) -> &str {
    message.split('…').max_by_key(|piece| piece.len()).unwrap_or(message).trim()
}

/// Whether a file reads a program's configuration. All its errors occur while a user writes a URL.
fn reads_configuration(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let names = ["config.rs", "url.rs", "tls.rs", "connection.rs", "schemes.rs", "builder/servers.rs"];
    path.contains("/kit/url/") || names.iter().any(|name| path.ends_with(name))
}

/// Texts of `format!` that are not errors: names of stores in messages, and parts of an error that has a row.
const NO_ERRORS: [&str; 5] = [
    "PostgreSQL at …, …",
    "MySQL at …, …",
    "did you mean `…`?",
    "…. Redis also has `+sentinel`, `+cluster` and `+quorum`, as in `redis+cluster://`, and `sharded+redis://`; Valkey has the same schemes as Redis",
    "…://",
];

#[test]
fn what_is_wrong_with_options_keys_and_urls_is_listed() {
    let document = Document::parse(&book("errors.md"));
    let cells = document.tables.iter().flatten().flatten().map(|cell| cell.replace('`', ""));
    // One cell may list several messages.
    let listed: Vec<String> = cells
        .flat_map(|cell| cell.split("; ").map(str::to_owned).chain([cell.clone()]).collect::<Vec<_>>())
        .collect();
    let (mut found, mut missing) = (0, Vec::new());
    let folders = ["distlock/src", "distlock-store/src", "stores"].map(|folder| root().join(folder));
    for path in folders.iter().flat_map(|folder| sources(folder)) {
        if path.strip_prefix(root()).expect("one of its files").to_string_lossy().contains("tests") {
            continue;
        }
        let calls: &[&str] = match reads_configuration(&path) {
            true => &["LockError::options", "LockError::key", "Err", "ok_or", "format!"],
            false => &["LockError::options", "LockError::key"],
        };
        for message in messages(&read(&path), calls) {
            // A word or a value alone is not a sentence.
            if message.split(' ').count() < 4 || NO_ERRORS.contains(&message.as_str()) {
                continue;
            }
            found += 1;
            let plain = message.replace('`', "");
            // An entry that is little more than `…` would match every text.
            let lists = |entry: &String| {
                entry.contains(fixed_part(&plain)) || (fixed_part(entry).len() > 12 && fits(entry, &plain))
            };
            if !listed.iter().any(lists) {
                missing.push(format!("{}: {message}", path.display()));
            }
        }
    }
    assert!(found > 80, "{found} messages: the search finds too little");
    assert!(missing.is_empty(), "errors.md does not list:\n{}", missing.join("\n"));
}

/// The replies of a Redis server that have a remedy.
#[test]
fn every_reply_of_redis_that_has_a_remedy_has_a_row() {
    let source = read(&root().join("distlock/src/backend/redis/errors.rs"));
    let body = source.split_once("fn error_meaning").expect("the table of replies").1;
    let body = body.split_once("_ => return None").expect("its end").0;
    let codes: Vec<&str> = body
        .split('"')
        .filter(|text| text.len() > 2 && text.chars().all(|char| char.is_ascii_uppercase()))
        .collect();
    assert!(codes.len() >= 12, "{codes:?}");
    let cells = first_cells(&Document::parse(&book("errors.md")).tables);
    for code in codes {
        let has = cells.iter().any(|cell| code_spans(cell).iter().any(|span| span == code));
        assert!(has, "errors.md has no row for {code}");
    }
}

/// The message of a compile error, from the snapshots of tests/ui. `None`: the compiler's own text.
fn message_of(snapshot: &Path) -> Option<String> {
    let text = read(snapshot);
    let line = text.lines().find(|line| line.starts_with("error"))?;
    let (kind, message) = line.split_once(": ")?;
    // The other messages are the compiler's own. E0277 has a text of distlock if a trait of distlock is missing.
    let ours = kind == "error" || (kind == "error[E0277]" && !message.contains("trait bound"));
    (ours && !message.contains("std::fmt::Display")).then(|| message.replace('`', ""))
}

#[test]
fn every_message_of_the_attribute_has_a_row_and_every_row_a_message() {
    let mut messages = Vec::new();
    for folder in fs::read_dir(root().join("tests/ui")).expect("the snapshots") {
        let folder = folder.expect("a folder").path();
        // Errors in the body, with the compiler's own messages.
        if !folder.is_dir() || folder.ends_with("own_code") {
            continue;
        }
        for snapshot in fs::read_dir(folder).expect("a folder of snapshots") {
            let path = snapshot.expect("a snapshot").path();
            if path.extension().is_some_and(|extension| extension == "stderr") {
                messages.extend(message_of(&path));
            }
        }
    }
    assert!(messages.len() > 100, "{} messages", messages.len());
    let rows = first_cells(&Document::parse(&book("compile-errors.md")).tables);
    let patterns: Vec<String> = rows.iter().flat_map(|cell| code_spans(cell)).collect();
    for message in &messages {
        let listed = patterns.iter().any(|pattern| fits(pattern, message));
        assert!(listed, "compile-errors.md has no row for: {message}");
    }
    for pattern in &patterns {
        let met = messages.iter().any(|message| fits(pattern, message));
        assert!(met, "no mistake in tests/ui leads to: {pattern}");
    }
}

#[test]
fn patterns_fit_what_they_say() {
    assert!(fits("unknown option …", "unknown option wiat"));
    assert!(fits("… is zero", "ttl is zero"));
    assert!(fits("lock … is busy; …", "lock k is busy; try again"));
    assert!(!fits("… is zero", "ttl is zero now"));
    assert!(!fits("empty key", "empty keys"));
}

#[test]
fn the_fixed_part_is_the_longest() {
    assert_eq!(fixed_part("a ttl of … is too short: the shortest is …"), "is too short: the shortest is");
}
