//! What the model server sends without a request.

use std::sync::Arc;

use crate::backend::{Push, ServerTime, Token, parse_owner};

/// A push and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) client: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) news: News,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Grant {
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    },
    Gap,
    /// Another client wants the lock. It is sent to a holder whose lease may linger, and to readers when a writer
    /// queues behind them.
    Wanted,
}

impl Note {
    /// As its receiver hears it.
    pub(crate) fn push(self) -> Push {
        let Note { key, token, news, .. } = self;
        match news {
            News::Grant { server_time, handoffs_began, fence } => {
                Push::Grant { key, token, server_time, handoffs_began, fence }
            }
            News::Gap => Push::Gap { key, token },
            News::Wanted => Push::Wanted { key, token },
        }
    }

    /// For the holder, if its lease may linger.
    pub(super) fn wanted(holder: &str, key: &Arc<str>) -> Option<Note> {
        Note::wanted_from(holder, key).filter(|note| note.token.linger().is_some())
    }

    pub(super) fn wanted_from(holder: &str, key: &Arc<str>) -> Option<Note> {
        // A place that `min_hold` keeps reads like a token of a client with a colon in its name.
        let (client, token) = parse_owner(holder).filter(|(client, _)| !client.contains(':'))?;
        Some(Note { client: client.into(), key: key.clone(), token, news: News::Wanted })
    }
}
