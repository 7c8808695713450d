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

/// The language of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// This program.
    BuiltIn,
    /// A program next to this one: `adapters/rust`.
    Rust,
    /// `adapters/python`, in a separate environment.
    Python,
    /// `adapters/node`, copied to the folder of its libraries.
    Node,
    /// `adapters/java`, compiled, with Debian's libraries. Only Curator is there.
    Java,
    /// `adapters/php`, with Debian's libraries.
    Php,
}

impl Language {
    /// The word that `list` prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Node => "node",
            Self::Java => "java",
            Self::Php => "php",
        }
    }
}

/// The name, the language, and the server that it needs.
type Row = (&'static str, Language, Store);

/// All adapters.
pub const ADAPTERS: &[Row] = &[
    ("distlock", Language::BuiltIn, Store::Redis),
    ("rslock", Language::Rust, Store::Redis),
    ("rlock", Language::Rust, Store::Redis),
    ("async-redis-lock", Language::Rust, Store::Redis),
    ("distributed-lock", Language::Rust, Store::Redis),
    ("redis-py", Language::Python, Store::Redis),
    ("python-redis-lock", Language::Python, Store::Redis),
    ("pottery-redlock", Language::Python, Store::Redis),
    ("redlock-py", Language::Python, Store::Redis),
    ("kazoo-lock", Language::Python, Store::ZooKeeper),
    ("redlock", Language::Node, Store::Redis),
    ("sesamecare-redlock", Language::Node, Store::Redis),
    ("redis-semaphore", Language::Node, Store::Redis),
    ("ioredfour", Language::Node, Store::Redis),
    ("curator-mutex", Language::Java, Store::ZooKeeper),
    ("symfony-lock", Language::Php, Store::Redis),
    ("laravel-lock", Language::Php, Store::Redis),
    ("set-nx", Language::BuiltIn, Store::Redis),
    ("ignores-ttl", Language::BuiltIn, Store::Redis),
    ("mutex", Language::BuiltIn, Store::Memory),
];

/// Compiles the adapter in Java into a directory.
///
/// # Errors
/// The missing packages, or the output of the compiler.
pub fn compile_java(classes: &Path) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters/java/CuratorMutex.java");
    distlock_fixtures::compile_with_curator(&source, classes)
}

/// Finds an adapter by its name. `store` is for distlock, which supports several. `program` is this program.
#[must_use]
pub fn find(name: &str, store: Option<Store>, program: &Path) -> Option<Adapter> {
    let (_, language, needs) = *ADAPTERS.iter().find(|(known, ..)| *known == name)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let setup = root.join("../target/referee");
    let script = |path: String| root.join("adapters").join(path).display().to_string();
    let (program, arguments): (PathBuf, Vec<String>) = match language {
        Language::BuiltIn => (program.to_owned(), vec!["adapter".to_owned(), name.to_owned()]),
        Language::Rust => (program.with_file_name("distlock-referee-rust"), vec![name.to_owned()]),
        Language::Python => {
            (setup.join("venv/bin/python"), vec![script(format!("python/{}.py", name.replace('-', "_")))])
        }
        Language::Node => ("node".into(), vec![setup.join(format!("node/{name}.mjs")).display().to_string()]),
        Language::Java => {
            ("java".into(), distlock_fixtures::curator_arguments(&setup.join("java"), "CuratorMutex"))
        }
        Language::Php => ("php".into(), vec![script(format!("php/{name}.php"))]),
    };
    let command = [program.display().to_string()].into_iter().chain(arguments).collect();
    let store = if name == "distlock" { store.unwrap_or(needs) } else { needs };
    Some(Adapter { command, store })
}
