//! Risks for locks on a server, and causes of slowness.

use std::time::{Duration, SystemTime};

use redis::{Cmd, Value, cmd};

use super::exec::{Exec, ask_all};
use super::info::{field, text};
use super::link::Link;
use super::reply;
use crate::backend::{ServerTime, StoreError};
use distlock_store::{Finding, Severity};

/// A clock that differs by more than this from the clock of this process is reported. In a quorum, such a server does
/// not count.
const CLOCKS_APART: Duration = Duration::from_secs(1);
/// No connection has this id.
const NO_CLIENT_ID: i64 = i64::MAX;

/// How the locks of this server survive its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// The server alone keeps them. `confirmed`: replicas confirm acquisitions and renewals.
    Single { confirmed: bool },
    /// It is one of several that must agree.
    Member,
}

/// Examines the server behind `link`.
pub(super) async fn examine(
    exec: &Exec,
    link: &Link,
    place: &str,
    setup: Setup,
) -> Result<Vec<Finding>, StoreError> {
    let before = SystemTime::now();
    let values = ask_all(link, questions(exec)).await?;
    Ok(found(&values, place, setup, (before, SystemTime::now())))
}

/// The findings in the replies to [`questions`], which were asked between these times.
pub(super) fn found(
    values: &[Value],
    place: &str,
    setup: Setup,
    asked: (SystemTime, SystemTime),
) -> Vec<Finding> {
    let [server, memory, persistence, replication, time, kill, queue, scan] = values else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut add = |finding: Option<Finding>| {
        found.extend(finding.map(|mut finding| {
            finding.about = format!("{place}: {}", finding.about);
            finding
        }));
    };
    add(Some(version(text(server))));
    add(Some(eviction(text(memory))));
    add(Some(persists(text(persistence), setup)));
    add(saving(text(persistence)));
    add(Some(replicated(text(replication), setup)));
    add(clock(reply::of_time(time), asked));
    add(Some(permissions([
        (server, "info", "the version, eviction and persistence are not known"),
        (kill, "client|kill", "a command of a broken connection may still be executed later"),
        (queue, "lrange", "`show` and `top` do not name the waiters"),
        (scan, "scan", "`ls` and `top` cannot list locks"),
    ])));
    found
}

fn questions(exec: &Exec) -> Vec<Cmd> {
    let info = |section| cmd("INFO").arg(section).to_owned();
    let kill = cmd("CLIENT").arg("KILL").arg("ID").arg(NO_CLIENT_ID).to_owned();
    let names = &exec.wire.names;
    let queue = names.queue(names.tag("dl1:probe"), "dl1:probe").to_string();
    let queue = cmd("LRANGE").arg(queue).arg(0).arg(0).to_owned();
    let scan = cmd("SCAN").arg(0).arg("COUNT").arg(1).to_owned();
    let time = cmd("TIME");
    vec![info("server"), info("memory"), info("persistence"), info("replication"), time, kill, queue, scan]
}

