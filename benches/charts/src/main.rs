//! Draws the JSON results of the benches.
//!
//! ```text
//! cargo run -p distlock-charts [-- RESULTS [PICTURES]]
//! ```
//!
//! RESULTS is the folder of the JSON files. The default is `benches` in cargo's target folder. PICTURES is the folder
//! for the SVG charts. The default is `docs/pictures`. Missing results are named, with the command that writes them. A
//! file of another shape is an error, which names the file and the field. The other charts are still drawn.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what a command is for")]

mod drawing;
mod pictures;
mod reading;
mod shapes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use pictures::Picture;
use reading::Source;

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let results = args.next().unwrap_or_else(|| target.join("benches"));
    let pictures = args.next().unwrap_or_else(|| root.join("docs/pictures"));
    match draw_all(&results, &pictures) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            failures.iter().for_each(|failure| eprintln!("error: {failure}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {}: {error}", pictures.display());
            ExitCode::FAILURE
        }
    }
}

/// Draws all available results, and returns the errors of the files that could not be drawn.
fn draw_all(results: &Path, pictures: &Path) -> io::Result<Vec<String>> {
    let mut failures = Vec::new();
    for source in Source::ALL {
        let files = source.files(results)?;
        if files.is_empty() {
            println!(
                "missing: {} (written by `{}`)",
                results.join(source.file()).display(),
                source.command()
            );
        }
        for file in files {
            match pictures_of(source, &file) {
                Ok(charts) => {
                    fs::create_dir_all(pictures)?;
                    for Picture { name, svg } in charts {
                        let path = pictures.join(format!("{name}.svg"));
                        fs::write(&path, svg)?;
                        println!("drawn: {}", path.display());
                    }
                }
                Err(problem) => failures.push(format!("{}: {problem}", file.display())),
            }
        }
    }
    Ok(failures)
}

fn pictures_of(source: Source, file: &Path) -> Result<Vec<Picture>, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (pictures, absent) = match source {
        Source::Foundation => pictures::foundation(&reading::one(&text)?)?,
        Source::Waiting => pictures::waiting(&reading::one(&text)?)?,
        Source::Stores => pictures::stores(&name, &reading::one::<Vec<_>>(&text)?)?,
        Source::Growth => pictures::growth(&reading::stream(&text)?)?,
    };
    for part in absent {
        println!("missing: {part} in {} (a run of all parts writes it)", file.display());
    }
    Ok(pictures)
}
