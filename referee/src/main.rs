//! The command: `run ADAPTER`, `soak STORE MINUTES`, `adapter NAME URL`, `compile DIR`, `list`, `table DIR`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../adapters/built_in.rs"]
mod built_in;
#[path = "../adapters/distlock.rs"]
mod distlock_adapter;
mod options;

use std::{error::Error, path::Path, process::ExitCode};

use distlock_referee::{
    campaign::{self, Options},
    judge::judge,
    picture, report, results, table,
};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(clean) => ExitCode::from(u8::from(!clean)),
        Err(error) => {
            eprintln!("{error}\n{}", options::USAGE);
            ExitCode::from(64)
        }
    }
}

/// Executes a command. Returns whether there was no violation.
fn command(words: &[&str]) -> Result<bool, Failure> {
    match *words {
        ["list"] => {
            for (name, language, _) in table::ADAPTERS {
                println!("{name} {}", language.name());
            }
            Ok(true)
        }
        ["table", directory] => {
            print!("{}", results::markdown(&results::read(Path::new(directory))?)?);
            Ok(true)
        }
        ["compile", directory] => {
            std::fs::create_dir_all(directory)?;
            Ok(table::compile_java(Path::new(directory)).inspect_err(|why| println!("{why}")).is_ok())
        }
        ["adapter", "distlock", url] => distlock_adapter::serve(url).map(|()| true),
        ["adapter", name, url] => built_in::main(name, url).map(|()| true),
        ["run" | "soak", ..] => {
            let run = options::parse(words)?;
            judged(&run.options, run.report.as_deref(), &report::command(words, run.options.seed))
        }
        _ => Err("unknown command".into()),
    }
}

fn judged(options: &Options, directory: Option<&Path>, command: &str) -> Result<bool, Failure> {
    let (hello, history) = campaign::run(options)?;
    let verdict = judge(&history);
    let text = report::text(&hello, command, &history, &verdict);
    print!("{text}");
    if let Some(directory) = directory {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("report.txt"), &text)?;
        let json = report::json(&hello, command, &history, &verdict);
        std::fs::write(directory.join("report.json"), format!("{json:#}\n"))?;
        std::fs::write(directory.join("report.html"), picture::html(&text, &history, &verdict.overlaps))?;
    }
    Ok(verdict.is_clean(&history))
}