fn version(info: Option<&str>) -> Finding {
    let name = field(info, "server_name").unwrap_or("redis");
    let Some(version) = field(info, "valkey_version").or(field(info, "redis_version")) else {
        return Finding::new(Severity::Note, "version", "the server does not report its version")
            .remedy("if it is a proxy, connect to the server behind it");
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let finding = |severity| Finding::new(severity, "version", format!("{name} {version}"));
    match major {
        Some(..=5) => finding(Severity::Warning).remedy("distlock needs 6.2 or later: upgrade the server"),
        Some(6) => finding(Severity::Note)
            .remedy("from 7.0 on, a free lock is acquired by one plain command instead of a script"),
        _ => finding(Severity::Fine),
    }
}

fn eviction(info: Option<&str>) -> Finding {
    let Some(policy) = field(info, "maxmemory_policy") else {
        return Finding::new(Severity::Note, "eviction", "the server does not report whether it evicts keys");
    };
    if policy == "noeviction" {
        return Finding::new(Severity::Fine, "eviction", "maxmemory-policy noeviction");
    }
    if field(info, "maxmemory") == Some("0") {
        let text = format!("maxmemory-policy {policy}, without a limit (maxmemory 0)");
        return Finding::new(Severity::Fine, "eviction", text);
    }
    let text = format!("maxmemory-policy `{policy}` may evict locks while they are held: two holders");
    let remedy = "set maxmemory-policy noeviction, or give locks a server of their own";
    Finding::new(Severity::Fault, "eviction", text).remedy(remedy)
}

fn persists(info: Option<&str>, setup: Setup) -> Finding {
    match (field(info, "aof_enabled"), setup) {
        (Some("1"), _) => Finding::new(Severity::Fine, "persistence", "appendonly yes"),
        (None, _) => Finding::new(Severity::Note, "persistence", "the server does not report whether it writes to disk"),
        (_, Setup::Member) => Finding::new(
            Severity::Fine,
            "persistence",
            "appendonly no: after a restart the server does not count for the longest ttl",
        ),
        (_, Setup::Single { .. }) => Finding::new(
            Severity::Note,
            "persistence",
            "appendonly no: a restart of the server forgets the locks that are held, and others may acquire them",
        )
        .remedy("set appendonly yes with appendfsync always, use redis+quorum://, or let the data check fencing tokens"),
    }
}

fn saving(info: Option<&str>) -> Option<Finding> {
    let failed = ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"];
    let failed = failed.iter().find(|name| field(info, name) == Some("err"))?;
    let finding = Finding::new(
        Severity::Warning,
        "disk",
        format!("{failed}: err; the server may refuse writes (MISCONF)"),
    );
    Some(finding.remedy("check the server's log and the free space on its disk"))
}

fn replicated(info: Option<&str>, setup: Setup) -> Finding {
    let count = field(info, "connected_slaves").and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
    match setup {
        Setup::Single { confirmed: false } if count > 0 => Finding::new(
            Severity::Note,
            "replication",
            format!(
                "{count} replicas, which do not confirm: a fail-over may forget a lock that was just acquired"
            ),
        )
        .remedy("connect with `?replicas=n`, or let the data check fencing tokens"),
        Setup::Single { confirmed: true } => Finding::new(
            Severity::Fine,
            "replication",
            format!("{count} replicas, which confirm acquisitions and renewals"),
        ),
        Setup::Single { .. } | Setup::Member => {
            Finding::new(Severity::Fine, "replication", format!("{count} replicas"))
        }
    }
}

fn clock(server: Option<ServerTime>, (before, after): (SystemTime, SystemTime)) -> Option<Finding> {
    let server = SystemTime::UNIX_EPOCH + Duration::from_micros(server?.0);
    let ahead = server.duration_since(after).unwrap_or_default();
    let behind = before.duration_since(server).unwrap_or_default();
    let apart = ahead.max(behind);
    if apart < CLOCKS_APART {
        return Some(Finding::new(Severity::Fine, "clock", "agrees with the clock of this machine"));
    }
    let direction = if ahead > behind { "ahead of" } else { "behind" };
    let text = format!("{:.1} s {direction} the clock of this machine", apart.as_secs_f64());
    let finding = Finding::new(Severity::Warning, "clock", text);
    Some(finding.remedy(
        "synchronise the clocks of all machines (NTP); locks do not depend on that, but a quorum does",
    ))
}

/// The commands that are refused because of missing permissions.
fn permissions(asked: [(&Value, &str, &str); 4]) -> Finding {
    let is_refused = |value: &Value| matches!(value, Value::ServerError(error) if error.code() == "NOPERM");
    let refused: Vec<_> = asked.into_iter().filter(|(value, ..)| is_refused(value)).collect();
    if refused.is_empty() {
        return Finding::new(
            Severity::Fine,
            "permissions",
            "the user has all permissions that distlock uses",
        );
    }
    let texts: Vec<String> = refused.iter().map(|(_, name, what)| format!("no +{name}: {what}")).collect();
    let grants: Vec<String> = refused.iter().map(|(_, name, _)| format!("+{name}")).collect();
    Finding::new(Severity::Note, "permissions", texts.join("; "))
        .remedy(format!("ACL SETUSER <user> {}", grants.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_evicts_is_a_fault_if_there_is_a_limit() {
        let severity = |info: &str| eviction(Some(info)).severity;
        assert_eq!(severity("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), Severity::Fine);
        assert_eq!(severity("maxmemory:9\r\nmaxmemory_policy:noeviction\r\n"), Severity::Fine);
        assert_eq!(severity("maxmemory:9\r\nmaxmemory_policy:volatile-ttl\r\n"), Severity::Fault);
        assert_eq!(eviction(None).severity, Severity::Note);
    }

    #[test]
    fn what_a_restart_or_a_fail_over_forgets_depends_on_the_setup() {
        let (alone, confirmed) = (Setup::Single { confirmed: false }, Setup::Single { confirmed: true });
        assert_eq!(persists(Some("aof_enabled:0\r\n"), alone).severity, Severity::Note);
        assert_eq!(persists(Some("aof_enabled:0\r\n"), Setup::Member).severity, Severity::Fine);
        assert_eq!(persists(Some("aof_enabled:1\r\n"), alone).severity, Severity::Fine);
        let replicas = Some("connected_slaves:2\r\n");
        assert_eq!(replicated(replicas, alone).severity, Severity::Note);
        assert_eq!(replicated(replicas, confirmed).severity, Severity::Fine);
        assert!(saving(Some("rdb_last_bgsave_status:err\r\n")).is_some());
        assert!(saving(Some("rdb_last_bgsave_status:ok\r\n")).is_none());
    }

    #[test]
    fn a_clock_that_is_far_off_is_reported_with_its_direction() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let found = |server: u64| clock(Some(ServerTime(server * 1_000_000)), (at(100), at(101))).unwrap();
        assert_eq!(found(100).severity, Severity::Fine);
        assert!(found(110).text.contains("9.0 s ahead of"), "{}", found(110).text);
        assert!(found(90).text.contains("10.0 s behind"), "{}", found(90).text);
    }

    #[test]
    fn old_servers_are_named() {
        let severity = |version: &str| super::version(Some(&format!("redis_version:{version}\r\n"))).severity;
        assert_eq!(severity("5.0.14"), Severity::Warning);
        assert_eq!(severity("6.2.1"), Severity::Note);
        assert_eq!(severity("7.0.15"), Severity::Fine);
    }
}
