//! The command `distlock`: see `distlock help`, and `docs/command.md`.
//!
//! It is also a library, for your own store: a program that registers the store's URL scheme and calls [`main`] is the
//! complete command, with that store and all others. `run` and `leader` start the program again, so it must do nothing
//! else than this:
//!
//! ```no_run
//! # use distlock::store::*;
//! # use distlock::store::kit::connection::ConnectionOptions;
//! # mod my_store {
//! #     use super::*;
//! #     #[derive(Debug)] pub(super) struct MyStore;
//! #     impl LockStore for MyStore {
//! #         fn describe(&self) -> String { "mine".into() }
//! #         async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
//! #             Ok(AcquireReply::Acquired { fence: None })
//! #         }
//! #         async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
//! #         async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> { Ok(ReleaseReply::Released) }
//! #         async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> { Ok(None) }
//! #         async fn force_release(&self, _: &str) -> Result<bool, StoreError> { Ok(false) }
//! #     }
//! #     pub(super) fn open(_: &str, _: &ConnectionOptions) -> Result<MyStore, String> { Ok(MyStore) }
//! # }
//! fn main() -> std::process::ExitCode {
//!     distlock::store::register(&["mine"], my_store::open).expect("`mine` is no other store's");
//!     distlock_cli::main()
//! }
//! ```

mod args;
mod as_json;
mod connect;
mod doctor;
mod exit;
mod known;
mod list;
mod look;
mod out;
mod rates;
mod run;
mod span;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sql;
mod take;
mod top;
mod web;
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};
use exit::Exit;

/// Runs the command with the arguments of this process, and returns its exit status. Call it from `main` before any
/// thread is started, because it blocks signals for later threads.
///
/// If a signal has ended the command of `distlock run`, this process ends by the same signal, and the function does not
/// return.
#[must_use]
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // The error would list the subcommands, including hidden ones.
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            drop(out::ask(Args::command().render_help()));
            return leave(Exit::Usage);
        }
        Err(error) => {
            let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // If the text cannot be written, the exit status is enough.
            drop(error.print());
            return leave(if asked_for { Exit::Success } else { Exit::Usage });
        }
    };
    // Without a runtime, so that the program that this process becomes inherits nothing of it.
    match &args.command {
        Command::Begin(options) => return leave(run::begin(options)),
        Command::Guardian(options) => return leave(run::guard(options)),
        command if args.general.json && !command.prints_json() => {
            return leave(Exit::Usage.because("--json is for ls, show, doctor and ping"));
        }
        _ => {}
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => leave(runtime.block_on(carry_out(args))),
        Err(error) => leave(Exit::Unavailable.because(&format!("the runtime cannot start: {error}"))),
    }
}

/// Ends this process with this status. If a signal has ended the command, this process ends by the same signal.
fn leave(exit: Exit) -> ExitCode {
    if let Exit::Signal(number) = exit {
        run::die_of(number);
    }
    ExitCode::from(exit.status())
}

async fn carry_out(args: Args) -> Exit {
    let Args { general, command } = args;
    let done = match command {
        Command::Run(options) => run::run(&general, options).await,
        Command::Leader(options) => run::lead(&general, options).await,
        Command::Guardian(options) => Ok(run::guard(&options)),
        Command::Begin(options) => Ok(run::begin(&options)),
        Command::Ping => look::ping(&general).await,
        Command::Ls(options) => list::ls(&general, options).await,
        Command::Top(options) => top::top(&general, options).await,
        Command::Doctor => doctor::doctor(&general).await,
        Command::Man => {
            let mut page = Vec::new();
            // A vector takes everything.
            drop(clap_mangen::Man::new(Args::command()).render(&mut page));
            out::say_text(&page);
            Ok(Exit::Success)
        }
        Command::Web(options) => web::web(&general, options).await,
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        Command::Sql(database) => sql::sql(&database),
        Command::Show(options) => look::show(&general, options).await,
        Command::Wait(options) => look::wait(&general, options).await,
        Command::Release(options) => look::release(&general, options).await,
        Command::Completions { shell } => {
            // Not to the standard output: it would panic if the reader is gone.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "distlock", &mut script);
            out::say_text(&script);
            Ok(Exit::Success)
        }
    };
    done.unwrap_or_else(|exit| exit)
}
