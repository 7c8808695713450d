//! Below `#[tokio::test]`.

use distlock::distributed_lock;

#[tokio::test]
#[distributed_lock(key = "k")]
async fn f() {}

#[test]
fn g() {}

fn main() {}
