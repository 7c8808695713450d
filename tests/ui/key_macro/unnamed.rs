//! A value without a name.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!("order:<id>", 5));
}


