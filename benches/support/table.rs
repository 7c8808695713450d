//! Tables in Markdown.

#![allow(clippy::print_stdout, reason = "printing is what a bench is for")]

use serde_json::{Map, Value, json};

/// Prints a line of progress or explanation.
pub fn say(line: impl std::fmt::Display) {
    println!("{line}");
}

/// Rows of cells under a head.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints it, with a title above.
    pub fn print(&self, title: &str) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0))
            .collect();
        println!("\n**{title}**\n");
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| {
                    let text = cell(row, column);
                    let room = " ".repeat(width - text.chars().count());
                    format!("{text}{room}")
                })
                .collect();
            println!("| {} |", cells.join(" | "));
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("|-{}-|", rule.join("-|-"));
            }
        }
    }
}

/// The targets and the results.
#[derive(Debug)]
pub struct Verdicts {
    table: Table,
    /// The results, by their names.
    measured: Vec<(String, f64)>,
    /// Tables of all contenders, by their names, for charts.
    tables: Map<String, Value>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Verdicts {
            table: Table::new(&["what", "measured", "target", "met"]),
            measured: Vec::new(),
            tables: Map::new(),
        }
    }
}

impl Verdicts {
    /// `value` should be at most `target`.
    pub fn at_most(&mut self, what: impl Into<String>, value: f64, target: f64) {
        self.add(what, value, format!("≤ {target}"), value <= target);
    }

    /// `value` should be at least `target`.
    pub fn at_least(&mut self, what: impl Into<String>, value: f64, target: f64) {
        self.add(what, value, format!("≥ {target}"), value >= target);
    }

    /// Adds a table of all contenders to the JSON.
    pub fn keep(&mut self, name: &str, table: Value) {
        self.tables.insert(name.to_owned(), table);
    }

    fn add(&mut self, what: impl Into<String>, value: f64, target: String, met: bool) {
        let digits = if value.abs() >= 1_000.0 { 0 } else { 3 };
        let met = if met { "yes" } else { "**no**" };
        let what = what.into();
        self.measured.push((what.clone(), value));
        self.table.row([what, format!("{value:.digits$}"), target, met.to_owned()]);
    }

    /// All results, with the machine and the command that repeats the run.
    #[must_use]
    pub fn to_json(&self, machine: &str, command: &str) -> Value {
        let measured: Vec<Value> =
            self.measured.iter().map(|(what, value)| json!({ "what": what, "measured": value })).collect();
        let mut all = self.tables.clone();
        all.insert("machine".to_owned(), json!(machine));
        all.insert("command".to_owned(), json!(command));
        all.insert("figures".to_owned(), json!(measured));
        Value::Object(all)
    }

    /// Prints all results, with the machine and the command that repeats the run.
    pub fn print(&self, machine: &str, command: &str) {
        self.table.print("Targets");
        println!("\nMachine: {machine}. Repeat with: `{command}`.");
    }
}
