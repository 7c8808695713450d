//! The results: tables for readers, and JSON for programs.

use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Map, Value, json};

use crate::Result;

/// The figures of one part on one server.
pub(crate) struct Part {
    pub(crate) place: &'static str,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// The figures of a contender, each with its name and unit. NaN: there was nothing to measure.
pub(crate) struct Row {
    pub(crate) who: &'static str,
    pub(crate) figures: Vec<(&'static str, f64)>,
}

impl Part {
    pub(crate) fn print(&self) {
        println!("\n**{}: {}**\n", self.place, self.title);
        let names: Vec<&str> =
            self.rows.first().into_iter().flat_map(|row| row.figures.iter().map(|(name, _)| *name)).collect();
        println!("| | {} |\n|{}", names.join(" | "), "-|".repeat(names.len() + 1));
        for Row { who, figures } in &self.rows {
            let shown: Vec<String> = figures.iter().map(|(_, value)| rounded(*value)).collect();
            println!("| {who} | {} |", shown.join(" | "));
        }
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| {
            let mut object = Map::new();
            object.insert("who".to_owned(), json!(row.who));
            object.extend(row.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
            Value::Object(object)
        };
        json!({ "place": self.place, "part": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// Writes the results of this subset to a file, and returns its path.
pub(crate) fn write(subset: &[&str], results: &Value) -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let folder = target.join("benches");
    fs::create_dir_all(&folder)?;
    let name: Vec<&str> = std::iter::once("stores").chain(subset.iter().copied()).collect();
    let path = folder.join(format!("{}.json", name.join("-")));
    fs::write(&path, format!("{results:#}\n"))?;
    Ok(path.canonicalize()?)
}

fn rounded(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}
