//! Programs with locks run under valgrind, which this package uses to count instructions. There, the C library provides
//! the clock, and not the address that the kernel names.

use std::process::Command;

#[test]
fn locks_are_taken_under_valgrind() {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=none", env!("CARGO_BIN_EXE_observers"), "count", "off", "memory:", "3"]);
    let output = valgrind.output().expect("install it with `apt-get install valgrind`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
