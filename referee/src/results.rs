//! The reports of many runs as one table.

use std::{fs, io, path::Path};

use serde_json::Value;

/// The head of each column, and the path of its value in a report.
const COLUMNS: [(&str, &str); 10] = [
    ("sections", "/sections"),
    ("overlaps", "/overlaps/overlaps"),
    ("while cut off", "/overlaps/overlaps while cut off"),
    ("told late", "/overlaps/told late"),
    ("token faults", "/token_faults"),
    ("hangs", "/hangs"),
    ("refused after calm", "/refused_after_calm"),
    ("hand-off p50, ms", "/hand_off_p50_ms"),
    ("hand-off p99, ms", "/hand_off_p99_ms"),
    ("command", "/command"),
];

/// The report of each run: `report.json` in the directory, or in a directory in it.
///
/// # Errors
/// If the directory cannot be read, or a file is not a report.
pub fn read(directory: &Path) -> io::Result<Vec<Value>> {
    let inside = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<_> = inside.iter().map(|path| path.join("report.json")).collect();
    files.push(directory.join("report.json"));
    files.retain(|file| file.exists());
    files.sort();
    files.iter().map(|file| Ok(serde_json::from_slice(&fs::read(file)?)?)).collect()
}

/// A table in Markdown, with a row for each report.
///
/// # Errors
/// The name of a value that a report does not have.
pub fn markdown(reports: &[Value]) -> Result<String, String> {
    let heads = COLUMNS.map(|(head, _)| head).join(" | ");
    let mut table = format!("| library | {heads} |\n|---{}|\n", "|---".repeat(COLUMNS.len()));
    for report in reports {
        let value = |path: &str| report.pointer(path).ok_or_else(|| format!("a report without {path}"));
        let (library, version) = (cell(value("/library")?), cell(value("/version")?));
        table += &format!("| {library} {version} |");
        for (head, path) in COLUMNS {
            let said = cell(value(path)?);
            table += &if head == "command" { format!(" `{said}` |") } else { format!(" {said} |") };
        }
        table.push('\n');
    }
    Ok(table)
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // No request waited.
        Value::Null => "none".to_owned(),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        history::History,
        judge::{Cause, Overlap, Verdict},
        protocol::Hello,
        report,
    };

    fn a_report(name: &str, verdict: &Verdict) -> Value {
        let (name, version) = (name.to_owned(), "1.2".to_owned());
        let hello = Hello { name, version, tokens: false, waits: true, renews: false };
        report::json(&hello, "run it --seed 7", &History::default(), verdict)
    }

    #[test]
    fn each_report_is_a_row_with_what_was_found_and_how_to_repeat_it() {
        let overlap = |cause| Overlap {
            key: 0,
            processes: (1, 2),
            from: Duration::ZERO,
            until: Duration::ZERO,
            late: Duration::ZERO,
            cause,
            told_released: false,
        };
        let causes = [Cause::Unexplained, Cause::CutOff, Cause::CutOff, Cause::Paused];
        let hand_offs = vec![Duration::from_micros(1_250), Duration::from_millis(200)];
        let found =
            Verdict { sections: 40, overlaps: causes.map(overlap).to_vec(), hand_offs, ..Verdict::default() };
        let table = markdown(&[a_report("one", &found), a_report("two", &Verdict::default())]).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| one 1.2 | 40 | 1 | 2 | 0 | 0 | 0 | 0 | 200.0 | 200.0 | `run it --seed 7` |",
                "| two 1.2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | none | none | `run it --seed 7` |",
            ]
        );
        let columns = |line: &str| line.matches('|').count();
        assert!(table.lines().all(|line| columns(line) == columns(rows[0])), "{table}");
    }

    #[test]
    fn a_report_without_a_value_makes_no_table() {
        let mut report = a_report("one", &Verdict::default());
        report.as_object_mut().unwrap().remove("hangs");
        assert_eq!(markdown(&[report]), Err("a report without /hangs".to_owned()));
    }

    #[test]
    fn reports_are_found_in_the_directory_and_one_level_below() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b", "a", "empty"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        for name in ["a", "b"] {
            let report = a_report(name, &Verdict::default()).to_string();
            fs::write(directory.path().join(name).join("report.json"), report).unwrap();
        }
        let names: Vec<_> =
            read(directory.path()).unwrap().iter().map(|report| cell(&report["library"])).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
