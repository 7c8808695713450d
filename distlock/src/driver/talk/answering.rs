//! What this client tells of itself.

use std::sync::Arc;

use super::{Core, Page, lock};
use crate::protocol::inquiry::{About, Answer, AnswerText, Question, Rest, Room};
use crate::protocol::{Account, Pattern};
use distlock_store::clock;

/// The least and the most bytes of an answer, whatever is asked for.
const ROOM: (usize, usize) = (1 << 10, 64 << 10);
/// No account is written in fewer bytes.
const SHORTEST: usize = 32;

impl Core {
    /// Answers, unless it is asked too often. On the I/O thread, but not while the message is being delivered.
    pub(super) fn answer(self: &Arc<Self>, question: Question) {
        if question.asker == *self.client || !lock(&self.talk.limits).admit(&question, clock::now()) {
            return;
        }
        let core = self.clone();
        self.aside(async move {
            let text = core.written(&question);
            // One that is lost is asked for again.
            drop(core.backend.tell(&question.asker, text).await);
        });
    }

    fn written(&self, question: &Question) -> String {
        let room = question.room.clamp(ROOM.0, ROOM.1);
        let mut text = Answer::begin(&self.client, question.number, &self.who());
        let rest = match &question.about {
            About::Key(key) => {
                if let Some(account) = self.engine.account(clock::now(), key) {
                    text.add(&account, room);
                }
                Rest::End
            }
            About::List { pattern, after } => {
                fill(&mut text, room, after.clone(), |after| self.page(pattern, after, room))
            }
        };
        text.end(rest)
    }

    /// Keys behind `after`, as many as have room in so many bytes, or more.
    pub(crate) fn page(&self, pattern: &Pattern, after: Option<&str>, room: usize) -> Page {
        let (now, most) = (clock::now(), room / SHORTEST);
        let keys = self.engine.keys_behind(after, pattern, most);
        let rest = if keys.len() < most { Rest::End } else { Rest::More };
        // Those that were released in between are none any more; the next page begins behind the last one all the same.
        let account = |key: &Arc<str>| {
            let nothing = || Account { key: key.clone(), holds: Vec::new(), wait: None };
            self.engine.account(now, key).unwrap_or_else(nothing)
        };
        Page { who: self.who(), accounts: keys.iter().map(account).collect(), rest }
    }

    /// What this client holds and waits for under one key.
    pub(crate) fn account(&self, key: &Arc<str>) -> Option<Account> {
        self.engine.account(clock::now(), key)
    }
}

/// Writes as many accounts as have room. A page whose locks were all released in between says nothing, and who asks
/// takes an answer without accounts for the end: then the page behind it is taken.
fn fill(
    text: &mut AnswerText,
    room: usize,
    mut after: Option<Arc<str>>,
    mut page_behind: impl FnMut(Option<&str>) -> Page,
) -> Rest {
    loop {
        let page = page_behind(after.as_deref());
        for account in &page.accounts {
            if text.add(account, room) == Room::Full {
                return Rest::More;
            }
        }
        match page.accounts.last() {
            Some(last) if page.rest == Rest::More && !text.tells() => after = Some(last.key.clone()),
            _ => return page.rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::inquiry::Message;
    use crate::protocol::{HoldAccount, Kind, Token, Who};
    use std::time::Duration;

    fn page(keys: &[&str], holds: &[HoldAccount], rest: Rest) -> Page {
        let account = |key: &&str| Account { key: (*key).into(), holds: holds.to_vec(), wait: None };
        Page { who: Who::default(), accounts: keys.iter().map(account).collect(), rest }
    }

    /// A batch of locks that is released at once, between the look at the keys and the look at each of them.
    #[test]
    fn a_page_of_locks_that_were_just_released_is_not_the_end_of_the_list() {
        let hold = HoldAccount {
            token: Token(1),
            kind: Kind::Exclusive,
            users: 1,
            label: "lock".into(),
            since: Duration::ZERO,
            left: Duration::ZERO,
        };
        let mut text = Answer::begin("c", 1, &Who::default());
        let mut asked = Vec::new();
        let rest = fill(&mut text, ROOM.0, None, |after| {
            asked.push(after.map(str::to_owned));
            match after {
                None => page(&["a", "b"], &[], Rest::More),
                Some("b") => page(&["c", "d"], std::slice::from_ref(&hold), Rest::More),
                Some(other) => panic!("{other}"),
            }
        });
        assert_eq!((rest, asked), (Rest::More, vec![None, Some("b".to_owned())]));
        let Some(Message::Answer(answer)) = Message::read(&text.end(rest)) else { panic!("an answer") };
        let keys: Vec<&str> = answer.accounts.iter().map(|account| &*account.key).collect();
        assert_eq!(keys, ["c", "d"]);
    }
}
