//! Where the examples are: they are built with all targets of this package, `cargo test -p distlock-examples`.

use std::path::PathBuf;

/// The program of an example.
pub(crate) fn path(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).expect("a test lies in target/*/deps");
    let example = target.join("examples").join(name);
    assert!(example.exists(), "{} is not built: run `cargo test -p distlock-examples`", example.display());
    example
}
