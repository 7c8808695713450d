//! The pauses of a client that polls.

use std::future::Future;
use std::time::Duration;

pub(crate) trait Pauses: Clone + Send + Sync + 'static {
    /// The pause in microseconds, after this number of attempts.
    fn micros(asked: u32) -> u64;

    fn pause(asked: u32) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(Duration::from_micros(Self::micros(asked)))
    }
}

/// 0.5 to 1.5 ms.
#[derive(Clone)]
pub(crate) struct Short;

impl Pauses for Short {
    fn micros(_asked: u32) -> u64 {
        fastrand::u64(500..1_500)
    }
}

/// The pauses of distlock: 10 ms, doubled up to 100 ms, and reduced by up to a half.
#[derive(Clone)]
pub(crate) struct Growing;

impl Pauses for Growing {
    fn micros(asked: u32) -> u64 {
        let most = (10_000_u64 << asked.min(4)).min(100_000);
        fastrand::u64(most / 2..=most)
    }
}
