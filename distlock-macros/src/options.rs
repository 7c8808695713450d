//! The options: one table of everything that is known about each of them.
//!
//! A name, an example or an alias stands nowhere else: messages take them from here. The places that give an option
//! its effect match on [`Opt`] without `_`, or take [`crate::spec::Options`] apart without `..`, so that an option that
//! is only half added does not compile.

use std::fmt;

/// Makes the list of options, in the order in which the documentation lists them.
macro_rules! options {
    ($($option:ident: $name:literal, $example:literal, [$($alias:literal),*], $effect:literal;)*) => {
        /// An option of the attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opt {
            $(#[doc = $effect] $option,)*
        }

        impl Opt {
            /// Every option.
            pub(crate) const ALL: &[Opt] = &[$(Opt::$option),*];

            /// How it is written.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Opt::$option => $name,)*
                }
            }

            /// The option with an example value, to copy.
            pub(crate) fn example(self) -> &'static str {
                match self {
                    $(Opt::$option => $example,)*
                }
            }

            /// Its names in other lock libraries.
            fn aliases(self) -> &'static [&'static str] {
                match self {
                    $(Opt::$option => &[$($alias),*],)*
                }
            }

            /// Its effect, in a few words.
            fn effect(self) -> &'static str {
                match self {
                    $(Opt::$option => $effect,)*
                }
            }
        }
    };
}

options! {
    Key: "key", r#"key = "order:<order_id>""#, ["resource", "id"],
        "what is locked";
    Keys: "keys", r#"keys = ["account:<from>", "account:<to>"]"#, [],
        "several locks, all or nothing";
    Ttl: "ttl", r#"ttl = "10s""#,
        ["lease", "lease_time", "lease_timeout", "expire", "expiry", "expires", "lock_at_most_for"],
        "the lease time: how long others wait after a crash";
    Wait: "wait", r#"wait = "3s""#,
        ["timeout", "wait_time", "wait_timeout", "lock_timeout", "acquire_timeout", "blocking_timeout"],
        "how long to wait for the lock";
    Retries: "retries", "retries = 3", ["retry_count", "attempts"],
        "how many further attempts to make, without queueing";
    RetryDelay: "retry_delay", r#"retry_delay = "100ms""#, ["retry_interval"],
        "the delay between two of these attempts";
    Renew: "renew", "renew = false", ["watchdog", "auto_renew", "extend"],
        "whether the lease is kept alive while the body runs";
    MaxHold: "max_hold", r#"max_hold = "10m""#, [],
        "the longest time that the lock is held";
    MinHold: "min_hold", r#"min_hold = "5s""#, ["lock_at_least_for"],
        "how long others are kept out, counted from the acquisition";
    Mode: "mode", r#"mode = "shared""#, [],
        "an exclusive lock or a read lock";
    MaxHolders: "max_holders", "max_holders = 3", ["permits", "limit"],
        "how many may hold the key at once";
    Reentrant: "reentrant", "reentrant = true", [],
        "whether to enter a lock that this task already holds";
    OnBusy: "on_busy", "on_busy = Ok(None)", ["skip_if_busy", "fallback", "default"],
        "the function's value when the lock is busy";
    MapErr: "map_err", "map_err = MyError::from_lock", [],
        "makes the error of the function's `Result` from a lock error";
    OnError: "on_error", "on_error = |error| Response::from(error)", [],
        "makes the function's value from a lock error";
    OnLost: "on_lost", r#"on_lost = "continue""#, [],
        "what happens when the lease is lost";
    Release: "release", r#"release = "background""#, [],
        "whether to wait for the reply to the release";
    Linger: "linger", r#"linger = "50ms""#, [],
        "how long the process may keep the lock after a call, so that the next call needs no round trip";
    Guard: "guard", "guard = guard", [],
        "a variable for the guard, in the body";
    Token: "token", "token = token", ["fenced", "fencing_token"],
        "a variable for the fencing token, in the body";
    Fence: "fence", "fence = fence", [],
        "a variable for the key with its fencing token, in the body";
    Transaction: "transaction", "transaction = tx in self.pool", ["tx", "transactional"],
        "a transaction that is fenced, and committed before the release";
    Once: "once", r#"once = "24h""#, ["idempotent", "idempotency"],
        "how long the result is kept for calls that repeat this one";
    OnceOf: "once_of", "once_of = gift", ["fingerprint"],
        "the arguments that a repeated call must have";
    OnceOutcome: "once_outcome", "once_outcome = outcome", [],
        "where to write whether the result is that of an earlier call";
    Manager: "manager", "manager = self.locks", ["locks", "client"],
        "where the lock lives";
    When: "when", "when = amount > 0", ["condition", "skip"],
        "lock only if this is true";
    WarnWait: "warn_wait", r#"warn_wait = "5s""#, [],
        "a longer wait is reported as a warning";
    WarnHold: "warn_hold", r#"warn_hold = "1m""#, [],
        "a longer hold is reported as a warning";
    Label: "label", r#"label = "order""#, [],
        "the name of the lock in spans, events and metrics";
    Crate: "crate", "crate = ::distlock", [],
        "the path of the library, where it is re-exported";
}

