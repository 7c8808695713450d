//! A value given twice.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!("order:<id>", id = 1, id = 2));
}


