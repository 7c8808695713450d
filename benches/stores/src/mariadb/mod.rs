//! What is written with the client of MariaDB.

mod contenders;

pub(crate) use contenders::{CONNECTIONS, RawRow, RowBehindGetLock};
