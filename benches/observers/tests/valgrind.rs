//! Programs that take locks run under valgrind, with which this package counts instructions: the clock is found there
//! by the C library, not at the address that the kernel names.

use std::process::Command;

#[test]
fn locks_are_taken_under_valgrind() {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=none", env!("CARGO_BIN_EXE_observers"), "count", "off", "memory:", "3"]);
    let output = valgrind.output().expect("install it with `apt-get install valgrind`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
