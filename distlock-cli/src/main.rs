//! The command `distlock`: see `distlock help`, and `docs/command.md`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

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
mod take;
mod top;
mod web;
mod words;

use std::process::ExitCode;

use args::{Args, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};
use exit::Exit;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // The error would list the subcommands, hidden ones too.
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            eprint!("{}", Args::command().render_help());
            return Exit::Usage.leave();
        }
        Err(error) => {
            let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // If nobody can be told, the status says it.
            drop(error.print());
            return if asked_for { Exit::Success.leave() } else { Exit::Usage.leave() };
        }
    };
    // Without a runtime: what becomes of this process inherits nothing of it.
    match &args.command {
        Command::Begin(options) => return run::begin(options).leave(),
        Command::Guardian(options) => return run::guard(options).leave(),
        command if args.general.json && !command.prints_json() => {
            return Exit::Usage.because("--json is for ls, show, doctor and ping").leave();
        }
        _ => {}
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(carry_out(args)).leave(),
        Err(error) => Exit::Unavailable.because(&format!("no runtime: {error}")).leave(),
    }
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
            let page = clap_mangen::Man::new(Args::command()).render(&mut std::io::stdout());
            page.map(|()| Exit::Success).map_err(|error| Exit::Unavailable.because(&error.to_string()))
        }
        Command::Web(options) => web::web(&general, options).await,
        Command::Show(options) => look::show(&general, options).await,
        Command::Wait(options) => look::wait(&general, options).await,
        Command::Release(options) => look::release(&general, options).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "distlock", &mut std::io::stdout());
            Ok(Exit::Success)
        }
    };
    done.unwrap_or_else(|exit| exit)
}
