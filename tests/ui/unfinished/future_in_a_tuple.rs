//! A future inside a tuple, of a returned future.

use distlock::{LockError, distributed_lock};
#[distributed_lock(key = "k")]
fn f() -> impl Future<Output = Result<(u8, impl Future<Output = u8>), LockError>> {
    async move { Ok((1, std::future::ready(1))) }
}

fn main() {}
