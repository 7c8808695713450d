//! The documents agree with each other. Links have targets, the translations of README follow README, and the book
//! lists every error. The texts of the programs are plain English.

#![allow(clippy::expect_used, clippy::panic)]

mod aliases;
mod errors;
mod foreign_code;
mod links;
mod markdown;
mod messages;
mod pictures;
mod translations;
mod wording;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The source files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
