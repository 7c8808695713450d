//! A template that is not a literal.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!(id));
}


