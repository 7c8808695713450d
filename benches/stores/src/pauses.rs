//! How long somebody who polls waits before it asks again.

use std::future::Future;
use std::time::Duration;

pub(crate) trait Pauses: Clone + Send + Sync + 'static {
    /// How long, in microseconds, when it has asked so often.
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

/// As distlock does: 10 ms, doubled up to 100 ms, less up to a half.
#[derive(Clone)]
pub(crate) struct Growing;

impl Pauses for Growing {
    fn micros(asked: u32) -> u64 {
        let most = (10_000_u64 << asked.min(4)).min(100_000);
        fastrand::u64(most / 2..=most)
    }
}
