//! The suite that tests a store directly: rules for the lines of the [contract](crate::store::LockStore). Most rules
//! take milliseconds. The other suite, [`conformance`](super::conformance), tests managers that use the store, and a
//! manager can hide a fault of its store. Only `conformance` covers the counting of shared and limited locks, the rules
//! for [keys](crate::store::KeyRules), and heartbeats.
//!
//! A [`Fixture`] opens the store. [`contract!`] makes a test of every rule.
//!
//! ```
//! use distlock::testing::contract::{Fixture, contract};
//! # use distlock::store::*;
//! # #[derive(Debug)] struct MyStore;
//! # impl MyStore { fn at(_: &str, _: &str) -> MyStore { MyStore } }
//! # impl LockStore for MyStore {
//! #     fn describe(&self) -> String { "mine".into() }
//! #     async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
//! #         Ok(AcquireReply::Acquired { fence: None })
//! #     }
//! #     async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
//! #     async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> { Ok(ReleaseReply::Released) }
//! #     async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> { Ok(None) }
//! #     async fn force_release(&self, _: &str) -> Result<bool, StoreError> { Ok(false) }
//! # }
//!
//! struct OnMyServer {
//!     url: String,
//! }
//!
//! impl Fixture for OnMyServer {
//!     type Store = MyStore;
//!
//!     async fn start() -> Self {
//!         OnMyServer { url: "my://127.0.0.1".to_owned() }
//!     }
//!
//!     fn store(&self) -> MyStore {
//!         MyStore::at(&self.url, "a table that no other test uses")
//!     }
//! }
//!
//! contract!(OnMyServer, lacks: notifications, queue, fencing, min_hold, link, restart);
//! # fn main() {}
//! ```
//!
//! # What does not apply
//! Name the abilities that the store or the fixture lacks after `lacks:`. Their rules are then replaced by a test that
//! the store does not declare the ability.
//!
//! | word | the missing ability |
//! |---|---|
//! | `notifications` | reports of releases: [`Waiting::Polling`](crate::store::Waiting::Polling) |
//! | `queue` | a queue on the server: [`Waiting::Queued`](crate::store::Waiting::Queued) |
//! | `fencing` | fencing tokens |
//! | `min_hold` | a key that stays taken after its release |
//! | `ttl` | leases that expire: [`LeaseRule::Session`](crate::store::LeaseRule::Session) |
//! | `clock` | remaining times in milliseconds from `inspect`, which are needed to measure the clock |
//! | `link` | a link that can be cut and held: the fixture has none |
//! | `restart` | a server that can be restarted: the fixture has none |
//! | `late` | a bound for commands that arrive late. The contract demands it, so this is a known fault of the store |
//!
//! # Which rule looks at which line of the contract
//! | line | rules |
//! |---|---|
//! | linearizable | `of_several_who_ask_at_once_one_gets_the_lock`, `a_busy_key_names_its_holder_and_stays_with_it`, `a_release_frees_the_key_before_it_is_answered` |
//! | a ttl counts from the call | `a_lease_lasts_for_its_ttl_from_the_call_and_then_ends`, `a_lease_lasts_for_its_ttl_after_another_was_released` |
//! | the clock | `the_clock_runs_at_most_1_percent_fast` (that it is not set forward is up to who runs the server) |
//! | `acquire` is idempotent | `a_repeated_acquire_is_already_held`, `a_repeated_acquire_makes_the_lease_last_for_its_ttl_and_never_less` |
//! | `Acquired` | `who_has_lost_the_lock_acquires_it_anew`, `who_comes_after_an_expiry_acquires_the_lock` |
//! | `hand_over`, `replace` | `a_holder_that_is_named_is_replaced`, `a_replaced_lease_lasts_for_its_ttl_and_never_less`, `waiters_keep_their_places_when_the_lock_is_replaced` |
//! | `renew` | `a_renewal_never_creates_a_lock`, `a_renewal_makes_the_lease_last_for_its_ttl_and_never_less` |
//! | `release` | `a_release_of_somebody_else_frees_nothing`, `a_holder_of_another_process_is_released`, `a_release_ends_a_place_in_the_queue`, `a_key_stays_taken_for_as_long_as_its_release_said` |
//! | `force_release` | `a_forced_release_serves_the_next_waiter` |
//! | leaves the queue | `an_owner_that_gets_the_lock_leaves_the_queue` |
//! | granted | `a_granted_lock_is_its_owners`, `a_grant_ends_with_its_claim`, `a_grant_is_not_older_than_it_says` |
//! | notified | `a_waiter_is_told_when_the_lock_is_released` |
//! | places end | `a_place_whose_owner_does_not_ask_is_passed_over` |
//! | fencing | `fencing_tokens_rise_with_every_one_that_is_handed_out`, `.._over_an_expiry`, `.._over_a_restart` |
//! | late commands | `a_command_that_was_given_up_is_not_carried_out_after_5_s` |
//! | nothing is repeated | `nothing_is_repeated_after_its_future_has_ended` |
//! | several keys, lists | `a_command_for_several_keys_answers_for_each`, `a_list_shows_what_is_held_on_one_of_its_pages` |
//! | `publish`, `unpublish` | `a_text_is_shown_for_the_lease_of_its_owner_and_no_other` |
//! | `run` | `run_does_not_return_when_a_connection_ends` |
//! | `diagnose` | `an_examination_answers_and_changes_nothing` |
//!
//! The two rules on late commands take 10 s each. With one exception, no rule fails because the machine is slow: times
//! are compared with the clock of this process, and each expected event is awaited for [`BOUND`](super::BOUND). The
//! exception is `a_waiter_is_told_when_the_lock_is_released`. It fails if five of nine releases are not reported within
//! [`NOTIFIED_WITHIN`](crate::store::NOTIFIED_WITHIN) (2 s).

