//! Figures from samples.

use std::time::Duration;

/// The `share` quantile of `samples` (0.5: the median); zero if there are none. Sorts them.
pub fn quantile(samples: &mut [u64], share: f64) -> u64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

/// The median of ratios.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The mean; zero if there are none.
#[must_use]
pub fn mean(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64
}

/// Jain's index of fairness: 1 if all got the same share, 1/n if one got all.
#[must_use]
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Nanoseconds as microseconds, for tables.
#[must_use]
pub fn micros(nanos: f64) -> String {
    format!("{:.0} µs", nanos / 1_000.0)
}

/// A duration as milliseconds, for tables.
#[must_use]
pub fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}
