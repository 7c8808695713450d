//! Checks the imports between the parts of the crates, which it reads from the sources.
//!
//! The rooms of the crate lie in layers. A file imports from its own room and from rooms in layers below, never upwards
//! or sideways; the pure rooms use nothing but what is listed for them; and no files import each other in a circle. (A
//! folder's `mod.rs` and the files of the folder are one thing here, and so are `lib.rs` and all files.) Imports that
//! only tests use do not count.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use sources::{Imports, imports};

/// A room: its name, its layer, what the paths of its files begin with.
struct Room(&'static str, u32, &'static [&'static str]);

/// From the bottom up. A file belongs to the room with the longest beginning that fits.
const ROOMS: &[Room] = &[
    Room("protocol", 0, &["protocol/"]),
    Room("simulation kernel", 2, &["simulation/"]),
    Room("atomics", 0, &["sync.rs"]),
    Room("help", 1, &["contained.rs", "listeners.rs", "process.rs", "reply_batch.rs"]),
    Room(
        "values",
        1,
        &["deadlock/", "error.rs", "fault.rs", "key.rs", "lock_key.rs", "retry.rs", "ticket.rs"],
    ),
    Room("outage", 2, &["outage.rs"]),
    Room("lease cell", 2, &["lease_cell.rs", "collection.rs"]),
    Room("engine", 3, &["engine/"]),
    Room("contract of the stores", 3, &["backend/mod.rs", "backend/fail_all.rs"]),
    Room("adapter", 5, &["backend/adapter/"]),
    Room("memory", 5, &["backend/memory/"]),
    Room("redis", 5, &["backend/redis/"]),
    Room("quorum", 5, &["backend/quorum/"]),
    Room("observers", 4, &["observe/"]),
    Room("driver", 6, &["driver/"]),
    Room(
        "surface",
        7,
        &[
            "blocking/",
            "guard/",
            "held.rs",
            "leader/",
            "manager/",
            "manager_handle.rs",
            "private/",
            "release.rs",
            "request/",
            "scope.rs",
            "section.rs",
            "store.rs",
            "ttl.rs",
        ],
    ),
    Room("frameworks", 8, &["axum/"]),
    Room("fuzz targets", 8, &["fuzzing.rs"]),
    Room("test kit", 10, &["testing/"]),
    Room("crate", 9, &["lib.rs"]),
];

/// The other crates whose files are looked at.
const CRATES: &[&str] = &[
    "distlock-cli",
    "distlock-macros",
    "distlock-store",
    "stores/etcd",
    "stores/memcached",
    "stores/mysql",
    "stores/postgres",
    "stores/sqlite",
    "stores/zookeeper",
];

/// The items of other crates that the pure rooms may use. Everything else is forbidden.
const PURE: &[(&str, &[&str])] = &[
    (
        "protocol",
        &[
            "distlock_store::EarlierCommands",
            "distlock_store::KEPT",
            "distlock_store::LATE_COMMANDS",
            "distlock_store::LONGEST_VALUE",
            "distlock_store::LockKind",
            "distlock_store::Notifications",
            "distlock_store::OwnerDetails",
            "distlock_store::StoreError",
            "distlock_store::StoredLock",
            "distlock_store::engine",
            "std::collections",
            "std::error",
            "std::fmt",
            "std::sync::Arc",
            "std::sync::atomic",
            "std::time::Duration",
        ],
    ),
    (
        "engine",
        &[
            "distlock_store::EarlierCommands",
            "distlock_store::LATE_COMMANDS",
            "distlock_store::LockKind",
            "distlock_store::Notifications",
            "distlock_store::StoreError",
            "distlock_store::engine",
            "distlock_store::kit::shrink",
            "fastrand",
            "std::borrow",
            "std::cmp",
            "std::collections",
            "std::hash::BuildHasherDefault",
            "std::hash::DefaultHasher",
            "std::hash::Hash",
            "std::hash::Hasher",
            "std::mem",
            "std::ops",
            "std::slice",
            "std::sync::Arc",
            "std::time::Duration",
        ],
    ),
];

/// Rooms that import from a room that they may not import from, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "quorum",
    "redis",
    "a quorum is made of Redis servers: it opens their links and reads what they say of themselves",
)];

