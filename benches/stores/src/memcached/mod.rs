//! What is written for Memcached.

mod contenders;

pub(crate) use contenders::RawItem;
