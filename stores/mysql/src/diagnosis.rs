//! Risks for locks on a server.

use std::collections::HashMap;

use super::MysqlStore;
use super::link::{Limit, Statement};
use super::statements::column;
use distlock_store::Severity::{Fault, Fine, Note, Warning};
use distlock_store::{Finding, StoreError};

/// This query needs no permission.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', \
                        'innodb_doublewrite', 'log_bin', 'sync_binlog', 'wsrep_on')";

impl MysqlStore {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        let answer = pool.ask(Statement::Text(&|_| SETTINGS.to_owned()), limit).await?;
        let pairs = answer.rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?)));
        Ok(of_settings(&pairs.collect::<Result<_, StoreError>>()?))
    }
}

pub(super) fn of_settings(settings: &HashMap<String, String>) -> Vec<Finding> {
    let setting = |name: &str| settings.get(name).map_or("", String::as_str);
    let is = |name: &str, value: &str| setting(name).eq_ignore_ascii_case(value);
    let mut found = vec![flush(setting("innodb_flush_log_at_trx_commit"))];
    if is("innodb_doublewrite", "OFF") {
        let text =
            "innodb_doublewrite OFF: a crash of the machine can leave half-written pages of the tables";
        found.push(Finding::new(Warning, "doublewrite", text).remedy("set innodb_doublewrite = ON"));
    }
    if is("log_bin", "ON") {
        // A server that logs statements never gets here: it is refused (see errors.rs).
        found.push(binlog(setting("sync_binlog")));
    }
    if is("wsrep_on", "ON") {
        let text = "this is a node of a Galera cluster, on which distlock is not tested";
        let remedy = "let all programs connect to the same node, or give locks a server of their own";
        found.push(Finding::new(Warning, "cluster", text).remedy(remedy));
    }
    found
}

/// Whether a commit is on the disk when the server replies.
fn flush(value: &str) -> Finding {
    let about = "innodb_flush_log_at_trx_commit";
    let crash = match value {
        // In MariaDB, 3 is the same as 1 with one more flush.
        "1" | "3" => return Finding::new(Fine, about, value),
        "" => return Finding::new(Note, about, "the server does not report it"),
        "2" => "a crash of the machine",
        _ => "a crash of the server",
    };
    let text =
        format!("{value}: {crash} can lose the last second of locks, and hand out a fencing token twice");
    Finding::new(Fault, about, text)
        .remedy("SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's file")
}

/// After a crash, transactions that are not in the binary log are rolled back.
fn binlog(value: &str) -> Finding {
    let about = "sync_binlog";
    if value == "1" {
        return Finding::new(Fine, about, value);
    }
    let text = format!(
        "{value}, with a binary log: a crash of the machine can lose the last locks, and hand out a fencing token twice"
    );
    Finding::new(Fault, about, text).remedy("SET GLOBAL sync_binlog = 1, and in the server's file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(pairs: &[(&str, &str)]) -> Vec<String> {
        let settings = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = of_settings(&settings).into_iter();
        found.filter(|finding| finding.severity >= Warning).map(|finding| finding.about).collect()
    }

    #[test]
    fn what_a_crash_can_lose_is_a_fault() {
        let flush = "innodb_flush_log_at_trx_commit";
        assert!(faults(&[(flush, "1")]).is_empty() && faults(&[(flush, "3")]).is_empty());
        assert_eq!(faults(&[(flush, "0")]), [flush]);
        assert_eq!(faults(&[(flush, "2")]), [flush]);
        assert!(super::flush("0").text.contains("of the server"));
        assert!(super::flush("2").text.contains("of the machine"));
    }

    #[test]
    fn the_binary_log_counts_if_there_is_one() {
        let on = [("innodb_flush_log_at_trx_commit", "1"), ("sync_binlog", "0")];
        assert!(faults(&on).is_empty());
        let on = [on.as_slice(), &[("log_bin", "ON")]].concat();
        assert_eq!(faults(&on), ["sync_binlog"]);
    }

    #[test]
    fn a_node_of_a_cluster_is_named() {
        assert_eq!(faults(&[("innodb_flush_log_at_trx_commit", "1"), ("wsrep_on", "ON")]), ["cluster"]);
    }
}
