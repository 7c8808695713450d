//! A function that never returns.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() -> ! {
    loop {}
}

fn main() {}
