//! On a variadic function.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
unsafe extern "C" fn f(first: i32, ...) -> i32 {
    first
}

fn main() {}
