//! Retries without queueing.

use std::time::Duration;

/// Retries after the first attempt, each after a random delay, without a place in the queue.
///
/// For callers that give waiters priority. A caller that just wants the lock should [`wait`](crate::LockRequest::wait):
/// waiting is cheaper, fair and faster.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use std::time::Duration;
///
/// use distlock::Retry;
///
/// let retry = Retry::times(3).delay(Duration::from_millis(50));
/// let guard = manager.lock("compaction").retry(retry).acquire().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("retryCount", "retryDelay", "backoff", "jitter"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub(crate) times: u32,
    pub(crate) delay: Duration,
}

impl Retry {
    /// At most this many retries, with pauses of at most 100 ms.
    ///
    /// ```
    /// let retry = distlock::Retry::times(3);
    /// ```
    #[must_use]
    pub fn times(times: u32) -> Self {
        Retry { times, delay: Duration::from_millis(100) }
    }

    /// The longest pause before each retry. The pause is random in `[delay / 2, delay]`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let retry = distlock::Retry::times(3).delay(Duration::from_millis(50));
    /// ```
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Retry { delay, ..self }
    }

    pub(crate) fn pause(self) -> Duration {
        self.delay.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lies_between_half_the_delay_and_the_delay() {
        let retry = Retry::times(3).delay(Duration::from_millis(80));
        for _ in 0..1000 {
            let pause = retry.pause();
            assert!(pause >= Duration::from_millis(40) && pause <= Duration::from_millis(80), "{pause:?}");
        }
    }
}
