//! etcd, and what is written with its client.

mod contenders;
mod server;

pub(crate) use contenders::{LockCall, RawQueue, RawTxn};
pub(crate) use server::EtcdServer;
