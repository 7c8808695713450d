//! The options: one table of everything that is known about each of them.

use std::fmt;

/// Makes the list of options, in the order in which the documentation lists them.
macro_rules! options {
    ($($option:ident: $name:literal, $example:literal, [$($alias:literal),*];)*) => {
        /// An option of the attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opt {
            $(#[doc = $name] $option,)*
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

            /// With a value to copy.
            pub(crate) fn example(self) -> &'static str {
                match self {
                    $(Opt::$option => $example,)*
                }
            }

            /// What other lock libraries call it.
            fn aliases(self) -> &'static [&'static str] {
                match self {
                    $(Opt::$option => &[$($alias),*],)*
                }
            }
        }
    };
}

options! {
    Key: "key", r#"key = "order:<order_id>""#, ["resource", "id"];
    Keys: "keys", r#"keys = ["account:<from>", "account:<to>"]"#, [];
    Ttl: "ttl", r#"ttl = "10s""#,
        ["lease", "lease_time", "lease_timeout", "expire", "expiry", "expires", "lock_at_most_for"];
    Wait: "wait", r#"wait = "3s""#,
        ["timeout", "wait_time", "wait_timeout", "acquire_timeout", "blocking_timeout"];
    Retries: "retries", "retries = 3", ["retry_count", "attempts"];
    RetryDelay: "retry_delay", r#"retry_delay = "100ms""#, ["retry_interval"];
    Renew: "renew", "renew = false", ["watchdog", "auto_renew", "extend"];
    MaxHold: "max_hold", r#"max_hold = "10m""#, [];
    MinHold: "min_hold", r#"min_hold = "5s""#, ["lock_at_least_for"];
    Mode: "mode", r#"mode = "shared""#, [];
    MaxHolders: "max_holders", "max_holders = 3", ["permits", "limit"];
    Reentrant: "reentrant", "reentrant = true", [];
    OnBusy: "on_busy", "on_busy = Ok(None)", ["skip_if_busy", "fallback", "default"];
    MapErr: "map_err", "map_err = MyError::from_lock", [];
    OnError: "on_error", "on_error = |error| Response::from(error)", [];
    OnLost: "on_lost", r#"on_lost = "continue""#, [];
    Guard: "guard", "guard = guard", [];
    Token: "token", "token = token", ["fence", "fenced", "fencing_token"];
    Manager: "manager", "manager = self.locks", ["locks", "client"];
    When: "when", "when = amount > 0", ["condition", "skip"];
    Name: "name", r#"name = "order""#, [];
    Crate: "crate", "crate = ::distlock", [];
}

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

    /// The option that another lock library calls by that name.
    pub(crate) fn called_elsewhere(name: &str) -> Option<Self> {
        Opt::ALL.iter().copied().find(|option| option.aliases().contains(&name))
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

    #[test]
    fn a_name_from_another_library_leads_to_one_option_and_is_none_itself() {
        let mut seen = std::collections::HashSet::new();
        for alias in Opt::ALL.iter().flat_map(|option| option.aliases()) {
            assert!(seen.insert(alias), "{alias}");
            assert_eq!(Opt::named(alias), None, "{alias}");
        }
    }
}
