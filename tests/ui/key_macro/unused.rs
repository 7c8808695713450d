//! A value that is not used.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!("order:<id>", id = 1, item = 2));
}


