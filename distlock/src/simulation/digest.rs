//! One number for a whole run, to show that a refactoring has changed nothing: if the same seeds give the same digests
//! before and after it, both versions behave in the same way.
//!
//! `cargo test -p distlock --lib trace_digests -- --ignored --nocapture` prints the digests of both
//! simulations, `SEEDS` says of how many runs.

use std::hash::{DefaultHasher, Hasher};

/// Computes two numbers for a set of runs. The first one depends on the digits of the trace (times, tokens, sizes, and
/// their number in each line), so names of types and the wording of a line may change. The second one depends on the
/// times and the statistics only. It stays the same if the lines are written differently.
#[derive(Default)]
pub(crate) struct Digest {
    all: DefaultHasher,
    times: DefaultHasher,
}

impl Digest {
    pub(crate) fn add(&mut self, trace: &[String], stats: &str) {
        for line in trace.iter().map(String::as_str).chain([stats]) {
            let time = line.split_once(" ms ").map_or(line, |(time, _)| time);
            for (hasher, text) in [(&mut self.all, line), (&mut self.times, time)] {
                text.bytes().filter(u8::is_ascii_digit).for_each(|digit| hasher.write_u8(digit));
                hasher.write_u8(b'\n');
            }
        }
    }

    pub(crate) fn finish(&self) -> String {
        format!("{:016x}, times {:016x}", self.all.finish(), self.times.finish())
    }
}

#[test]
fn names_do_not_count_and_numbers_do() {
    let digest = |line: &str| {
        let mut digest = Digest::default();
        digest.add(&[line.to_owned()], "1");
        digest.finish()
    };
    assert_eq!(digest("5 ms Fresh { us: 17 }"), digest("5 ms Acquired { server_time: 17 }"));
    assert_ne!(digest("5 ms Fresh { us: 17 }"), digest("5 ms Fresh { us: 18 }"));
}
