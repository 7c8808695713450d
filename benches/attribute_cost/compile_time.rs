//! Compile time: the macro crate from nothing, and a generated crate with and without the attribute.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const FUNCTIONS: usize = 200;
const ROUNDS: usize = 3;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A function as services have it: a few calls, a loop, two await points; and a caller that polls it. The compiler
/// makes no code of a future that nobody polls.
fn function(index: usize) -> String {
    format!(
        r#"
pub async fn order_{index}(user_id: u64, items: Vec<Item>, note: &str) -> Result<Receipt, OrderError> {{
    let account = load(user_id).await?;
    let mut total = 0u64;
    for item in &items {{
        if item.count == 0 {{
            return Err(OrderError::Empty {{ name: item.name.clone() }});
        }}
        total = total.checked_add(item.price * item.count).ok_or(OrderError::TooLarge)?;
    }}
    if account.points < total {{
        return Err(OrderError::TooLarge);
    }}
    let text = format!("{{}}: {{note}} ({index})", account.name);
    save(user_id, account.points - total, &text).await?;
    Ok(Receipt {{ total, text, lines: items.into_iter().map(|item| item.name).collect() }})
}}

pub fn boxed_{index}(user_id: u64, items: Vec<Item>, note: &str) -> Boxed<'_> {{
    Box::pin(order_{index}(user_id, items, note))
}}
"#
    )
}

const SHARED: &str = r"
//! Generated.
pub type Boxed<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Receipt, OrderError>> + Send + 'a>>;
pub struct Item { pub name: String, pub price: u64, pub count: u64 }
pub struct Receipt { pub total: u64, pub text: String, pub lines: Vec<String> }
pub struct Account { pub name: String, pub points: u64 }
#[derive(Debug)]
pub enum OrderError { Empty { name: String }, TooLarge, Lock(distlock::LockError) }
impl From<distlock::LockError> for OrderError {
    fn from(error: distlock::LockError) -> Self { OrderError::Lock(error) }
}
async fn load(user_id: u64) -> Result<Account, OrderError> {
    std::future::ready(Ok(Account { name: user_id.to_string(), points: user_id })).await
}
async fn save(user_id: u64, points: u64, text: &str) -> Result<(), OrderError> {
    std::future::ready(if user_id + points > 0 && !text.is_empty() { Ok(()) } else { Err(OrderError::TooLarge) }).await
}
";

fn write_crate(root: &Path, name: &str, attribute: &str) -> Outcome<()> {
    let distlock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../distlock").canonicalize()?;
    let folder = root.join(name);
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\ndistlock = {{ path = {distlock:?} }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut source = SHARED.trim_start().to_owned();
    for index in 0..FUNCTIONS {
        write!(source, "\n{attribute}{}", function(index).trim_start())?;
    }
    fs::write(folder.join("src/lib.rs"), source)?;
    Ok(())
}

/// The CPU time of all children that have ended, from `/proc/self/stat`: other work on the machine does not count.
fn children_cpu() -> Outcome<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Fields 16 and 17 of the line, in clock ticks; the name is the second.
    let ticks: u64 = after_name.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Runs cargo; how much CPU time it took.
fn cargo(folder: &Path, target: &Path, arguments: &[&str]) -> Outcome<Duration> {
    let started = children_cpu()?;
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--quiet", "--offline", "--jobs", "1"])
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(folder)
        .status()?;
    if !status.success() {
        return Err(format!("`cargo {}` in {} failed", arguments.join(" "), folder.display()).into());
    }
    Ok(children_cpu()?.saturating_sub(started))
}

/// The shortest of some rounds, each compiling nothing but the generated crate.
fn rebuilt(root: &Path, name: &str, arguments: &[&str]) -> Outcome<f64> {
    let (folder, target) = (root.join(name), root.join("target"));
    cargo(&folder, &target, arguments)?;
    let mut best = f64::INFINITY;
    for round in 0..ROUNDS {
        let file = folder.join("src/lib.rs");
        let source = fs::read_to_string(&file)?;
        fs::write(&file, format!("{source}\n// {round}\n"))?;
        best = best.min(cargo(&folder, &target, arguments)?.as_secs_f64());
    }
    Ok(best)
}

pub(crate) fn measure() -> Outcome<()> {
    let root: PathBuf = std::env::temp_dir().join(format!("distlock-attribute-cost-{}", std::process::id()));
    fs::create_dir_all(&root)?;
    let outcome = compile(&root);
    fs::remove_dir_all(&root)?;
    outcome
}

fn compile(root: &Path) -> Outcome<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cold = cargo(&workspace, &root.join("cold"), &["build", "--package", "distlock-macros"])?;
    println!("macro crate with its dependencies, cold: {:.1} s of CPU", cold.as_secs_f64());

    let attribute = "#[distlock::distributed_lock(key = \"order:<user_id>\", ttl = \"10s\")]\n";
    write_crate(root, "without", "")?;
    write_crate(root, "with", attribute)?;
    for name in ["without", "with"] {
        fs::copy(workspace.join("Cargo.lock"), root.join(name).join("Cargo.lock"))?;
    }
    for arguments in [&["check"][..], &["build"], &["build", "--release"]] {
        let without = rebuilt(root, "without", arguments)?;
        let with = rebuilt(root, "with", arguments)?;
        println!(
            "{FUNCTIONS} functions, cargo {}: without {without:.2} s of CPU, with {with:.2} s, ratio {:.2}",
            arguments.join(" "),
            with / without
        );
    }
    Ok(())
}