/// Names that options had once. They still work, with a warning.
const FORMER_NAMES: &[(&str, Opt)] = &[("name", Opt::Label)];

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Opt {
    /// The option of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Opt::ALL.iter().copied().find(|option| option.name() == name)
    }

    /// The option that once had that name.
    pub(crate) fn formerly_named(name: &str) -> Option<Self> {
        FORMER_NAMES.iter().find(|(former, _)| *former == name).map(|(_, option)| *option)
    }

    /// The option that another lock library calls by that name.
    pub(crate) fn called_elsewhere(name: &str) -> Option<Self> {
        Opt::ALL.iter().copied().find(|option| option.aliases().contains(&name))
    }

    /// A line for each option: its name and its effect.
    pub(crate) fn overview() -> String {
        let lines = Opt::ALL.iter().map(|option| format!("  `{option}`: {}", option.effect()));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The names of all options.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Opt::ALL.iter().map(|option| option.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_an_example_that_starts_with_its_name() {
        for option in Opt::ALL {
            assert!(option.example().starts_with(&format!("{} = ", option.name())), "{option:?}");
        }
    }

    /// Help texts take the names of options from the table, and do not write them.
    #[test]
    fn no_message_spells_an_option_itself() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for file in ["diag", "spec"].into_iter().flat_map(|folder| sources.join(folder).read_dir().unwrap()) {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
            for (number, line) in lines {
                for option in Opt::ALL {
                    let spelled = [format!("`{option}`"), format!("`{option} = "), format!(", {option} = ")];
                    assert!(
                        !spelled.iter().any(|spelled| line.contains(spelled)),
                        "{}:{} writes `{option}`; take it from `Opt::{option:?}`",
                        path.display(),
                        number + 1
                    );
                }
            }
        }
    }

    /// The attribute's page names every option in its table and describes it in a section.
    #[test]
    fn every_option_is_documented() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../distlock/src/attribute.md");
        let page = std::fs::read_to_string(page).unwrap();
        let has = |start: &str, option: Opt| {
            page.lines().any(|line| line.starts_with(start) && line.contains(&format!("`{option}`")))
        };
        for option in Opt::ALL {
            assert!(has("| [`", *option), "`{option}` has no row in the table of options");
            assert!(has("## `", *option), "`{option}` has no section");
        }
    }

    #[test]
    fn a_name_from_another_library_leads_to_one_option_and_is_none_itself() {
        let mut seen = std::collections::HashSet::new();
        for alias in Opt::ALL.iter().flat_map(|option| option.aliases()) {
            assert!(seen.insert(alias), "{alias}");
            assert_eq!(Opt::named(alias), None, "{alias}");
        }
    }

    #[test]
    fn a_former_name_is_no_present_one() {
        for (name, option) in FORMER_NAMES {
            assert_eq!(Opt::named(name), None, "{name}");
            assert_eq!(Opt::formerly_named(name), Some(*option));
        }
    }
}
