//! The code with the client of MariaDB.

mod contenders;
mod count;

pub(crate) use contenders::{CONNECTIONS, RawRow, RowBehindGetLock};
pub(crate) use count::RawCount;
