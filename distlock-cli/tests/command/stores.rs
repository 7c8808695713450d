//! The command on the other stores: it runs commands under a lock, shows the holder, releases the lock by force, and
//! ends a command that has lost its lock.

use std::process::{Command, Stdio};

use distlock_fixtures::{EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, ZooKeeperServers};

use super::{Running, assert_status, output, text};

/// The abilities of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fences {
    Yes,
    No,
}

fn distlock(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    command.args(["--url", url]).args(arguments).stdin(Stdio::null());
    command.env_remove("DISTLOCK_URL").env_remove("DISTLOCK_PREFIX").env_remove("DISTLOCK_NAME");
    command
}

/// Exits with the status of the command.
fn status_of_command(url: &str, more: &[&str]) {
    let mut command = distlock(url, &["run", "--key", "k", "--ttl", "5s", "--kill-after", "500ms"]);
    let done =
        output(command.args(more).args(["-c", "echo $DISTLOCK_KEY ${DISTLOCK_FENCE:+fenced}; exit 7"]));
    assert_status(&done, 7);
    let fenced = if more.contains(&"--fenced") { "k fenced\n" } else { "k \n" };
    assert_eq!(text(&done.stdout).trim_end(), fenced.trim_end());
}

fn works_on(url: &str, lists: Lists, fences: Fences) {
    assert_status(&output(&mut distlock(url, &["ping"])), 0);
    let examined = output(&mut distlock(url, &["doctor"]));
    assert_eq!(examined.status.code(), Some(0), "{}", text(&examined.stdout));
    assert!(!text(&examined.stdout).contains("not examined"), "{}", text(&examined.stdout));
    status_of_command(url, &[]);
    if fences == Fences::Yes {
        status_of_command(url, &["--fenced"]);
    }

    let mut arguments =
        vec!["--name", "nightly", "run", "--key", "k", "--ttl", "5s", "--kill-after", "500ms"];
    arguments.extend(["-c", "echo begun; sleep 1000"]);
    let mut holder = Running::start(&mut distlock(url, &arguments));
    assert_eq!(holder.line(), "begun");
    assert_status(&output(&mut distlock(url, &["run", "--key", "k", "--wait", "0", "-c", "true"])), 75);
    let shown = output(&mut distlock(url, &["show", "k"]));
    assert_status(&shown, 0);
    assert!(text(&shown.stdout).contains("held by nightly."), "{}", text(&shown.stdout));
    assert_status(&output(&mut distlock(url, &["wait", "k", "--wait", "100ms"])), 75);
    let listed = output(&mut distlock(url, &["ls"]));
    match lists {
        Lists::Yes => {
            assert_status(&listed, 0);
            assert!(
                text(&listed.stdout).lines().any(|line| line.starts_with("k ")),
                "{}",
                text(&listed.stdout)
            );
        }
        Lists::No => {
            assert_status(&listed, 64);
            assert!(text(&listed.stderr).contains("inspect single keys"), "{}", text(&listed.stderr));
        }
    }
    let released = output(&mut distlock(url, &["release", "k", "--force"]));
    assert_status(&released, 0);
    assert!(text(&released.stdout).starts_with("k was taken from nightly."), "{}", text(&released.stdout));
    assert_eq!(holder.status().code(), Some(76), "its command was ended");
    assert_status(&output(&mut distlock(url, &["wait", "k", "--wait", "60s"])), 0);
    assert_status(&output(&mut distlock(url, &["show", "k"])), 1);
}

/// It needs no URL and no server.
#[test]
fn it_prints_the_sql_of_the_tables_as_it_is_run() {
    let sql = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        output(command.arg("sql").args(arguments).env_remove("DISTLOCK_URL"))
    };
    let printed = sql(&["postgres", "--schema", "mine"]);
    assert_status(&printed, 0);
    assert_eq!(text(&printed.stdout), distlock_postgres::sql("mine").unwrap());
    let printed = sql(&["mysql"]);
    assert_status(&printed, 0);
    assert_eq!(text(&printed.stdout), distlock_mysql::sql("distlock_").unwrap());
    assert_status(&sql(&["postgres", "--schema", "a; b"]), 64);
    assert_status(&sql(&["mysql", "--table-prefix", "`"]), 64);
}

#[test]
fn it_works_on_postgresql() {
    // Test servers do not flush to the disk, which `doctor` reports as a fault.
    works_on(&PostgresServer::with(&["fsync=on"]).url(), Lists::Yes, Fences::Yes);
}

#[test]
fn it_works_on_etcd() {
    works_on(&EtcdServers::one().url(), Lists::Yes, Fences::Yes);
}

#[test]
fn it_works_on_zookeeper() {
    works_on(&ZooKeeperServers::one().url(), Lists::Yes, Fences::Yes);
}

#[test]
fn it_works_on_mariadb() {
    let durable = MariaDbServer::with(&["--innodb-flush-log-at-trx-commit=1"]);
    works_on(&durable.url(), Lists::Yes, Fences::Yes);
}

#[test]
fn it_works_on_memcached() {
    works_on(&MemcachedServer::start().url(), Lists::No, Fences::No);
}

#[test]
fn it_works_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    works_on(&format!("sqlite:{}/locks.db", directory.path().display()), Lists::Yes, Fences::Yes);
}
