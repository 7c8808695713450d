//! The sections of a lock: their holders and times.

/// One section: `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// When the lock was requested.
    pub asked: u64,
    /// When it was acquired.
    pub start: u64,
    /// Just before the release is sent.
    pub end: u64,
}

const BYTES: usize = 24;

impl Section {
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (part, value) in bytes.chunks_exact_mut(8).zip([self.asked, self.start, self.end]) {
            part.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads the output of a worker.
    pub(crate) fn read_all(bytes: &[u8]) -> Vec<Section> {
        let number = |part: &[u8]| part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let section = |part: &[u8]| Section {
            asked: number(&part[..8]),
            start: number(&part[8..16]),
            end: number(&part[16..]),
        };
        bytes.chunks_exact(BYTES).map(section).collect()
    }
}