mod macros;
mod place;
mod process;
mod rules;
#[doc(hidden)]
pub mod words;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

use distlock_store::LockStore;

pub use crate::__contract as contract;
use place::Place;
use process::Process;
use words::Word;

/// Opens the store. Each rule has its own fixture. They may share a server if each has its own prefix.
pub trait Fixture: Sized + Send + Sync + 'static {
    /// The store.
    type Store: LockStore;

    /// Creates a store of the locks for one test.
    fn start() -> impl Future<Output = Self> + Send;

    /// A place on a server that no other test uses, for rules that [restart](Fixture::restart) it.
    fn start_alone() -> impl Future<Output = Self> + Send {
        Self::start()
    }

    /// The store, as another process would open it. [`cut`](Fixture::cut) and [`hold`](Fixture::hold) affect its link.
    fn store(&self) -> Self::Store;

    /// The same over a link that `cut` and `hold` do not affect. (Unless it lacks `link`.)
    fn store_apart(&self) -> Self::Store {
        self.store()
    }

    /// The prefix of the keys.
    fn prefix(&self) -> &str {
        ""
    }

    /// Holds back all data on the links of [`store`](Fixture::store), in both directions. It arrives after
    /// [`mend`](Fixture::mend). (Unless it lacks `link`.)
    fn hold(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Cuts these links, and keeps them cut. Data that was held back is lost. (Unless it lacks `link`.)
    fn cut(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Restores the links.
    fn mend(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Stops the server and starts it again with its data. (Unless it lacks `restart`.)
    fn restart(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// How a rule was broken.
#[derive(Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Broken(String);

impl Broken {
    fn because(text: String) -> Self {
        Broken(text)
    }

    fn and(self, cause: &str) -> Self {
        Broken(format!("{}: {cause}", self.0))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Checked = Pin<Box<dyn Future<Output = Result<(), Broken>>>>;

/// A rule, and its requirements.
struct Rule {
    name: &'static str,
    needs: &'static [Word],
    check: fn(Place) -> Checked,
}

macro_rules! rules {
    ($($about:ident: $($rule:ident $([$($need:ident),+])?),+;)+) => {
        &[$($(Rule {
            name: stringify!($rule),
            needs: &[$($(words::$need),+)?],
            check: |place| Box::pin(rules::$about::$rule(place)),
        },)+)+]
    };
}

const RULES: &[Rule] = rules! {
    acquiring:
        of_several_who_ask_at_once_one_gets_the_lock,
        a_busy_key_names_its_holder_and_stays_with_it,
        a_repeated_acquire_is_already_held,
        a_holder_that_is_named_is_replaced,
        a_replaced_lease_lasts_for_its_ttl_and_never_less [ttl],
        a_repeated_acquire_makes_the_lease_last_for_its_ttl_and_never_less [ttl],
        who_has_lost_the_lock_acquires_it_anew,
        a_release_frees_the_key_before_it_is_answered,
        a_release_of_somebody_else_frees_nothing,
        a_holder_of_another_process_is_released,
        a_key_stays_taken_for_as_long_as_its_release_said [min_hold];
    lease:
        a_lease_lasts_for_its_ttl_from_the_call_and_then_ends [ttl],
        a_lease_lasts_for_its_ttl_after_another_was_released [ttl],
        the_clock_runs_at_most_1_percent_fast [clock],
        a_renewal_never_creates_a_lock,
        a_renewal_makes_the_lease_last_for_its_ttl_and_never_less [ttl],
        who_comes_after_an_expiry_acquires_the_lock [ttl];
    fencing:
        fencing_tokens_rise_with_every_one_that_is_handed_out [fencing],
        fencing_tokens_rise_over_an_expiry [fencing, ttl],
        fencing_tokens_rise_over_a_restart [fencing, restart];
    queue:
        a_waiter_is_told_when_the_lock_is_released [notifications],
        a_granted_lock_is_its_owners [queue],
        an_owner_that_gets_the_lock_leaves_the_queue [queue],
        a_release_ends_a_place_in_the_queue [queue],
        waiters_keep_their_places_when_the_lock_is_replaced [queue],
        a_forced_release_serves_the_next_waiter [queue],
        a_grant_ends_with_its_claim [queue, ttl],
        a_place_whose_owner_does_not_ask_is_passed_over [queue, ttl],
        a_grant_is_not_older_than_it_says [queue, ttl, link];
    late:
        a_command_that_was_given_up_is_not_carried_out_after_5_s [link, late],
        nothing_is_repeated_after_its_future_has_ended [link],
        run_does_not_return_when_a_connection_ends [link];
    several:
        a_command_for_several_keys_answers_for_each,
        a_list_shows_what_is_held_on_one_of_its_pages,
        a_text_is_shown_for_the_lease_of_its_owner_and_no_other,
        an_examination_answers_and_changes_nothing;
};

/// Runs one rule, or checks that the store lacks the ability that the rule needs. [`contract!`] calls it.
///
/// # Panics
/// If the rule is broken. The message names the rule.
#[doc(hidden)]
pub fn run<F: Fixture>(rule: &str, lacks: &[Word]) {
    if let Err(broken) = check::<F>(rule, lacks) {
        panic!("the store breaks its contract, rule `{rule}`: {broken}");
    }
}

/// Like [`run`], but returns the failure, for tests that expect one.
///
/// # Errors
/// How the rule is broken.
///
/// # Panics
/// If no rule has this name.
#[doc(hidden)]
pub fn check<F: Fixture>(rule: &str, lacks: &[Word]) -> Result<(), Broken> {
    let Some(rule) = RULES.iter().find(|known| known.name == rule) else {
        panic!("`{rule}` is not a rule of the contract");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Broken::because(format!("the runtime cannot start: {error}")))?;
    runtime.block_on(async {
        let fixture =
            if rule.needs.contains(&Word::Restart) { F::start_alone().await } else { F::start().await };
        match rule.needs.iter().find(|need| lacks.contains(need)) {
            Some(lacking) => lacking.is_lacking(&fixture.store().abilities()),
            None => (rule.check)(Place::new(fixture, rule.name)).await,
        }
    })
}

/// The names of all rules.
#[doc(hidden)]
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

#[cfg(test)]
mod tests {
    use super::rule_names;

    fn words(text: &str) -> Vec<&str> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
    }

    /// A rule that is missing from the list would be skipped silently.
    #[test]
    fn every_rule_is_a_test_and_stands_in_the_table() {
        let tests = words(include_str!("macros.rs"));
        let document = include_str!("mod.rs").split("#[cfg(").next().unwrap_or_default();
        for rule in rule_names() {
            assert!(tests.contains(&rule), "`{rule}` is no test");
            let shown = rule.replace("fencing_tokens_rise_over", ".._over");
            assert!(document.contains(&format!("`{shown}`")), "`{rule}` does not stand in the table");
        }
        for source in [
            include_str!("rules/acquiring.rs"),
            include_str!("rules/fencing.rs"),
            include_str!("rules/late.rs"),
            include_str!("rules/lease.rs"),
            include_str!("rules/queue.rs"),
            include_str!("rules/several.rs"),
        ] {
            for after in source.split("\npub(crate) async fn ").skip(1) {
                let name = after.split('(').next().unwrap_or_default();
                assert!(rule_names().any(|rule| rule == name), "`{name}` is in no list");
            }
        }
    }
}
