//! A template that is no literal.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!(id));
}


