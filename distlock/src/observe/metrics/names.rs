//! The names of all metrics: one table, which `metrics.md` documents.

use metrics::Unit;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Counter,
    Gauge,
    /// In seconds.
    Histogram,
}

pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) what: &'static str,
}

macro_rules! metrics_of_the_crate {
    ($($constant:ident: $form:ident, $name:literal, $what:literal;)*) => {
        $(pub(super) const $constant: &str = $name;)*
        pub(super) const ALL: &[Metric] = &[$(Metric { name: $name, form: Form::$form, what: $what }),*];
    };
}

metrics_of_the_crate! {
    REQUESTS: Counter, "distlock_requests_total", "Requested locks, by the outcome";
    WAIT: Histogram, "distlock_wait_seconds", "The time from the request to its end, by whether the lock was acquired";
    WAITING: Gauge, "distlock_waiting", "Locks that are requested now, including waits";
    QUEUED: Counter, "distlock_queued_total", "Attempts that found the key held by another process";
    ACQUIRED: Counter, "distlock_acquired_total", "Acquired locks, by the way of the grant";
    HELD: Gauge, "distlock_held", "Locks in use: acquired, and neither released nor dropped";
    HOLD: Histogram, "distlock_hold_seconds", "The time from the acquisition to the end of the use";
    LOST: Counter, "distlock_lost_total", "Locks that were lost while they were in use, by reason";
    RELEASES: Counter, "distlock_releases_total", "Locks that are no longer in use, by the state of the release";
    RENEWALS: Counter, "distlock_renewals_total", "Confirmed renewals";
    RENEWALS_LATE: Counter, "distlock_renewals_late_total",
        "Renewals that were confirmed with less than half of the lease left";
    LEASE_LEFT: Histogram, "distlock_lease_left_seconds", "The rest of a lease when its renewal was confirmed";
    DEADLOCKS: Counter, "distlock_deadlocks_total", "Deadlocks in which a request of this process has a part";
    LEADER: Gauge, "distlock_leader", "How many candidates of this process lead: 1, or 0 while they wait for the office";
    TERMS: Counter, "distlock_leader_terms_total", "Terms of a leader that have begun";
    TERMS_ENDED: Counter, "distlock_leader_terms_ended_total", "Terms of a leader that have ended, by the cause";
    BUILD_INFO: Gauge, "distlock_build_info", "1, with the version of the library";
    LINK_UP: Gauge, "distlock_link_up", "Whether the store is connected: 1 or 0";
    PUSHES_ON: Gauge, "distlock_pushes_on", "Whether the store pushes hand-offs: 1 or 0";
    OUTAGES: Counter, "distlock_outages_total", "How often the connection was lost, or the first attempt to connect failed";
    OUTAGE: Histogram, "distlock_outage_seconds", "How long the store was disconnected";
    FAILED: Counter, "distlock_failed_total", "Managers that have failed because of a defect";
}

/// Describes all metrics to the recorder, and sets the metric of the version.
pub(super) fn describe() {
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    for Metric { name, form, what } in ALL {
        match form {
            Form::Counter => metrics::describe_counter!(*name, *what),
            Form::Gauge => metrics::describe_gauge!(*name, *what),
            Form::Histogram => metrics::describe_histogram!(*name, Unit::Seconds, *what),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../metrics.md");
    const DASHBOARD: &str = include_str!("../../../../docs/grafana.json");
    const ALERTS: &str = include_str!("../../../../docs/alerts.yml");

    #[test]
    fn every_metric_is_documented_and_nothing_else_is() {
        for metric in ALL {
            assert!(PAGE.contains(&format!("| `{}`", metric.name)), "{} has no row", metric.name);
            assert_eq!(metric.form == Form::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.form == Form::Histogram, metric.name.ends_with("_seconds"), "{}", metric.name);
        }
        for row in PAGE.lines().filter(|line| line.starts_with("| `distlock_")) {
            let name = row.trim_start_matches("| `").split('`').next().unwrap();
            assert!(ALL.iter().any(|metric| metric.name == name), "`{name}` does not exist");
        }
    }

    /// The metrics that a text names. All of them exist.
    fn named_in(text: &str) -> BTreeSet<&'static str> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let known = |(at, _): (usize, &str)| {
            let name: String = text[at..].chars().take_while(|c| word(*c)).collect();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let base = base.unwrap_or(&name);
            let metric = ALL.iter().find(|metric| metric.name == base);
            metric.unwrap_or_else(|| panic!("`{name}` does not exist")).name
        };
        text.match_indices("distlock_").map(known).collect()
    }

    /// The dashboard asks for nothing that does not exist, and shows all that there is.
    #[test]
    fn the_dashboard_shows_what_there_is() {
        assert_eq!(named_in(DASHBOARD), ALL.iter().map(|metric| metric.name).collect());
    }

    /// A level is counted while it lasts. A sum of ended holds would not show a holder that is stuck.
    #[test]
    fn the_dashboard_chooses_instances_and_measures_what_lasts() {
        let queries: Vec<&str> = DASHBOARD.lines().filter(|line| line.contains("\"expr\"")).collect();
        for query in &queries {
            let metrics = query.matches("distlock_").count();
            assert_eq!(
                query.matches("{namespace=~\\\"$namespace\\\",job=~\\\"$job\\\"").count(),
                metrics,
                "{query}"
            );
            assert!(!query.contains("_seconds_sum"), "{query}");
        }
        assert!(queries.iter().any(|query| query.contains("avg_over_time(distlock_held")));
    }

    #[test]
    fn the_alerts_ask_for_what_there_is() {
        let named = named_in(ALERTS);
        for name in [LINK_UP, LOST, HELD, WAITING, RENEWALS_LATE, FAILED, LEADER, DEADLOCKS] {
            assert!(named.contains(name), "no alert looks at {name}");
        }
        let rules = ALERTS.matches("- alert: Distlock").count();
        for part in ["severity: ", "summary: ", "description: ", "expr: "] {
            assert_eq!(ALERTS.matches(part).count(), rules, "{part}");
        }
        assert!(rules >= 10, "{rules}");
    }
}
