//! A name that is not in scope.

use distlock::key;

fn main() {
    let id = 1;
    let _ = (id, key!("order:<item>"));
}


