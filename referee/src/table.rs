//! The adapters that come with the referee: how each is started, and on which server.

use std::path::{Path, PathBuf};

use crate::servers::Store;

/// How an adapter is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The server that it needs.
    pub store: Store,
}

/// In `adapters/python`.
const PYTHON: &[&str] = &["redis-py", "python-redis-lock"];
/// In `adapters/node`.
const NODE: &[&str] = &["redlock", "redis-semaphore"];
/// In this program: without a lock library.
const BUILT_IN: &[(&str, Store)] =
    &[("set-nx", Store::Redis), ("ignores-ttl", Store::Redis), ("mutex", Store::Memory)];

/// The names of all adapters.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let built_in = BUILT_IN.iter().map(|(name, _)| *name);
    ["distlock"].into_iter().chain(PYTHON.iter().chain(NODE).copied()).chain(built_in).collect()
}

/// Finds an adapter by its name. `store` is for those that know several. `program` is this program.
#[must_use]
pub fn find(name: &str, store: Option<Store>, program: &Path) -> Option<Adapter> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let setup = root.join("../target/referee");
    let words = |program: PathBuf, arguments: &[&str]| {
        let arguments = arguments.iter().map(|word| (*word).to_owned());
        [program.display().to_string()].into_iter().chain(arguments).collect::<Vec<String>>()
    };
    if name == "distlock" {
        let command = words(program.to_owned(), &["adapter", name]);
        return Some(Adapter { command, store: store.unwrap_or(Store::Redis) });
    }
    if let Some((_, store)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Some(Adapter { command: words(program.to_owned(), &["adapter", name]), store: *store });
    }
    if PYTHON.contains(&name) {
        let script =
            root.join(format!("adapters/python/{}.py", name.replace('-', "_"))).display().to_string();
        return Some(Adapter {
            command: words(setup.join("venv/bin/python"), &[&script]),
            store: Store::Redis,
        });
    }
    NODE.contains(&name).then(|| {
        let script = setup.join(format!("node/{name}.mjs")).display().to_string();
        Adapter { command: words("node".into(), &[&script]), store: Store::Redis }
    })
}
