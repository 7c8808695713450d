//! The referee finds exactly the violations, and distlock passes.

#![allow(clippy::unwrap_used)]

use std::{path::Path, time::Duration};

use distlock_referee::{
    campaign::{self, Options},
    history::{FaultKind, History},
    judge::{Cause, Verdict, judge},
    picture,
    protocol::Hello,
    report,
    table::{self, Language},
};

fn options(adapter: &str, seconds: u64) -> Options {
    let found = table::find(adapter, None, Path::new(env!("CARGO_BIN_EXE_distlock-referee"))).unwrap();
    Options {
        command: found.command,
        store: found.store,
        time: Duration::from_secs(seconds),
        seed: 7,
        processes: 3,
        tasks: 1,
        keys: 1,
        ttl: Duration::from_millis(500),
        hold: None,
        faults: Vec::new(),
    }
}

fn run(options: &Options) -> (Hello, History, Verdict) {
    let (hello, history) = campaign::run(options).unwrap();
    let verdict = judge(&history);
    (hello, history, verdict)
}

/// The number of runs that are needed depends on the machine. One of them must show the violation.
#[test]
fn a_client_that_holds_on_after_its_ttl_is_caught() {
    let caught = (0..10).any(|seed| {
        let hold = Some(Duration::from_secs(8));
        let (hello, history, verdict) = run(&Options { hold, seed, ..options("ignores-ttl", 4) });
        if verdict.overlaps_by(Cause::Unexplained) > 0 {
            let text = report::text(&hello, "test", &history, &verdict);
            assert!(text.contains("held the lock, process"), "{text}");
            assert!(picture::html(&text, &history, &verdict.overlaps).contains("<svg"));
            let json = report::json(&hello, "test", &history, &verdict);
            assert_eq!(json["overlaps"]["overlaps"], verdict.overlaps_by(Cause::Unexplained));
        }
        verdict.overlaps_by(Cause::Unexplained) > 0
    });
    assert!(caught);
}

#[test]
fn a_mutex_in_one_process_passes() {
    let one = Options { processes: 1, tasks: 4, faults: vec![FaultKind::Stop], ..options("mutex", 3) };
    let (_, history, verdict) = run(&one);
    assert!(verdict.sections > 0);
    assert!(verdict.overlaps.is_empty(), "{:?}", verdict.overlaps);
    assert!(verdict.hangs.is_empty(), "{:?}", verdict.hangs);
    assert!(history.misbehaved.is_empty(), "{:?}", history.misbehaved);
}

#[test]
fn distlock_passes_all_faults() {
    let (_, history, verdict) =
        run(&Options { faults: FaultKind::ALL.to_vec(), keys: 2, ..options("distlock", 5) });
    assert!(verdict.sections > 0 && !history.faults.is_empty());
    for cause in [Cause::Unexplained, Cause::CutOff] {
        assert_eq!(verdict.overlaps_by(cause), 0, "{:?}", verdict.overlaps);
    }
    assert!(verdict.tokens.is_empty(), "{:?}", verdict.tokens);
    assert!(verdict.hangs.is_empty(), "{:?}", verdict.hangs);
    assert!(history.refused_after_calm.is_empty(), "{:?}", history.refused_after_calm);
    assert!(history.misbehaved.is_empty(), "{:?}", history.misbehaved);
    assert!(verdict.is_clean(&history), "told late: {:?}", verdict.longest(Cause::ToldLate));
}

#[test]
fn a_library_that_promises_tokens_and_gives_none_is_found() {
    let answers =
        r#"while read word id rest; do [ $word = acquire ] && echo "$id ok" || echo "$id released"; done"#;
    let script = format!("echo hello it 1 tokens=yes waits=no renews=no; {answers}");
    let command = vec!["sh".to_owned(), "-c".to_owned(), script];
    let (_, history, verdict) = run(&Options { command, processes: 1, ..options("mutex", 0) });
    assert_eq!(history.misbehaved, ["process 1 was granted key 0 without a token"]);
    assert!(!verdict.is_clean(&history));
}

#[test]
fn each_adapter_has_its_program_and_a_row_in_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../docs/referee.md")).unwrap();
    for (name, language, _) in table::ADAPTERS {
        let found = table::find(name, None, Path::new("distlock-referee")).unwrap();
        let source = match language {
            Language::Python | Language::Php => found.command[1].clone().into(),
            Language::Node => root.join(format!("adapters/node/{name}.mjs")),
            Language::Java => root.join(format!("adapters/java/{}.java", found.command.last().unwrap())),
            Language::Rust => root.join(format!("adapters/rust/src/{}_adapter.rs", name.replace('-', "_"))),
            Language::BuiltIn => root.join("src/main.rs"),
        };
        assert!(source.exists(), "{}", source.display());
        assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
    }
    assert_eq!(table::find("unknown", None, Path::new("distlock-referee")), None);
}
