//! Fencing tokens.

use std::fmt;
use std::str::FromStr;

/// A number that is larger for every later acquisition of the same key.
///
/// A lock cannot stop a holder that was paused past its lease. The resource that it writes to can: store the largest
/// token seen with the data, and refuse writes with a smaller one.
///
/// ```sql
/// UPDATE account SET points = $2, fence = $1 WHERE id = $3 AND fence <= $1
/// ```
///
/// Tokens are comparable per key and deployment. They are below 2^53 (exact as a floating-point number in other
/// languages). On Redis, they come from the server's clock in microseconds and a counter, and they increase even after
/// a fail-over that lost writes. Consecutive acquisitions do not get consecutive numbers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::FencingToken;
///
/// let guard = manager.lock("account:7").fenced().acquire().await?;
/// let fence = guard.fencing_token().expect("it was asked for");
/// let stored: FencingToken = "1790000000000000".parse().expect("a number"); // what the database has seen
/// assert_ne!(fence, stored);
/// # Ok(()) }
/// ```
#[doc(alias("fencing", "fence", "epoch", "sequencer", "generation"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    #[doc(hidden)]
    #[doc(hidden)]
    #[must_use]
    pub fn new(token: u64) -> Self {
        FencingToken(token)
    }

    /// The number.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("k").fenced().acquire().await?;
    /// let first = guard.fencing_token().expect("it was asked for").get();
    /// guard.release().await?;
    /// let guard = manager.lock("k").fenced().acquire().await?;
    /// assert!(guard.fencing_token().expect("it was asked for").get() > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number for databases that only have signed integers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("k").fenced().acquire().await?;
    /// let fence: i64 = guard.fencing_token().expect("it was asked for").as_i64();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(FencingToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_round_trip_and_order() {
        let token: FencingToken = "1790000000000000".parse().unwrap();
        assert_eq!(token.to_string(), "1790000000000000");
        assert_eq!(token.as_i64(), 1_790_000_000_000_000);
        assert!(token < FencingToken::new(token.get() + 1));
        assert!("-1".parse::<FencingToken>().is_err());
    }
}