fn room(file: &str) -> Option<&'static Room> {
    let fits = |room: &Room| {
        room.2.iter().filter(|begin| file.starts_with(**begin)).map(|begin| begin.len()).max().unwrap_or(0)
    };
    ROOMS.iter().filter(|room| fits(room) > 0).max_by_key(|room| fits(room))
}

/// A folder's `mod.rs` with the files in the folder; `lib.rs` with all files.
fn are_one(a: &str, b: &str) -> bool {
    let is_front = |front: &str, file: &str| {
        front == "lib.rs" || front.strip_suffix("mod.rs").is_some_and(|f| file.starts_with(f))
    };
    is_front(a, b) || is_front(b, a)
}

/// Returns the imports that break a rule. `exceptions`: like [`EXCEPTIONS`].
fn violations(imports: &Imports, exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let is_exception = |from, to| exceptions.iter().any(|(a, b, _)| (*a, *b) == (from, to));
    let mut found = Vec::new();
    for (from, to) in &imports.inside {
        match (room(from), room(to)) {
            (Some(a), Some(b)) if a.0 == b.0 || a.1 > b.1 || is_exception(a.0, b.0) => {}
            (Some(a), Some(b)) => found.push(format!("{from} ({}) imports {to} ({})", a.0, b.0)),
            (None, _) => found.push(format!("{from} is in no room: see ROOMS")),
            (_, None) => found.push(format!("{to} is in no room: see ROOMS")),
        }
    }
    for (file, path) in &imports.outside {
        let pure = room(file).and_then(|room| PURE.iter().find(|(pure, _)| *pure == room.0));
        // Types are skipped: they were imported, or belong to the language.
        if let Some((name, used)) = pure
            && path.contains("::")
            && path.starts_with(|c: char| c.is_lowercase())
            && !is_primitive(path)
            && !used.iter().any(|begin| path == begin || path.starts_with(&format!("{begin}::")))
        {
            found.push(format!("{file} ({name}) uses {path}"));
        }
    }
    found.extend(circles(imports));
    found
}

fn is_primitive(path: &str) -> bool {
    let first = path.split("::").next().unwrap_or_default();
    ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "i128", "u128", "f64", "str", "char"].contains(&first)
}

/// Files that import each other, directly or by way of others.
fn circles(imports: &Imports) -> BTreeSet<String> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in imports.inside.iter().filter(|(from, to)| !are_one(from, to)) {
        edges.entry(from).or_default().insert(to);
    }
    let reached = |start| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
        while let Some(file) = todo.pop() {
            todo.extend(edges.get(file).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|file| (*file, reached(file))).collect();
    let leads = |a: &str, b: &str| reach.get(a).is_some_and(|seen| seen.contains(b));
    let ring = |file: &str| -> Vec<&str> {
        edges.keys().copied().filter(|other| leads(file, other) && leads(other, file)).collect()
    };
    let in_one = edges.keys().filter(|file| leads(file, file));
    in_one.map(|file| format!("a circle of {}", ring(file).join(", "))).collect()
}

/// The files of a crate, whose folder is next to the folder of this crate.
fn all_sources(of: &str) -> io::Result<BTreeMap<String, String>> {
    fn read(folder: &Path, before: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = format!("{before}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                read(&entry.path(), &format!("{name}/"), files)?;
            } else if name.ends_with(".rs") {
                files.insert(name, fs::read_to_string(entry.path())?);
            }
        }
        Ok(())
    }
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src"), "", &mut files)?;
    Ok(files)
}

