//! The results of a bench as JSON, for charts and for comparison with later runs.

use std::path::PathBuf;
use std::{env, fs};

use serde_json::Value;

use crate::Result;

/// Writes `results` to `benches/<name>.json` in cargo's target folder, and returns the path.
///
/// # Errors
/// If the file cannot be written.
pub fn write(name: &str, results: &Value) -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")), PathBuf::from);
    let folder = target.join("benches");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, format!("{results:#}\n"))?;
    Ok(path.canonicalize()?)
}
