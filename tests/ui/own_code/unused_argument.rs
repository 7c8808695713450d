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

// The name is a word of a literal, but not a placeholder.
#[distributed_lock(key = "order:import", manager = named("order", &manager))]
async fn import(order: String, manager: distlock::LockManager) -> Result<(), LockError> {
    Ok(())
}

fn named<'a>(_: &str, manager: &'a distlock::LockManager) -> &'a distlock::LockManager {
    manager
}

// Used in format strings.
#[distributed_lock(key = format!("{id:>width$}:{0}", 1), label = "width")]
async fn formats(id: u64, width: usize) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
