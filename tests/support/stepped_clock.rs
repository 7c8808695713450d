//! A wall clock of a server's own, which jumps when a test says so.
//!
//! The server is started with a small C library of ours in front of its own (`LD_PRELOAD`), made by the compiler that
//! Rust links with anyway.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

const SOURCE: &str = include_str!("stepped_clock.c");

/// The offset of one server's clock, in a file that the server maps.
#[derive(Debug)]
pub(crate) struct SteppedClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    micros: AtomicI64,
}

impl SteppedClock {
    /// A clock that is right, with its files in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let (source, library) = (directory.join("stepped_clock.c"), directory.join("stepped_clock.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .unwrap_or_else(|error| {
                panic!("cannot start the C compiler `cc`, which Rust needs too: {error}")
            });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = directory.join("clock");
        let file = File::create(&path).unwrap();
        let clock = Self { library, path, file, micros: AtomicI64::new(0) };
        clock.step(0);
        clock
    }

    /// Puts the library in front of a server's own.
    pub(crate) fn preload(&self, server: &mut Command) {
        server.env("LD_PRELOAD", &self.library).env("DISTLOCK_TEST_CLOCK", &self.path);
    }

    pub(crate) fn forward(&self, by: Duration) {
        self.step(micros(by));
    }

    pub(crate) fn back(&self, by: Duration) {
        self.step(-micros(by));
    }

    fn step(&self, micros: i64) {
        let offset = self.micros.fetch_add(micros, Ordering::SeqCst) + micros;
        self.file.write_all_at(&offset.to_ne_bytes(), 0).unwrap();
    }
}

fn micros(step: Duration) -> i64 {
    i64::try_from(step.as_micros()).unwrap()
}
