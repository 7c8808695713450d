//! A value that cannot be displayed.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!("order:<id>", id = vec![1]));
}


