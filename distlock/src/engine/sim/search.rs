//! The runs that search for broken rules, and the variables that repeat one of them.

use std::fmt;

use super::config::{Config, Level, PROFILES, Profile, Use, Uses};
use super::mutants::Case;

#[derive(Clone, Copy, Debug)]
pub(super) enum Search {
    /// Each request is for one key.
    One(Uses),
    /// Most of the requests are for several of three keys.
    Several(Uses),
    /// Both kinds of requests, and many locks are handed over.
    Tickets(Uses),
    /// Both kinds of requests, with the real driver.
    Driven(Uses),
    /// The settings that find a rule that is broken on purpose.
    Case(&'static Case),
}

impl Search {
    /// Reads the environment: `CASE`, or `USES` and `SEVERAL`, `TICKETS` or `DRIVEN`.
    ///
    /// # Panics
    /// If a variable has another value.
    pub(super) fn from_environment() -> Search {
        if let Ok(name) = std::env::var("CASE") {
            return Search::Case(Case::named(&name).unwrap_or_else(|| panic!("no case is called {name}")));
        }
        let uses = std::env::var("USES").map_or(Uses::Drawn, |words| {
            parse_uses(&words).unwrap_or_else(|| {
                panic!("USES={words}: neither drawn, exclusive, readers:0.6, limited:2 nor clashing:2")
            })
        });
        if std::env::var_os("DRIVEN").is_some() {
            return Search::Driven(uses);
        }
        if std::env::var_os("TICKETS").is_some() {
            return Search::Tickets(uses);
        }
        if std::env::var_os("SEVERAL").is_some() { Search::Several(uses) } else { Search::One(uses) }
    }

    pub(super) fn apply(self, config: &mut Config) {
        match self {
            Search::One(uses) => config.uses = uses,
            Search::Several(uses) => {
                config.uses = uses;
                config.keys = 3;
                config.several = 0.7;
                config.requests = config.requests.min(100);
            }
            Search::Tickets(uses) => {
                config.uses = uses;
                config.keys = 3;
                config.several = 0.4;
                config.requests = config.requests.min(100);
                config.hands_over = 0.5;
                config.used_twice = 0.3;
            }
            Search::Driven(uses) => {
                config.uses = uses;
                config.level = Level::Driver;
                config.keys = config.keys.max(2);
                config.several = 0.3;
                config.requests = config.requests.min(100);
            }
            Search::Case(case) => {
                config.uses = case.uses;
                config.level = case.level;
                (case.bias)(config);
            }
        }
    }
}

/// Writes the variables that [`Search::from_environment`] reads.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uses, several) = match self {
            Search::One(uses) => (uses, ""),
            Search::Several(uses) => (uses, " SEVERAL=1"),
            Search::Tickets(uses) => (uses, " TICKETS=1"),
            Search::Driven(uses) => (uses, " DRIVEN=1"),
            Search::Case(case) if case.level == Level::Driver => {
                return write!(f, "CASE={:?} DRIVEN=1", case.fault);
            }
            Search::Case(case) => return write!(f, "CASE={:?}", case.fault),
        };
        match uses {
            Uses::Drawn => write!(f, "USES=drawn{several}"),
            Uses::All(Use::Exclusive) => write!(f, "USES=exclusive{several}"),
            Uses::All(Use::Readers(share)) => write!(f, "USES=readers:{share}{several}"),
            Uses::All(Use::Limited(limit)) => write!(f, "USES=limited:{limit}{several}"),
            Uses::All(Use::Clashing(limit)) => write!(f, "USES=clashing:{limit}{several}"),
        }
    }
}

fn parse_uses(words: &str) -> Option<Uses> {
    Some(match words.split_once(':') {
        None if words == "drawn" => Uses::Drawn,
        None if words == "exclusive" => Uses::All(Use::Exclusive),
        Some(("readers", share)) => Uses::All(Use::Readers(share.parse().ok()?)),
        Some(("limited", limit)) => Uses::All(Use::Limited(limit.parse().ok()?)),
        Some(("clashing", limit)) => Uses::All(Use::Clashing(limit.parse().ok()?)),
        _ => return None,
    })
}

pub(super) fn profile_named(name: &str) -> Option<Profile> {
    PROFILES.into_iter().find(|profile| format!("{profile:?}") == name)
}

#[test]
fn what_is_printed_is_read_again() {
    for uses in [Use::Exclusive, Use::Readers(0.6), Use::Limited(2), Use::Clashing(3)].map(Uses::All) {
        let words = Search::One(uses).to_string();
        assert_eq!(words.strip_prefix("USES=").and_then(parse_uses), Some(uses), "{words}");
    }
    assert_eq!(Search::Driven(Uses::Drawn).to_string(), "USES=drawn DRIVEN=1");
    assert_eq!(Search::Tickets(Uses::Drawn).to_string(), "USES=drawn TICKETS=1");
    assert_eq!(Search::Several(Uses::Drawn).to_string(), "USES=drawn SEVERAL=1");
    assert_eq!(parse_uses("drawn"), Some(Uses::Drawn));
    assert_eq!(parse_uses("all"), None);
    assert!(PROFILES.into_iter().all(|profile| profile_named(&format!("{profile:?}")) == Some(profile)));
}
