//! An argument that nothing uses is reported as without the attribute.

#![deny(unused_variables)]

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k:<id>", when = flag)]
async fn f(id: u64, flag: bool, unused: String, _silent: u8, #[expect(unused_variables)] expected: u8) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k")]
fn g(used: u64, (unused, _): (u8, String)) -> Result<String, LockError> {
    Ok(format!("{used}"))
}

fn main() {}
