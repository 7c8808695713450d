//! `doctor`: risks in the store, with their remedies.

use std::time::Duration;

use distlock::{Finding, LockError, LockManager, LockRequest, Severity};
use serde_json::json;
use tokio::time::Instant;

use crate::args::General;
use crate::connect::connect;
use crate::exit::Exit;
use crate::look::own_key;
use crate::out::{say, say_json};
use crate::words::time;

const TTL: Duration = Duration::from_secs(5);
/// How often a lock is acquired and released.
const TIMES: usize = 20;
/// If the store has more locks than are read in this time, deadlocks are not examined.
const LONGEST_SEARCH: Duration = Duration::from_secs(30);
/// If a hand-off takes longer, the waiter was not notified, but has polled.
const PROMPT: Duration = Duration::from_millis(500);

pub(crate) async fn doctor(general: &General) -> Result<Exit, Exit> {
    let start = Instant::now();
    let manager = connect(general).await?;
    let mut report = Report { json: general.json, worst: Severity::Fine };
    report.fine("connection", &format!("made in {}", time(start.elapsed())));
    match manager.diagnose().await {
        Ok(findings) => findings.iter().for_each(|finding| report.tell(finding)),
        Err(error) => report.fault("server", &error),
    }
    let key = own_key("doctor");
    locks(&manager, &key, &mut report).await;
    hand_off(general, &manager, &key, &mut report).await?;
    listing(&manager, &key, &mut report).await;
    deadlocks(&manager, &mut report).await;
    Ok(if report.worst == Severity::Fault { Exit::No } else { Exit::Success })
}

/// Acquires a lock of each kind.
async fn locks(manager: &LockManager, key: &str, report: &mut Report) {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        if let Err(error) = take(manager.lock(key)).await {
            return report.fault("locks", &error);
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    report.fine("locks", &format!("acquired and released in {:.1} ms", median.as_secs_f64() * 1e3));
    let kinds: [(&str, LockRequest); 4] = [
        ("fencing tokens", manager.lock(key).fenced()),
        ("shared locks", manager.lock(key).shared()),
        ("max_holders", manager.lock(key).max_holders(2)),
        ("min_hold", manager.lock(key).min_hold(Duration::from_millis(10))),
    ];
    for (name, request) in kinds {
        match take(request).await {
            Ok(()) => report.fine(name, "work"),
            // The store does not have this ability, which is not a fault.
            Err(LockError::InvalidOptions { reason, .. }) => report.note(name, &reason),
            Err(error) => report.fault(name, &error),
        }
    }
}

async fn take(request: LockRequest) -> Result<(), LockError> {
    request.ttl(TTL).wait(TTL).label("distlock doctor").acquire().await?.release().await
}

/// Checks that a lock passes to another client.
async fn hand_off(
    general: &General,
    manager: &LockManager,
    key: &str,
    report: &mut Report,
) -> Result<(), Exit> {
    let other = connect(general).await?;
    let Ok(guard) = manager.lock(key).ttl(TTL).wait(TTL).acquire().await else { return Ok(()) };
    let waiter = tokio::spawn(other.lock(key).ttl(TTL).wait(TTL * 2).acquire());
    // If the store shows no waiters, this waits for a moment instead.
    let until = Instant::now() + PROMPT;
    while Instant::now() < until
        && manager.inspect(key).await.is_ok_and(|info| info.is_none_or(|info| info.waiters == 0))
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let start = Instant::now();
    let released = guard.release().await;
    let got = waiter.await.map_err(|error| Exit::Unavailable.because(&error.to_string()))?;
    let took = start.elapsed();
    match released.and(got) {
        Ok(next) => {
            drop(next.release().await);
            if took < PROMPT && manager.health().pushes {
                report.fine("hand-off", &format!("the next client had the lock after {}", time(took)));
            } else {
                report.tell_all(
                    Severity::Warning,
                    "hand-off",
                    &format!(
                        "the next client had the lock after {}: it was not notified, and polls",
                        time(took)
                    ),
                    Some(
                        "allow the user to subscribe and publish on the channels below the prefix, as in `&*` \
                         (Redis), or connect without a proxy that does not forward pushes",
                    ),
                );
            }
        }
        Err(error) => report.fault("hand-off", &error),
    }
    Ok(())
}

/// Whether `ls`, `show` and `top` can see the locks.
async fn listing(manager: &LockManager, key: &str, report: &mut Report) {
    let mut locks = manager.list(key);
    while let Some(entry) = locks.next().await {
        if let Err(error) = entry {
            return report.note("list", &error.to_string());
        }
    }
    match locks.unread() {
        [] => report.fine("list", "the locks can be listed"),
        unread => report.tell_all(
            Severity::Warning,
            "list",
            &format!("{} cannot be read", unread.join(", ")),
            Some("bring the servers back: until then, their locks are not listed"),
        ),
    }
}

/// Searches for holders of all processes that wait for each other.
async fn deadlocks(manager: &LockManager, report: &mut Report) {
    let found = match tokio::time::timeout(LONGEST_SEARCH, manager.deadlocks()).await {
        Ok(Ok(found)) => found,
        // The store does not have this ability, which is not a fault.
        Ok(Err(LockError::InvalidOptions { reason, .. })) => return report.note("deadlocks", &reason),
        Ok(Err(error)) => return report.note("deadlocks", &error.to_string()),
        Err(_late) => {
            let text =
                format!("not examined: the store has too many locks to read within {}", time(LONGEST_SEARCH));
            return report.note("deadlocks", &text);
        }
    };
    if found.is_empty() {
        report.fine("deadlocks", "none");
    }
    for deadlock in found {
        report.tell_all(
            Severity::Warning,
            "deadlock",
            &deadlock.to_string(),
            Some("release one of the locks that they hold (`distlock release KEY`); let the programs acquire these locks in \
                  one order, or in one request, or set `break_deadlocks(true)` on their managers"),
        );
    }
}

struct Report {
    json: bool,
    worst: Severity,
}

impl Report {
    fn fine(&mut self, about: &str, text: &str) {
        self.tell_all(Severity::Fine, about, text, None);
    }

    fn note(&mut self, about: &str, text: &str) {
        self.tell_all(Severity::Note, about, text, None);
    }

    /// Reports an error of the library, which names the remedy.
    fn fault(&mut self, about: &str, error: &LockError) {
        self.tell_all(Severity::Fault, about, &error.to_string(), None);
    }

    fn tell(&mut self, finding: &Finding) {
        self.tell_all(finding.severity, &finding.about, &finding.text, finding.remedy.as_deref());
    }

    fn tell_all(&mut self, severity: Severity, about: &str, text: &str, remedy: Option<&str>) {
        self.worst = self.worst.max(severity);
        let word = match severity {
            Severity::Fine => "ok",
            Severity::Note => "note",
            Severity::Warning => "warning",
            _ => "fault",
        };
        if self.json {
            say_json(&json!({ "severity": word, "about": about, "text": text, "remedy": remedy }));
            return;
        }
        say(format_args!("{word:<8} {about}: {text}"));
        if let Some(remedy) = remedy {
            say(format_args!("{:<8} → {remedy}", ""));
        }
    }
}
