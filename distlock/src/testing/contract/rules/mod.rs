//! The rules, by subject.

pub(super) mod acquiring;
pub(super) mod fencing;
pub(super) mod late;
pub(super) mod lease;
pub(super) mod queue;
pub(super) mod several;

/// The rule is broken unless this holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err($crate::testing::contract::Broken::because(format!($($text)+)));
        }
    };
}
use ensure;