#[test]
fn no_file_imports_what_its_layer_may_not() {
    let found = violations(&imports(&all_sources("distlock").unwrap()), EXCEPTIONS);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The stores with servers are crates of their own, on the contract alone.
#[test]
fn a_store_depends_on_nothing_of_the_project_but_its_contract() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut manifests: Vec<_> = fs::read_dir(root.join("stores"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("Cargo.toml"))
        .collect();
    assert!(manifests.len() >= 5, "{manifests:?}");
    manifests.push(root.join("distlock-store/Cargo.toml"));
    for manifest in manifests {
        let text = fs::read_to_string(&manifest).unwrap();
        let (of_programs, _of_tests) = text.split_once("[dev-dependencies]").unwrap_or((&text, ""));
        let names = of_programs.lines().filter_map(|line| line.split_once(" = {"));
        let ours: Vec<&str> =
            names.map(|(name, _)| name).filter(|name| name.starts_with("distlock")).collect();
        let allowed: &[&str] =
            if manifest.ends_with("distlock-store/Cargo.toml") { &[] } else { &["distlock-store"] };
        assert_eq!(ours, allowed, "{}", manifest.display());
    }
}

/// The command and the stores have no layers, but no circles either.
#[test]
fn no_files_of_the_other_crates_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for of in CRATES {
        let imports = imports(&all_sources(of).unwrap());
        assert!(!imports.inside.is_empty(), "{of} is not understood");
        found.extend(circles(&imports).into_iter().map(|circle| format!("{of}: {circle}")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_exception_is_still_needed() {
    let imports = imports(&all_sources("distlock").unwrap());
    for index in 0..EXCEPTIONS.len() {
        let mut fewer = EXCEPTIONS.to_vec();
        let (from, to, _) = fewer.remove(index);
        assert!(!violations(&imports, &fewer).is_empty(), "{from} imports nothing from {to}: no exception");
    }
}

/// A small tree of sources, and the violations in it.
fn found_in(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    violations(&imports(&files), &[])
}

#[test]
fn an_import_of_a_higher_layer_is_found() {
    let root = ("lib.rs", "mod engine; mod driver; mod protocol;");
    let driver = ("driver/mod.rs", "pub(crate) struct Core;");
    let protocol = ("protocol/mod.rs", "mod time; pub(crate) use time::Time;");
    let time = ("protocol/time.rs", "pub(crate) struct Time(u64);");
    let engine = |text| found_in(&[root, driver, protocol, time, ("engine/mod.rs", text)]);
    assert_eq!(engine("use crate::protocol::Time; /* use crate::driver::Core; */"), [""; 0]);
    let upwards = ["engine/mod.rs (engine) imports driver/mod.rs (driver)"];
    assert_eq!(engine("use crate::{driver::Core as Upper, protocol::Time};"), upwards);
    assert_eq!(engine("fn f() { let it = crate::driver::Core; }"), upwards);
    assert_eq!(engine("mod inner { use super::super::driver::*; }"), upwards);
    assert_eq!(engine("#[cfg(test)] mod tests { use crate::driver::Core; }"), [""; 0]);
    assert_eq!(engine("#[cfg(not(test))] use crate::driver::Core;"), upwards);
}

#[test]
fn an_impure_import_is_found() {
    let engine = |text| found_in(&[("lib.rs", "mod engine;"), ("engine/mod.rs", text)]);
    assert_eq!(
        engine("use std::{sync::Arc, time::Duration}; fn f() -> Arc<str> { \"tokio::spawn\".into() }"),
        [""; 0]
    );
    assert_eq!(engine("use std::{sync::{Arc, Mutex}};"), ["engine/mod.rs (engine) uses std::sync::Mutex"]);
    assert_eq!(engine("fn f() { tokio::spawn(g()); }"), ["engine/mod.rs (engine) uses tokio::spawn"]);
    assert_eq!(engine("use std::time::*;"), ["engine/mod.rs (engine) uses std::time"]);
    assert_eq!(
        engine("use std::time; fn f() { time::Instant::now(); }"),
        ["engine/mod.rs (engine) uses std::time", "engine/mod.rs (engine) uses std::time::Instant::now"]
    );
}

#[test]
fn a_circle_of_files_is_found_and_a_re_export_is_none() {
    let root = ("lib.rs", "mod engine;");
    let front = ("engine/mod.rs", "mod a; mod b; pub(crate) use a::A; pub(crate) use b::B;");
    let a = ("engine/a.rs", "use super::B; pub(crate) struct A(B);");
    let b = |text| found_in(&[root, front, a, ("engine/b.rs", text)]);
    assert_eq!(b("pub(crate) struct B;"), [""; 0]);
    assert_eq!(b("use crate::engine::A; pub(crate) struct B(A);"), ["a circle of engine/a.rs, engine/b.rs"]);
}
