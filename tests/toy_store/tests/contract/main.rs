//! The toy store keeps its contract. Each mistake that breaks the contract is found by its rule.

#![allow(clippy::expect_used)]

mod fixture;
mod mistakes;

use std::time::Duration;

use distlock::testing::contract::contract;
use distlock_toy_store::ToyStore;
use fixture::on_the_toy_server;

mod with_ttls {
    use super::*;

    on_the_toy_server!(Toy, ToyStore::new);
    contract!(Toy, lacks: queue);
}

mod with_a_queue {
    use super::*;

    on_the_toy_server!(Toy, ToyStore::with_queue);
    contract!(Toy);
}

mod with_sessions {
    use super::*;

    on_the_toy_server!(Toy, |address| ToyStore::with_sessions(address, Duration::from_secs(60)));
    contract!(Toy, lacks: queue, min_hold, ttl, clock);
}
