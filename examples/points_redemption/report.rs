//! The results, as a table or as JSON.

use std::fmt;

use comfy_table::Table;
use distlock_examples::{Side, table};

use crate::{args::Compare, load::Answers, shop::PRICE, store::Account};

/// The effect of one run on the account.
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
        self.options.store.url.split(':').next().unwrap_or_default()
    }

    /// One line, with the fields in a fixed order.
    fn json(&self) -> String {
        let (unguarded, guarded) = (&self.unguarded.account, &self.guarded.account);
        let Answers { busy, errors, .. } = self.guarded.answers;
        format!(
            r#"{{"backend": "{}", "instances": {}, "requests": {}, "allowed": {}, "unguarded": {{"gifts": {}, "points": {}}}, "guarded": {{"gifts": {}, "points": {}, "busy": {busy}, "errors": {errors}}}}}"#,
            self.backend(),
            self.options.count(),
            self.options.requests,
            self.allowed(),
            unguarded.gifts,
            unguarded.points,
            guarded.gifts,
            guarded.points,
        )
    }

    fn table(&self) -> Table {
        let runs = [&self.unguarded, &self.guarded];
        let mut table = table(["", Side::Unguarded.name(), Side::Guarded.name()]);
        let mut add = |what: &str, of: &dyn Fn(&Run) -> String| {
            let [unguarded, guarded] = runs.map(of);
            table.add_row([what.to_owned(), unguarded, guarded]);
        };
        add("requests", &|_| self.options.requests.to_string());
        add("gifts allowed", &|_| self.allowed().to_string());
        add("gifts given", &|run| run.account.gifts.to_string());
        add("final points", &|run| run.account.points.to_string());
        add("refused", &|run| run.answers.refused.to_string());
        add("busy", &|run| run.answers.busy.to_string());
        add("errors", &|run| run.answers.errors.to_string());
        add("time", &|run| format!("{} ms", run.answers.time.as_millis()));
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.json {
            return write!(f, "{}", self.json());
        }
        let place = match self.options.processes {
            Some(_) => "processes",
            None => "instances in one process",
        };
        writeln!(
            f,
            "{} redemptions of one user's {} points at {} service {place}, locks in {}; a gift costs {PRICE}\n",
            self.options.requests,
            self.options.points,
            self.options.count(),
            self.backend(),
        )?;
        writeln!(f, "{}\n", self.table().trim_fmt())?;
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
