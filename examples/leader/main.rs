//! Mails that are due, sent by one instance of a service at a time, although every instance could.
//!
//! ```text
//! cargo run --release --example leader                              embedded, nothing to install
//! cargo run --release --example leader -- --url redis://127.0.0.1/  through Redis
//! ```
//!
//! The functions to copy are `Instance::lead` and `Outbox::mark_sent`: the second refuses what a former leader sends
//! that has not noticed the end of its term.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use distlock::{FencingToken, LockError, LockManager, leader::Lead};
use distlock_examples::{AnyError, Args, Comparison, Table, instances, run};
use tokio::task::JoinSet;

const HELP: &str = "\
usage: leader [options]
  --url URL        where the office is kept: memory: (default), redis://host:port/, ...
  --instances N    instances of the service, which are restarted one after the other (default 4)
  --mails N        mails that are due (default 80)";

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("a later leader has sent mails already")]
    FormerLeader,
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// One instance of the service.
#[derive(Debug, Clone)]
struct Instance {
    locks: LockManager,
    outbox: Outbox,
    /// After so many mails it is restarted.
    lives_for: usize,
}

impl Instance {
    /// Sends mails while it leads; the other instances stand by.
    async fn lead(&self) -> Result<(), MailError> {
        let candidate = self.locks.leader("mailer").ttl(Duration::from_secs(10));
        candidate.run(async |lead| self.send_what_is_due(Some(&lead)).await).await?
    }

    /// The same without a leader: every instance sends.
    async fn send_what_is_due(&self, lead: Option<&Lead>) -> Result<(), MailError> {
        for _ in 0..self.lives_for {
            let Some(mail) = self.outbox.next() else { return Ok(()) };
            // Here it talks to the mail server, and others may do so too.
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.outbox.mark_sent(mail, lead.map(Lead::term))?;
        }
        Ok(())
    }
}

/// Stands for a table in a database.
#[derive(Debug, Clone)]
struct Outbox(Arc<Mutex<Mails>>);

#[derive(Debug)]
struct Mails {
    /// How often each was sent.
    sent: Vec<usize>,
    /// The terms in which they were sent.
    terms: Vec<FencingToken>,
}

impl Outbox {
    fn new(mails: usize) -> Self {
        Outbox(Arc::new(Mutex::new(Mails { sent: vec![0; mails], terms: Vec::new() })))
    }

    /// The first that was not sent.
    fn next(&self) -> Option<usize> {
        let mails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mails.sent.iter().position(|times| *times == 0)
    }

    /// In SQL: `UPDATE outbox SET sent = sent + 1, term = $1 WHERE id = $2 AND (SELECT max(term) …) <= $1`.
    fn mark_sent(&self, mail: usize, term: Option<FencingToken>) -> Result<(), MailError> {
        let mut mails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(term) = term {
            match mails.terms.last() {
                Some(latest) if *latest > term => return Err(MailError::FormerLeader),
                Some(latest) if *latest == term => {}
                _ => mails.terms.push(term),
            }
        }
        if let Some(times) = mails.sent.get_mut(mail) {
            *times += 1;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Outcome {
    sent: usize,
    repeated: usize,
    leaders: usize,
    errors: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(HELP, &["--url", "--instances", "--mails"], compare).await
}

async fn compare(args: Args) -> Result<Comparison, AnyError> {
    let (count, due) = (args.number("--instances", 4)?, args.number("--mails", 80)?);
    let managers = instances(args.url(), count).await?;
    let mut table = Table::new(["", "due", "sent", "sent twice or more", "leaders", "errors"]);
    let mut outcome = Outcome::default();
    for (name, with_leader) in [("everybody sends", false), ("the leader sends", true)] {
        outcome = send_all(&managers, due, with_leader).await;
        table.row([
            name.to_owned(),
            due.to_string(),
            outcome.sent.to_string(),
            outcome.repeated.to_string(),
            outcome.leaders.to_string(),
            outcome.errors.to_string(),
        ]);
    }
    let Outcome { sent, repeated, leaders, errors } = outcome;
    Ok(Comparison {
        title: format!("{due} mails are due; {count} instances, restarted one after the other"),
        table,
        verdict: format!("{leaders} leaders, one after the other: {repeated} mails were sent twice."),
        kept: sent == due && repeated == 0 && errors == 0,
    })
}

async fn send_all(managers: &[LockManager], due: usize, with_leader: bool) -> Outcome {
    let outbox = Outbox::new(due);
    let mut working = JoinSet::new();
    for locks in managers {
        let lives_for = if with_leader { due.div_ceil(managers.len()) } else { due };
        let instance = Instance { locks: locks.clone(), outbox: outbox.clone(), lives_for };
        working.spawn(async move {
            if with_leader { instance.lead().await } else { instance.send_what_is_due(None).await }
        });
    }
    let mut errors = 0;
    while let Some(ended) = working.join_next().await {
        errors += usize::from(!matches!(ended, Ok(Ok(()))));
    }
    let mails = outbox.0.lock().unwrap_or_else(PoisonError::into_inner);
    Outcome {
        sent: mails.sent.iter().filter(|times| **times > 0).count(),
        repeated: mails.sent.iter().filter(|times| **times > 1).count(),
        leaders: mails.terms.len(),
        errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_leader_after_the_other_sends_each_mail_once() {
        let managers = instances("memory:", 4).await.unwrap();
        let outcome = send_all(&managers, 40, true).await;
        assert_eq!((outcome.sent, outcome.repeated, outcome.leaders, outcome.errors), (40, 0, 4, 0));
        assert!(send_all(&managers, 40, false).await.repeated > 0, "without a leader everybody sends");
    }
}
