//! A missing template.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!());
}


