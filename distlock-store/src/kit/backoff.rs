//! Pauses between attempts.

use std::time::Duration;

/// Doubling pauses with jitter, so that the clients of a restarted server do not all reconnect at once.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: Duration::from_millis(10), most: Duration::from_secs(1) }
    }
}

impl Backoff {
    /// Like the default, but never longer than `most`, for a service where another server may soon be the right one.
    #[must_use]
    pub fn up_to(most: Duration) -> Backoff {
        Backoff { most, ..Backoff::default() }
    }

    /// Like the default, with another first pause.
    #[must_use]
    pub fn beginning_with(first: Duration) -> Backoff {
        Backoff { next: first, ..Backoff::default() }
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        jittered(delay)
    }
}

/// A random delay in [`delay` / 2, `delay`].
#[must_use]
pub fn jittered(delay: Duration) -> Duration {
    // Without randomness every client waits the full delay: slower, not wrong.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    delay / 2 + (delay / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_second_with_at_most_half_taken_off() {
        let mut backoff = Backoff::default();
        for full in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            let delay = backoff.next_pause();
            let full = Duration::from_millis(full);
            assert!(delay >= full / 2 && delay <= full, "{delay:?} of {full:?}");
        }
    }
}
