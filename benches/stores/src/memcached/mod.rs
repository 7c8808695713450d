//! The code for Memcached.

mod contenders;

pub(crate) use contenders::RawItem;
