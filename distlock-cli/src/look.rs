//! The subcommands `show`, `wait`, `release` and `ping`.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use distlock::{LockInfo, LockManager};
use serde_json::json;
use tokio::time::Instant;

use crate::args::{General, Key, Release, WaitFor};
use crate::as_json;
use crate::connect::connect;
use crate::exit::Exit;
use crate::out::{ask, say, say_json};
use crate::rates;
use crate::span::Wait;
use crate::take::{Taken, take_from};
use crate::words::{self, Parties, client, clients, shown, time};

/// How often `wait` asks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const TTL_OF_PING: Duration = Duration::from_secs(5);

async fn inspect(manager: &LockManager, key: &str) -> Result<Option<LockInfo>, Exit> {
    manager.inspect(key).await.map_err(|error| Exit::told(&error))
}

fn left(remaining: Option<Duration>) -> String {
    match remaining {
        Some(left) => format!("{} left", time(left)),
        None => "without expiry".to_owned(),
    }
}

/// Shows the holders of a lock.
pub(crate) async fn show(general: &General, options: Key) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let found = inspect(&manager, &options.key).await?;
    match (&found, general.json) {
        (Some(info), true) => {
            let mut lock = as_json::lock(&info.into());
            lock["unanswered"] = json!(info.unanswered);
            say_json(&lock);
        }
        (None, true) => say_json(&as_json::free(&options.key)),
        (Some(info), false) => print(info),
        (None, false) => say(format_args!("{}  free", shown(&options.key))),
    }
    Ok(if found.is_some() { Exit::Success } else { Exit::No })
}

fn print(info: &LockInfo) {
    let parties = Parties::from(info);
    say(format_args!("{}  {}  {} waiting", shown(&info.key), words::kind(info.kind), parties.waiters));
    for holder in &info.holders {
        let mut facts = Vec::new();
        facts.extend(holder.client.as_ref().and_then(words::process));
        facts.extend(holder.label.as_deref().map(|label| format!("label {}", shown(label))));
        facts.extend(holder.since.map(|since| format!("for {}", time(since))));
        facts.push(left(holder.remaining));
        facts.extend(holder.users.filter(|users| *users > 1).map(|users| format!("{users} readers")));
        facts.push(shown(&holder.token));
        say(format_args!("  held by {}  ({})", shown(client(&holder.token)), facts.join(", ")));
    }
    for (place, waiter) in info.waiting.iter().enumerate() {
        let mut facts = Vec::new();
        facts.extend(waiter.client.as_ref().and_then(words::process));
        facts.extend(waiter.label.as_deref().map(|label| format!("label {}", shown(label))));
        facts.extend(waiter.since.map(|since| format!("for {}", time(since))));
        facts.extend(
            waiter.requests.filter(|requests| *requests > 1).map(|count| format!("{count} requests")),
        );
        let id = waiter.client.as_ref().map(|client| client.id.as_str()).or(waiter.token.as_deref());
        say(format_args!("  {}. waits {}  ({})", place + 1, shown(id.unwrap_or("?")), facts.join(", ")));
    }
    for silent in &info.unanswered {
        say(format_args!("  no sign of life from {}: stopped, dead or cut off", shown(silent)));
    }
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
        let pause = until.map_or(POLL_INTERVAL, |until| POLL_INTERVAL.min(until - now));
        tokio::time::sleep(pause).await;
    }
}

/// Releases a lock by force, but only the leases of its holders at this moment.
pub(crate) async fn release(general: &General, options: Release) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let key = shown(&options.key);
    let Some(info) = inspect(&manager, &options.key).await? else {
        return Err(Exit::No.because(&format!("{key} is free")));
    };
    let mut owners: Vec<String> = info.holders.iter().map(|holder| holder.token.clone()).collect();
    if owners.is_empty() {
        owners.push(info.holder);
    }
    let another = |holder: &str| {
        let holder = shown(client(holder));
        Exit::No.because(&format!("{key} now has another holder: {holder}. Nothing was changed"))
    };
    if let Some(token) = &options.token {
        if !owners.contains(token) {
            return Err(another(owners.first().map_or("?", String::as_str)));
        }
        owners.retain(|owner| owner == token);
    }
    if !options.force && !confirmed(&format!("{key} is held by {}. Release it?", clients(&owners)))? {
        return Err(Exit::No.because("nothing was changed"));
    }
    match take_from(&manager, &options.key, &owners).await {
        Ok(Taken::From(owners)) => {
            say(format_args!("{key} was taken from {}", clients(&owners)));
            Ok(Exit::Success)
        }
        // The user was not asked about a holder, and named none.
        Ok(_) if options.force && options.token.is_none() => {
            match manager.force_release(&options.key).await {
                Ok(true) => {
                    say(format_args!(
                        "{key} was taken from its next holder, because {} had already released it",
                        clients(&owners)
                    ));
                    Ok(Exit::Success)
                }
                Ok(false) => Err(Exit::No.because(&format!("{key} was released meanwhile"))),
                Err(error) => Err(Exit::told(&error)),
            }
        }
        Ok(Taken::HeldByAnother(holder)) => Err(another(&holder)),
        Ok(Taken::NotHeld) => Err(Exit::No.because(&format!("{key} was released meanwhile"))),
        Err(failed) => Err(Exit::of(&failed.error).because(&failed.to_string())),
    }
}

/// Asks the user, if there is a terminal.
fn confirmed(question: &str) -> Result<bool, Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(Exit::Usage
            .because("standard input is not a terminal, so the release cannot be confirmed: give --force"));
    }
    let mut answer = String::new();
    let read =
        ask(format_args!("{question} [y/N] ")).and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Acquires and releases a lock that no other process uses.
pub(crate) async fn ping(general: &General) -> Result<Exit, Exit> {
    let manager = connect(general).await?;
    let key = own_key("ping");
    let start = Instant::now();
    let guard = manager.lock(key).ttl(TTL_OF_PING).no_wait().label("distlock ping").acquire().await;
    let guard = guard.map_err(|error| Exit::told(&error))?;
    guard.release().await.map_err(|error| Exit::told(&error))?;
    if general.json {
        say_json(&json!({ "ok": true, "ms": start.elapsed().as_secs_f64() * 1e3 }));
    } else {
        say(format_args!("ok, {:.1} ms", start.elapsed().as_secs_f64() * 1e3));
    }
    Ok(Exit::Success)
}

/// A key that no other process uses: containers on different machines have the same process ids.
pub(crate) fn own_key(purpose: &str) -> String {
    format!("distlock:{purpose}:{}:{}", rates::host(), std::process::id())
}
