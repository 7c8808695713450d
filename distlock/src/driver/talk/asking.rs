//! What other clients tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Awaited, Core, Page, Talk, lock};
use crate::backend::Told;
use crate::protocol::Account;
use crate::protocol::inquiry::{About, Answer, Question, Rest};

/// After this time a question is sent again: it, or its answer, was lost, or the other client is asked too often.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Talk {
    pub(super) fn answered(&self, answer: Answer) {
        let mut awaited = lock(&self.awaited);
        if awaited.get(&answer.number).is_some_and(|awaited| awaited.from == answer.client)
            && let Some(asked) = awaited.remove(&answer.number)
        {
            drop(awaited);
            // Fails only if it has just ceased to wait.
            drop(asked.answer.send(answer));
        }
    }
}

/// A lease and what names it take at least so much, beside its texts.
const SMALLEST: usize = 16;
/// No more leases of one client are taken for a lock.
const MOST_HOLDS: usize = 1_000;

/// What an answer says of what was asked for, and no more than was asked for: the keys rise from one account to the
/// next, and from one page to the next, so every list comes to an end or goes on behind it.
fn asked_for(Question { room, about, .. }: &Question, answer: Answer) -> Page {
    let Answer { who, accounts: told, mut rest, .. } = answer;
    let (mut accounts, mut left): (Vec<Account>, _) = (Vec::new(), Some(*room));
    for mut account in told {
        let is_wanted = match about {
            About::Key(key) => account.key == *key && accounts.is_empty(),
            About::List { pattern, after } => {
                let before = accounts.last().map(|last| &last.key).or(after.as_ref());
                before.is_none_or(|before| *before < account.key) && pattern.matches(&account.key)
            }
        };
        if !is_wanted {
            continue;
        }
        let Some(room) = left else {
            rest = Rest::More;
            break;
        };
        account.holds.truncate((1 + room / SMALLEST).min(MOST_HOLDS));
        let texts = account.holds.iter().map(|hold| SMALLEST + hold.label.len()).sum::<usize>();
        left = room.checked_sub(account.key.len() + texts);
        accounts.push(account);
    }
    Page { who, accounts, rest }
}

/// Forgets a question that nobody awaits the answer of any longer.
struct Forget<'a>(&'a Talk, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.0.awaited).remove(&self.1);
    }
}

impl Core {
    /// Asks another client. `None`: it does not answer. The future may be polled, and dropped, anywhere.
    ///
    /// Everybody who may publish to our channel can answer: that an answer names the client and the number of the
    /// question shows that it comes from somebody who has seen the question, because the number cannot be guessed.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        client: &str,
        about: About,
        room: usize,
        patience: Duration,
    ) -> Option<Page> {
        let number = getrandom::u64().ok()?;
        let (sender, mut answer) = oneshot::channel();
        lock(&self.talk.awaited).insert(number, Awaited { from: client.to_owned(), answer: sender });
        let _forget = Forget(&self.talk, number);
        let question = Question { asker: self.client.to_string(), number, room, about };
        let text = question.to_string();
        let mut waited = Duration::ZERO;
        while waited < patience {
            match self.backend.tell(client, text.clone()).await {
                Ok(Told::Perhaps) => {}
                Ok(Told::Nobody) | Err(_) => return None,
            }
            let pause = AGAIN_AFTER.min(patience - waited);
            tokio::select! {
                biased;
                answer = &mut answer => {
                    return Some(asked_for(&question, answer.ok()?));
                }
                () = self.sleep(pause) => waited += pause,
            }
        }
        None
    }

    /// Work on the I/O thread that nobody waits for at the manager's end.
    pub(crate) fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.io.spawn(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{HoldAccount, Kind, Pattern, Token, Who};

    fn account(key: &str, holds: usize) -> Account {
        let hold = HoldAccount {
            token: Token(1),
            kind: Kind::Exclusive,
            users: 1,
            label: "l".repeat(100),
            since: Duration::ZERO,
            left: Duration::ZERO,
        };
        Account { key: key.into(), holds: vec![hold; holds], wait: None }
    }

    fn page(room: usize, about: About, accounts: Vec<Account>) -> (Vec<String>, Rest) {
        let question = Question { asker: "a".into(), number: 1, room, about };
        let answer = Answer { client: "c".into(), number: 1, rest: Rest::End, who: Who::default(), accounts };
        let page = asked_for(&question, answer);
        (page.accounts.iter().map(|account| account.key.to_string()).collect(), page.rest)
    }

    fn list(after: Option<&str>) -> About {
        About::List { pattern: Pattern::read("k*").unwrap(), after: after.map(Arc::from) }
    }

    #[test]
    fn nothing_is_taken_from_an_answer_that_was_not_asked_for() {
        let accounts: Vec<Account> = ["a", "k2", "k1", "k3", "k3", "z"].map(|key| account(key, 1)).into();
        let taken = |about| page(4096, about, accounts.clone()).0;
        assert_eq!(taken(list(None)), ["k2", "k3"]);
        assert_eq!(taken(list(Some("k2"))), ["k3"]);
        assert!(taken(list(Some("k3"))).is_empty());
        assert_eq!(taken(About::Key("k3".into())), ["k3"]);
        assert!(taken(About::Key("k".into())).is_empty());
    }

    /// A client that does not care for the room that it is given makes the list longer, not the memory for it.
    #[test]
    fn of_an_answer_that_is_too_long_the_beginning_is_taken() {
        let accounts: Vec<Account> = (0..1_000).map(|number| account(&format!("k{number:04}"), 1)).collect();
        let (keys, rest) = page(4096, list(None), accounts);
        assert_eq!((keys.len(), rest), (34, Rest::More));
        let question = Question { asker: "a".into(), number: 1, room: 4096, about: list(None) };
        let (client, who, accounts) = ("c".into(), Who::default(), vec![account("k", 1_000)]);
        let answer = Answer { client, number: 1, rest: Rest::End, who, accounts };
        assert!(asked_for(&question, answer).accounts[0].holds.len() < 300);
    }
}
