//! The code with the client of ZooKeeper.

mod contenders;
mod places;

pub(crate) use contenders::{RawNode, Recipe};
pub(crate) use places::RawPlaces;
