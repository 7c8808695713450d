//! Mails that are due, sent by one instance of a service at a time, although every instance could.
//!
//! ```text
//! cargo run --release --example leader                              embedded, nothing to install
//! cargo run --release --example leader -- --url redis://127.0.0.1/  through Redis
//! ```
//!
//! The functions to copy are `Instance::lead` and `Outbox::mark_sent`. The second one refuses a former leader that has
//! not noticed the end of its term.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Parser;
use distlock::{FencingToken, LockError, LockManager, leader::Lead};
use distlock_examples::{AnyError, Comparison, Store, count, instances, run, table};
use tokio::task::JoinSet;

/// Mails that are due, sent by one instance of a service at a time, although every instance could
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Instances of the service, which are restarted one after the other
    #[arg(long, default_value = "4", value_parser = count())]
    instances: usize,
    /// Mails that are due
    #[arg(long, default_value = "80", value_parser = count())]
    mails: usize,
}

/// Which instances send mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Senders {
    Everybody,
    TheLeader,
}

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
    /// It is restarted after this number of mails.
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
            // Here it talks to the mail server, and other instances may do the same.
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
    run(compare).await
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { store, instances: count, mails: due } = options;
    let managers = instances(&store.url, count).await?;
    let mut table = table(["", "due", "sent", "sent twice or more", "leaders", "errors"]);
    let mut outcome = Outcome::default();
    for (name, senders) in [("everybody sends", Senders::Everybody), ("the leader sends", Senders::TheLeader)]
    {
        outcome = send_all(&managers, due, senders).await;
        table.add_row([
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

async fn send_all(managers: &[LockManager], due: usize, senders: Senders) -> Outcome {
    let outbox = Outbox::new(due);
    let mut working = JoinSet::new();
    for locks in managers {
        let lives_for = match senders {
            Senders::Everybody => due,
            Senders::TheLeader => due.div_ceil(managers.len()),
        };
        let instance = Instance { locks: locks.clone(), outbox: outbox.clone(), lives_for };
        working.spawn(async move {
            match senders {
                Senders::Everybody => instance.send_what_is_due(None).await,
                Senders::TheLeader => instance.lead().await,
            }
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
        let outcome = send_all(&managers, 40, Senders::TheLeader).await;
        assert_eq!((outcome.sent, outcome.repeated, outcome.leaders, outcome.errors), (40, 0, 4, 0));
        assert!(
            send_all(&managers, 40, Senders::Everybody).await.repeated > 0,
            "without a leader everybody sends"
        );
    }
}
