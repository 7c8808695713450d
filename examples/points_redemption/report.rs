//! What came of it, as a table or as JSON.

use std::fmt;

use distlock_examples::Table;

use crate::{
    args::{Compare, Output, Place},
    load::Answers,
    shop::PRICE,
    store::Account,
};

/// What one run did to the account.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) answers: Answers,
    pub(crate) account: Account,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) options: Compare,
    pub(crate) unguarded: Run,
    pub(crate) guarded: Run,
}

impl Report {
    /// How many gifts the points pay for.
    fn allowed(&self) -> i64 {
        self.options.points.max(0) / PRICE
    }

    pub(crate) fn gave_too_much(&self) -> bool {
        self.guarded.account.gifts > self.allowed()
    }

    /// The scheme of the URL.
    fn backend(&self) -> &str {
        self.options.url.split(':').next().unwrap_or_default()
    }

    /// One line; the order of the fields is part of it.
    fn json(&self) -> String {
        let (unguarded, guarded) = (&self.unguarded.account, &self.guarded.account);
        let Answers { busy, errors, .. } = self.guarded.answers;
        format!(
            r#"{{"backend": "{}", "instances": {}, "requests": {}, "allowed": {}, "unguarded": {{"gifts": {}, "points": {}}}, "guarded": {{"gifts": {}, "points": {}, "busy": {busy}, "errors": {errors}}}}}"#,
            self.backend(),
            self.options.instances,
            self.options.requests,
            self.allowed(),
            unguarded.gifts,
            unguarded.points,
            guarded.gifts,
            guarded.points,
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "",
            "requests",
            "gifts allowed",
            "gifts given",
            "final points",
            "refused",
            "busy",
            "errors",
            "time",
        ]);
        for (name, run) in [("unguarded", &self.unguarded), ("#[distributed_lock]", &self.guarded)] {
            let Answers { refused, busy, errors, time, .. } = run.answers;
            table.row([
                name.to_owned(),
                self.options.requests.to_string(),
                self.allowed().to_string(),
                run.account.gifts.to_string(),
                run.account.points.to_string(),
                refused.to_string(),
                busy.to_string(),
                errors.to_string(),
                format!("{} ms", time.as_millis()),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.output == Output::Json {
            return write!(f, "{}", self.json());
        }
        let place =
            if self.options.place == Place::Processes { "processes" } else { "instances in one process" };
        writeln!(
            f,
            "{} redemptions of one user's {} points at {} service {place}, locks in {}; a gift costs {PRICE}\n",
            self.options.requests,
            self.options.points,
            self.options.instances,
            self.backend(),
        )?;
        writeln!(f, "{}", self.table())?;
        let gifts = |run: &Run| run.account.gifts - self.allowed();
        match (gifts(&self.unguarded), gifts(&self.guarded)) {
            (over, 0) => write!(
                f,
                "Without the lock: {over} gifts too many. With it: exactly what the points pay for."
            ),
            (_, over @ 1..) => write!(f, "THE LOCK FAILED: {over} gifts too many with it."),
            (_, under) => {
                write!(f, "With the lock {} redemptions did not get their turn; see busy and errors.", -under)
            }
        }
    }
}
