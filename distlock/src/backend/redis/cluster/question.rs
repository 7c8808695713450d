//! Questions to one node of a cluster.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value, cmd};

use crate::backend::redis::command::ScriptRef;
use crate::backend::redis::exec::{self, Exec};
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
    let mut pipeline = Pipeline::with_capacity(2 * cmds.len());
    let expected = cmds.len();
    for command in cmds {
        if slot == SlotState::Arriving {
            pipeline.add_command(cmd("ASKING"));
        }
        pipeline.add_command(command);
    }
    let values = link.request_all(&pipeline).await.map_err(|error| exec::broken(link, error))?;
    let step = if slot == SlotState::Arriving { 2 } else { 1 };
    let values: Vec<Value> = values.into_iter().skip(step - 1).step_by(step).collect();
    if values.len() == expected { Ok(values) } else { Err(exec::garbled(link)) }
}
