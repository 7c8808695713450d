//! On an `extern "C" fn`.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
extern "C" fn f() -> i32 {
    0
}

fn main() {}
