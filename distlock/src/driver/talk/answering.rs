//! What this client tells of itself.

use std::sync::Arc;

use super::{Core, Page, lock};
use crate::clock;
use crate::protocol::inquiry::{About, Answer, Question, Rest};
use crate::protocol::{Account, Pattern};

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
        let page = match &question.about {
            About::Key(key) => {
                if let Some(account) = self.engine.account(clock::now(), key) {
                    text.add(&account, room, true);
                }
                return text.end(Rest::End);
            }
            About::List { pattern, after } => self.page(pattern, after.as_deref(), room),
        };
        let mut is_first = true;
        for account in &page.accounts {
            if !text.add(account, room, is_first) {
                return text.end(Rest::More);
            }
            is_first = false;
        }
        text.end(page.rest)
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
