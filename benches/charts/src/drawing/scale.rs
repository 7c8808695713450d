//! The position of a number on an axis, and the numbers that are written next to it.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, KeyPointWeight, Ranged};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// For numbers above 0.
    Log,
    FromZero,
}

/// An axis with a range of numbers.
#[derive(Clone, Debug)]
pub(super) struct Places {
    scale: Scale,
    /// The numbers at both ends.
    ends: Range<f64>,
    /// The numbers that are written.
    ticks: Vec<f64>,
}

impl Places {
    /// From one round number to another.
    pub(super) fn around(scale: Scale, numbers: impl Iterator<Item = f64> + Clone) -> Places {
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        let most = numbers.fold(f64::NEG_INFINITY, f64::max);
        match scale {
            Scale::Log => {
                let ends = below(least)..above(most.max(least * 1.5));
                let steps: &[f64] = if ends.end / ends.start > 2e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                Places { scale, ticks: rounds(&ends, steps), ends }
            }
            Scale::FromZero => {
                let most = if most > 0.0 { most * 1.1 } else { 1.0 };
                let step = above(most / 5.0);
                // At least two steps, and at most five.
                let steps = (most / step).ceil();
                let ticks = (0..=steps as u32).map(|nth| step * f64::from(nth)).collect();
                Places { scale, ends: 0.0..step * steps, ticks }
            }
        }
    }

    /// A logarithmic axis that is a little longer than from the first number to the last, and names only these numbers.
    pub(super) fn exactly(numbers: impl Iterator<Item = f64>) -> Places {
        let mut ticks: Vec<f64> = numbers.collect();
        ticks.sort_unstable_by(f64::total_cmp);
        ticks.dedup();
        let first = ticks.first().copied().unwrap_or(1.0);
        let last = ticks.last().copied().unwrap_or(1.0);
        let margin = (last / first).powf(0.05).max(1.2);
        Places { scale: Scale::Log, ends: first / margin..last * margin, ticks }
    }

    /// The position on the axis, as a part of its length.
    fn part(&self, number: f64) -> f64 {
        let Range { start, end } = self.ends;
        match self.scale {
            Scale::Log => (number / start).ln() / (end / start).ln(),
            Scale::FromZero => number / end,
        }
    }
}

/// Plotters asks for the position of a number.
impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, (start, end): (i32, i32)) -> i32 {
        start + (self.part(*number) * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight() {
            KeyPointWeight::Any => Vec::new(),
            KeyPointWeight::Bold => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

/// The tolerance for rounding errors of logarithms.
const NEARLY: f64 = 1.0 + 1e-9;

/// The greatest of 1, 2 and 5 times a power of ten that is at most `number`.
fn below(number: f64) -> f64 {
    let decade = 10_f64.powf(number.log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step <= number * NEARLY).unwrap_or(decade)
}

/// The smallest of these numbers that is at least `number`.
fn above(number: f64) -> f64 {
    let decade = 10_f64.powf(number.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step * NEARLY >= number).unwrap_or(10.0 * decade)
}

/// All products of `steps` and a power of ten between the ends.
fn rounds(ends: &Range<f64>, steps: &[f64]) -> Vec<f64> {
    let mut found = Vec::new();
    let mut decade = 10_f64.powf(ends.start.log10().floor());
    while decade <= ends.end * NEARLY {
        let all = steps.iter().map(|step| step * decade);
        found.extend(all.filter(|it| *it * NEARLY >= ends.start && *it <= ends.end * NEARLY));
        decade *= 10.0;
    }
    found
}

/// With three significant digits, and a space between thousands.
pub(super) fn written(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let digits = 2.0 - number.abs().log10().floor();
    if digits < 0.0 {
        let unit = 10_f64.powf(-digits);
        return grouped(&format!("{:.0}", (number / unit).round() * unit));
    }
    let text = format!("{number:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Numbers with four or more digits get a non-breaking space before each group of three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.004_567, "0.00457"),
            (0.5, "0.5"),
            (1.0, "1"),
            (2.213, "2.21"),
            (16.0, "16"),
            (999.0, "999"),
            (1_000.0, "1\u{a0}000"),
            (148_321.0, "148\u{a0}000"),
            (1e6, "1\u{a0}000\u{a0}000"),
        ];
        for (number, text) in cases {
            assert_eq!(written(number), text);
        }
    }

    #[test]
    fn an_axis_goes_from_one_round_number_to_another() {
        let log = Places::around(Scale::Log, [1.02, 46.0].into_iter());
        assert_eq!(log.ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        let decades = Places::around(Scale::Log, [0.9, 9_000.0].into_iter());
        assert_eq!(decades.ticks, [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        let single = Places::around(Scale::Log, [100.0].into_iter());
        assert_eq!(single.ticks, [100.0, 200.0]);
        let linear = Places::around(Scale::FromZero, [2.0, 2.21].into_iter());
        assert_eq!(linear.ticks, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(Places::around(Scale::FromZero, [0.0].into_iter()).ends, 0.0..1.0);
        let counts = Places::exactly([16.0, 1.0, 16.0, 1_000.0].into_iter());
        assert_eq!(counts.ticks, [1.0, 16.0, 1_000.0]);
    }

    #[test]
    fn each_number_has_its_place() {
        let log = Places::around(Scale::Log, [1.0, 100.0].into_iter());
        assert_eq!([1.0, 10.0, 100.0].map(|number| log.map(&number, (50, 250))), [50, 150, 250]);
        let linear = Places::around(Scale::FromZero, [90.0].into_iter());
        assert_eq!([0.0, 25.0, 100.0].map(|number| linear.map(&number, (500, 100))), [500, 400, 100]);
    }
}
