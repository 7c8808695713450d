//! Explores a world, and reports the result.

use std::time::{Duration, Instant};

use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model};

use crate::{bounds::Bounds, model::Action};

/// The result of an exploration.
#[derive(Debug)]
pub struct Exploration {
    /// The number of different states.
    pub states: usize,
    /// The number of events on the longest of the shortest paths to a state.
    pub depth: usize,
    pub time: Duration,
    /// Whether a process held the lock in any state. Otherwise the world would prove nothing.
    pub somebody_held: bool,
    /// The property that does not hold, and the shortest path to such a state.
    pub counterexample: Option<(&'static str, Vec<Action>)>,
}

/// Visits every state, or stops at the first in which a property does not hold.
pub fn explore(bounds: &Bounds) -> Exploration {
    search(bounds, HasDiscoveries::AnyFailures, |_| true)
}

/// Visits every state, and checks only this property.
pub fn explore_for(bounds: &Bounds, property: &'static str) -> Exploration {
    let found = HasDiscoveries::AnyOf(std::iter::once(property).collect());
    search(bounds, found, |name| name == property)
}

fn search(bounds: &Bounds, end: HasDiscoveries, counts: impl Fn(&str) -> bool) -> Exploration {
    let start = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = bounds.clone().checker().threads(threads).finish_when(end).spawn_bfs().join();
    let is_failure = |name: &str| {
        counts(name)
            && matches!(checker.discovery_classification(name), DiscoveryClassification::Counterexample)
    };
    let counterexample = checker
        .discoveries()
        .into_iter()
        .find(|(name, _)| is_failure(name))
        .map(|(name, path)| (name, path.into_actions()));
    Exploration {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        time: start.elapsed(),
        somebody_held: checker.discovery("somebody holds the lock").is_some(),
        counterexample,
    }
}
