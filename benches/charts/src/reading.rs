//! Finds the files of the benches, and reads them into their shapes.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A source of JSON results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Foundation,
    Waiting,
    Stores,
    Growth,
}

impl Source {
    pub(crate) const ALL: [Source; 4] = [Source::Foundation, Source::Waiting, Source::Stores, Source::Growth];

    /// The name of the file after a run of all parts.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Source::Foundation => "foundation.json",
            Source::Waiting => "waiting.json",
            Source::Stores => "stores.json",
            Source::Growth => "growth.json",
        }
    }

    /// The command that writes the file.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Source::Foundation => "cargo bench -p distlock-benches --bench foundation",
            Source::Waiting => "cargo bench -p distlock-benches --bench waiting",
            Source::Stores => "cargo run --release -p distlock-benches-stores",
            Source::Growth => concat!(
                "cargo test --release -p distlock --lib engine::growth -- --ignored --nocapture",
                " | grep -o '{.*}' > target/benches/growth.json"
            ),
        }
    }

    /// Its files in `folder`, in the order of their names. There is one or none. The stores have one file for each
    /// subset.
    pub(crate) fn files(self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_subset = self == Source::Stores && name.starts_with("stores-") && name.ends_with(".json");
            if name == self.file() || is_subset {
                files.push(path);
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}

/// Reads a file that is one value. The error names the field.
pub(crate) fn one<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value =
        serde_path_to_error::deserialize(&mut json).map_err(|error| at(error.path(), error.inner()))?;
    json.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// Reads a file that is one object after another, as a test prints them.
pub(crate) fn stream<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>().enumerate();
    let read = |(index, value): (usize, serde_json::Result<Value>)| {
        let nth = format!("object {}", index + 1);
        let value = value.map_err(|error| format!("{nth}: {error}"))?;
        serde_path_to_error::deserialize(value)
            .map_err(|error| format!("{nth}: {}", at(error.path(), error.inner())))
    };
    values.map(read).collect()
}

fn at(path: &serde_path_to_error::Path, error: &serde_json::Error) -> String {
    format!("field `{path}`: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::{Fleet, Foundation, Part, Waiting};

    #[test]
    fn a_file_of_another_shape_is_an_error_that_names_the_field() {
        let cases = [
            (
                r#"{"machine": "m", "command": "c", "rounds": 5, "rows": [{"tasks": "many"}]}"#,
                "rows[0].tasks",
            ),
            (r#"{"machine": "m", "command": "c", "rounds": 5, "rows": [{"tasks": 0}]}"#, "rows[0].tasks"),
            (r#"{"machine": "m", "command": "c", "rounds": 5, "rows": [{"tasks": null}]}"#, "rows[0].tasks"),
            (r#"{"machine": "m", "command": "c", "rounds": 5}"#, "missing field `rows`"),
            (r#"{"machine": "m""#, "EOF"),
            ("", "EOF"),
            ("[]", "invalid length 0"),
        ];
        for (text, named) in cases {
            let error = one::<Foundation>(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        let text = r#"{"machine": "m", "command": "c", "processes": {"floor": {"p50_ns": 1, "p99_ns": -1}}}"#;
        assert!(one::<Waiting>(text).unwrap_err().contains("processes.floor.p99_ns"));
        let text = r#"[{"place": "etcd", "part": "p", "rows": [{"who": "x", "hand-off p50 µs": "1"}]}]"#;
        assert!(one::<Vec<Part>>(text).unwrap_err().contains("[0].rows[0].hand-off p50 µs"));
        let error = stream::<Fleet>(r#"{"load": "one key", "processes": []}"#).unwrap_err();
        assert!(error.contains("object 1") && error.contains("`processes`"), "{error}");
        let error = stream::<Fleet>("running 1 test").unwrap_err();
        assert!(error.contains("object 1"), "{error}");
    }

    #[test]
    fn what_follows_a_value_is_an_error() {
        assert!(one::<Vec<Part>>("[] []").is_err());
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_files() {
        assert!(Source::Stores.files(Path::new("/nowhere/at/all")).unwrap().is_empty());
    }
}
