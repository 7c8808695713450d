//! What is written with the client of ZooKeeper.

mod contenders;

pub(crate) use contenders::{RawNode, Recipe};
