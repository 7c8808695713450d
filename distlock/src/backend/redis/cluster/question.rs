//! Questions to one node of a cluster.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use crate::backend::redis::command::ScriptRef;
use crate::backend::redis::exec::{Exec, ask_all};
use crate::backend::redis::link::Link;
use crate::backend::redis::operation::{Again, Encode, Encoding};
use crate::backend::{StoreError, op};

/// A question that can be repeated on another node.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    Op(&'a dyn Encode),
    /// Several locks of one slot.
    AcquireAll(&'a [(Arc<str>, op::Acquire)]),
    /// Releases the lock of this owner, or of any owner.
    Force(Option<&'a str>),
}

impl Question<'_> {
    pub(super) fn cmds(self, exec: &Exec, again: Option<Again>, key: &str) -> (Vec<Cmd>, Encoding) {
        let script_ref = match again {
            Some(Again::Script(script_ref)) => script_ref,
            Some(Again::Short) | None => ScriptRef::Hash,
        };
        match self {
            Question::Op(op) => {
                let (cmd, encoding) = match again {
                    None => exec.encode(key, op),
                    Some(again) => exec.encode_again(key, op, again),
                };
                (vec![cmd], encoding)
            }
            Question::AcquireAll(batch) => (vec![exec.wire.enter_all(script_ref, batch)], Encoding::Script),
            Question::Force(owner) => (vec![exec.force_cmd(script_ref, key, owner)], Encoding::Script),
        }
    }
}

/// Whether the node serves the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Settled,
    /// The node is taking the slot over, and answers only after ASKING.
    Arriving,
}

/// Sends `cmds` in one write, and returns one value for each.
pub(super) async fn ask(link: &Link, cmds: Vec<Cmd>, slot: SlotState) -> Result<Vec<Value>, StoreError> {
    if slot == SlotState::Settled {
        return ask_all(link, cmds).await;
    }
    let cmds = cmds.into_iter().flat_map(|command| [cmd("ASKING"), command]).collect();
    let values = ask_all(link, cmds).await?;
    Ok(values.into_iter().skip(1).step_by(2).collect())
}
