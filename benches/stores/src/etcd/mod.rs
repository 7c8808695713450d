//! etcd, and the code with its client.

mod contenders;
mod server;

pub(crate) use contenders::{LockCall, RawQueue, RawTxn};
pub(crate) use server::EtcdServer;
