//! The judge: reads who believed to hold what and when, and finds what no lock may do.
//!
//! A section runs from the moment its holder knew it had the lock to the first of: it began to release, it learnt of
//! the loss, it was killed, or its local deadline passed. All of them lie inside the true lease, so an overlap of two
//! sections is two holders, whatever delays there were.

use std::{collections::BTreeMap, time::Duration};

/// One critical section as its holder saw it.
#[derive(Debug, Clone)]
pub struct Section {
    /// Who.
    pub holder: String,
    /// The key.
    pub key: String,
    /// When the holder knew, on [`shared_clock`](crate::shared_clock).
    pub entered: Duration,
    /// When it stopped believing.
    pub left: Duration,
    /// Its fencing token, when it asked for one.
    pub fence: Option<u64>,
}

/// Something no lock may do.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Both believed to hold the key at the same time.
    Overlap(Section, Section),
    /// The later section has no greater token.
    Fence(Section, Section),
}

/// Sections of any number of keys and holders.
#[derive(Debug, Clone, Default)]
pub struct History {
    sections: Vec<Section>,
}

impl History {
    /// Adds a section, in any order.
    pub fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// How many sections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Whether nothing was recorded: a judge that saw nothing has not judged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Every fault, per key in the order of entry.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut by_key = BTreeMap::<&str, Vec<&Section>>::new();
        for section in &self.sections {
            by_key.entry(&section.key).or_default().push(section);
        }
        let mut faults = Vec::new();
        for sections in by_key.values_mut() {
            sections.sort_by_key(|section| section.entered);
            // The section that reaches furthest, so that a long one is compared with everything inside it.
            let mut furthest: Option<&Section> = None;
            let mut fenced: Option<&Section> = None;
            for section in sections.iter().copied() {
                if let Some(before) = furthest.filter(|before| before.left > section.entered) {
                    faults.push(Fault::Overlap(before.clone(), section.clone()));
                }
                if let Some(before) =
                    fenced.filter(|before| section.fence.is_some_and(|fence| Some(fence) <= before.fence))
                {
                    faults.push(Fault::Fence(before.clone(), section.clone()));
                }
                if furthest.is_none_or(|before| before.left < section.left) {
                    furthest = Some(section);
                }
                if section.fence.is_some() {
                    fenced = Some(section);
                }
            }
        }
        faults
    }

    /// Asserts that there is something to judge and nothing wrong with it.
    ///
    /// # Panics
    /// On any fault, or when nothing was recorded.
    pub fn assert_sound(&self) {
        assert!(!self.is_empty(), "nothing was recorded");
        let faults = self.faults();
        assert!(faults.is_empty(), "{} faults, the first: {:#?}", faults.len(), faults[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(holder: &str, entered: u64, left: u64, fence: Option<u64>) -> Section {
        let (entered, left) = (Duration::from_millis(entered), Duration::from_millis(left));
        Section { holder: holder.to_owned(), key: "k".to_owned(), entered, left, fence }
    }

    fn history(sections: &[Section]) -> History {
        History { sections: sections.to_vec() }
    }

    #[test]
    fn sections_one_after_another_are_sound() {
        history(&[
            section("a", 0, 10, Some(1)),
            section("b", 10, 20, Some(2)),
            section("c", 25, 30, Some(7)),
        ])
        .assert_sound();
    }

    #[test]
    fn two_holders_at_a_time_are_found_even_inside_a_long_section() {
        let faults =
            history(&[section("a", 0, 100, None), section("b", 90, 95, None), section("c", 96, 99, None)])
                .faults();
        assert!(matches!(&faults[..], [Fault::Overlap(..), Fault::Overlap(..)]), "{faults:?}");
    }

    #[test]
    fn an_equal_or_older_token_is_found() {
        let faults =
            history(&[section("a", 0, 1, Some(5)), section("b", 2, 3, Some(5)), section("c", 4, 5, Some(4))])
                .faults();
        assert!(matches!(&faults[..], [Fault::Fence(..), Fault::Fence(..)]), "{faults:?}");
    }
}
