//! Looking at locks: `show`, `wait`, `release`, `ping`.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use distlock::{LockInfo, LockKind, LockManager};
use serde_json::json;
use tokio::time::Instant;

use crate::args::{General, Key, Release, WaitFor};
use crate::connect::connect;
use crate::exit::Exit;
use crate::span::Wait;

/// How often `wait` asks.
const EVERY: Duration = Duration::from_millis(200);
const TTL_OF_PING: Duration = Duration::from_secs(5);

async fn inspect(manager: &LockManager, key: &str) -> Result<Option<LockInfo>, Exit> {
    manager.inspect(key).await.map_err(|error| Exit::told(&error))
}

fn kind(info: &LockInfo) -> String {
    match info.kind {
        LockKind::Exclusive => "exclusive".to_owned(),
        LockKind::Shared => "shared".to_owned(),
        LockKind::Limited { max_holders } => format!("limited to {max_holders}"),
        _ => "of another kind".to_owned(),
    }
}

/// The client in an owner token of this library: `dl1:<client>:<number>`.
fn client(token: &str) -> &str {
    let of_ours = token.strip_prefix("dl1:").and_then(|rest| rest.rsplit_once(':'));
    of_ours.map_or(token, |(client, _)| client)
}

fn left(remaining: Option<Duration>) -> String {
    match remaining {
        Some(time) => format!("{:.1} s left", time.as_secs_f64()),
        None => "without an end".to_owned(),
    }
}

/// Who holds a lock.
pub(crate) async fn show(general: &General, options: Key) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let found = inspect(&manager, &options.key).await?;
    if general.json {
        println!("{}", as_json(&options.key, found.as_ref()));
    } else if let Some(info) = &found {
        println!("{}  {}  {} waiting", shown(&info.key), kind(info), info.waiters);
        for holder in &info.holders {
            println!(
                "  held by {}  ({}, {})",
                shown(client(&holder.token)),
                shown(&holder.token),
                left(holder.remaining)
            );
        }
    } else {
        println!("{}  free", shown(&options.key));
    }
    Ok(if found.is_some() { Exit::Success } else { Exit::No })
}

fn as_json(key: &str, found: Option<&LockInfo>) -> serde_json::Value {
    let Some(info) = found else { return json!({ "key": key, "held": false }) };
    let holders = info.holders.iter().map(|holder| {
        let left_ms = holder.remaining.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        json!({ "token": holder.token, "client": client(&holder.token), "left_ms": left_ms })
    });
    json!({
        "key": info.key,
        "full_key": info.full_key,
        "held": true,
        "kind": kind(info),
        "holders": holders.collect::<Vec<_>>(),
        "waiters": info.waiters,
    })
}

/// Keys and tokens are the text of others: one that moves the cursor of a terminal is shown by its name.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns when the lock is free.
pub(crate) async fn wait(general: &General, options: WaitFor) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let until = match options.wait {
        Wait::Forever => None,
        Wait::For(time) => Some(Instant::now() + time),
    };
    loop {
        let Some(info) = inspect(&manager, &options.key).await? else { return Ok(Exit::Success) };
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            return Err(Exit::Busy.because(&format!(
                "{} is held by {}",
                shown(&info.key),
                shown(client(&info.holder))
            )));
        }
        let pause = until.map_or(EVERY, |until| EVERY.min(until - now));
        tokio::time::sleep(pause).await;
    }
}

/// Takes a lock away.
pub(crate) async fn release(general: &General, options: Release) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let Some(info) = inspect(&manager, &options.key).await? else {
        return Err(Exit::No.because(&format!("{} is free", shown(&options.key))));
    };
    let from: Vec<String> = info.holders.iter().map(|holder| shown(client(&holder.token))).collect();
    let from = if from.is_empty() { shown(client(&info.holder)) } else { from.join(", ") };
    if !options.force && !confirmed(&format!("{} is held by {from}. Take it away?", shown(&info.key)))? {
        return Err(Exit::No.because("nothing was changed"));
    }
    match manager.force_release(&options.key).await {
        Ok(true) => {
            println!("{} was taken from {from}", shown(&info.key));
            Ok(Exit::Success)
        }
        Ok(false) => Err(Exit::No.because(&format!("{} was released meanwhile", shown(&info.key)))),
        Err(error) => Err(Exit::told(&error)),
    }
}

/// Asks a person, if there is one.
fn confirmed(question: &str) -> Result<bool, Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(Exit::Usage.because("nobody can be asked here: give --force"));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Takes a lock that nobody else uses, and gives it back.
pub(crate) async fn ping(general: &General) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let key = format!("distlock:ping:{}", std::process::id());
    let start = Instant::now();
    let guard = manager.lock(key).ttl(TTL_OF_PING).no_wait().label("distlock ping").acquire().await;
    let guard = guard.map_err(|error| Exit::told(&error))?;
    guard.release().await.map_err(|error| Exit::told(&error))?;
    if general.json {
        println!("{}", json!({ "ok": true, "ms": start.elapsed().as_secs_f64() * 1e3 }));
    } else {
        println!("ok, {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_client_and_another_one_is_shown_whole() {
        assert_eq!(client("dl1:checkout-7.2f45:12"), "checkout-7.2f45");
        assert_eq!(client("somebody else's"), "somebody else's");
    }

    #[test]
    fn a_key_cannot_move_the_cursor() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{e4}"), "a\\u{1b}[2Jb\\n\u{e4}");
    }
}
