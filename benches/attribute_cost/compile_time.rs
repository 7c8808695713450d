//! Compile time: a full build of the macro crate, and of a generated crate with and without locks.
//!
//! The functions are polled: another function boxes each of them. The compiler generates no code for a future that is
//! never polled, and the wrapper is such code.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use distlock_benches::options::Length;

/// One function shows the cost for every crate that uses the library. Many functions show the cost of each function.
const FUNCTIONS: [usize; 2] = [1, 200];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What surrounds the functions of a generated crate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    /// `#[distributed_lock]`.
    Attribute,
    /// A guard, acquired and released explicitly.
    Guard,
    /// `#[tracing::instrument]`, an attribute that many services use.
    Instrument,
    /// `#[async_trait]`, another one. Each function is a method of a trait.
    AsyncTrait,
}

impl Around {
    const ALL: [Around; 5] =
        [Around::Nothing, Around::Attribute, Around::Guard, Around::Instrument, Around::AsyncTrait];

    fn name(self) -> &'static str {
        match self {
            Around::Nothing => "plain",
            Around::Attribute => "annotated",
            Around::Guard => "guard",
            Around::Instrument => "instrument",
            Around::AsyncTrait => "async_trait",
        }
    }

    fn attribute(self) -> &'static str {
        match self {
            Around::Attribute => "#[distlock::distributed_lock(key = \"order:<user_id>\", ttl = \"10s\")]\n",
            Around::Instrument => "#[tracing::instrument(skip_all, fields(user_id))]\n",
            Around::Nothing | Around::Guard | Around::AsyncTrait => "",
        }
    }

    /// The statements before and after the body.
    fn statements(self) -> (&'static str, &'static str) {
        match self {
            Around::Guard => (
                "let manager = distlock::LockManager::current()?;
    let key = distlock::key!(\"order:<user_id>\");
    let guard = manager.lock(key).ttl(std::time::Duration::from_secs(10)).acquire().await?;
    ",
                "guard.release().await?;\n    ",
            ),
            Around::Nothing | Around::Attribute | Around::Instrument | Around::AsyncTrait => ("", ""),
        }
    }
}

/// A typical function of a service, with a few calls, a loop and two await points, and a caller that polls it.
fn function(index: usize, around: Around) -> String {
    let (attribute, (acquire, release)) = (around.attribute(), around.statements());
    let arguments = "user_id: u64, items: Vec<Item>, note: &str";
    let body = format!(
        r#"{{
    {acquire}let account = load(user_id).await?;
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
    {release}Ok(Receipt {{ total, text, lines: items.into_iter().map(|item| item.name).collect() }})
}}"#
    );
    if around == Around::AsyncTrait {
        return format!(
            r"
#[async_trait::async_trait]
pub trait Order{index} {{
    async fn order_{index}(&self, {arguments}) -> Result<Receipt, OrderError>;
}}

#[async_trait::async_trait]
impl Order{index} for Shop {{
    async fn order_{index}(&self, {arguments}) -> Result<Receipt, OrderError> {body}
}}

pub fn boxed_{index}({arguments}) -> Boxed<'_> {{
    Shop.order_{index}(user_id, items, note)
}}
"
        );
    }
    format!(
        r"
{attribute}pub async fn order_{index}({arguments}) -> Result<Receipt, OrderError> {body}

pub fn boxed_{index}({arguments}) -> Boxed<'_> {{
    Box::pin(order_{index}(user_id, items, note))
}}
"
    )
}

const SHARED: &str = r"
//! Generated.
pub type Boxed<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Receipt, OrderError>> + Send + 'a>>;
pub struct Shop;
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

fn write_crate(root: &Path, name: &str, functions: usize, around: Around) -> Outcome<()> {
    let distlock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../distlock").canonicalize()?;
    let folder = root.join(name);
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\ndistlock = {{ path = {distlock:?} }}\nasync-trait = \"0.1\"\ntracing = \"0.1\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut source = SHARED.trim_start().to_owned();
    for index in 0..functions {
        write!(source, "\n{}", function(index, around).trim_start())?;
    }
    fs::write(folder.join("src/lib.rs"), source)?;
    Ok(())
}

/// The CPU time of all children that have ended, from `/proc/self/stat`. Other work on the machine does not count.
fn children_cpu() -> Outcome<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Fields 16 and 17 of the line, in clock ticks. The name is the second field.
    let ticks: u64 = after_name.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Runs cargo, and returns its CPU time.
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

/// The shortest of some rounds. Each compiles only the generated crate.
fn rebuilt(root: &Path, name: &str, arguments: &[&str], rounds: usize) -> Outcome<f64> {
    let (folder, target) = (root.join(name), root.join("target"));
    cargo(&folder, &target, arguments)?;
    let mut best = f64::INFINITY;
    for round in 0..rounds {
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
    let rounds = Length::from_args().pick(3, 1);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cold = cargo(&workspace, &root.join("cold"), &["build", "--package", "distlock-macros"])?;
    println!("macro crate with its dependencies, cold: {:.1} s of CPU", cold.as_secs_f64());
    for functions in FUNCTIONS {
        for around in Around::ALL {
            let name = format!("{}_{functions}", around.name());
            write_crate(root, &name, functions, around)?;
            fs::copy(workspace.join("Cargo.lock"), root.join(&name).join("Cargo.lock"))?;
        }
        for arguments in [&["check"][..], &["build"], &["build", "--release"]] {
            let cpu =
                |around: Around| rebuilt(root, &format!("{}_{functions}", around.name()), arguments, rounds);
            let plain = cpu(Around::Nothing)?;
            print!("{functions:>3} functions, cargo {:<15} plain {plain:>6.2} s of CPU", arguments.join(" "));
            for around in &Around::ALL[1..] {
                print!(", {} ÷ plain {:.2}", around.name(), cpu(*around)? / plain);
            }
            println!();
        }
    }
    Ok(())
}
