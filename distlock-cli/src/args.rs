//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use distlock::Ticket;

use crate::span::{Span, Wait};

const STATUSES: &str = "\
Exit status: that of the command, 128+n if signal n has ended it, else
  64  wrong usage or options
  69  the store cannot be reached
  75  the lock is busy, or the ticket is of no use
  76  the lock was lost while the command ran
  77  the store refuses the user, the password or a permission
  78  the key is in use as another kind of lock
  126 the command cannot be executed
  127 the command was not found";

/// Distributed locks from the shell.
#[derive(Debug, Parser)]
#[command(name = "distlock", version, about, after_help = STATUSES, disable_help_subcommand = false)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) general: General,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct General {
    /// Where the locks are kept, as in redis://127.0.0.1/ [env: DISTLOCK_URL]
    #[arg(long, global = true, conflicts_with = "url_file")]
    pub(crate) url: Option<String>,
    /// A file that contains the URL: others on the machine see neither it nor its password [env: DISTLOCK_URL_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// The URL that was found, here or in the environment
    #[arg(skip)]
    pub(crate) found: OnceLock<String>,
    /// Prefix of every key
    #[arg(long, env = "DISTLOCK_PREFIX", default_value = "", global = true)]
    pub(crate) prefix: String,
    /// Name of this client, shown to others
    #[arg(long, env = "DISTLOCK_NAME", global = true)]
    pub(crate) name: Option<String>,
    /// Prints JSON (ls, show, doctor, ping)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Says more on standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while it holds a lock
    Run(Run),
    /// Runs a command while this is the leader, again and again
    Leader(Leader),
    /// Lists all locks that are held or waited for
    Ls(Ls),
    /// Shows who holds a lock; exits with 1 if nobody does
    Show(Key),
    /// Waits until a lock is free, without taking it
    Wait(WaitFor),
    /// Takes a lock away from its holder; exits with 1 if nobody holds it
    Release(Release),
    /// Shows all locks, as they come and go
    Top(Top),
    /// Exits with 0 if a lock can be taken and given back
    Ping,
    /// Looks for what is wrong with the store, and says what to do; exits with 1 if locks are in danger
    Doctor,
    /// Shows all locks as a page in the browser
    Web(Web),
    /// Prints the SQL that makes the tables, for somebody who may run it; it needs no URL
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    #[command(subcommand)]
    Sql(Sql),
    /// Prints what a shell completes
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page: `distlock man > distlock.1`
    Man,
    /// Ends a command whose `distlock run` was killed or stopped
    #[command(hide = true)]
    Guardian(Guardian),
    /// Becomes a command when it is told to
    #[command(hide = true)]
    Begin(Begin),
}

impl Command {
    pub(crate) fn prints_json(&self) -> bool {
        matches!(self, Command::Ls(_) | Command::Show(_) | Command::Doctor | Command::Ping)
    }
}

/// What happens to the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// It gets the signal, and after --kill-after SIGKILL
    Signal,
    /// It gets SIGKILL at once
    Kill,
    /// Nothing
    Ignore,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Ending {
    /// How long the command has to end after the signal, before it is killed
    #[arg(long, default_value = "5s", value_name = "TIME")]
    pub(crate) kill_after: Span,
    /// The signal that asks the command to end
    #[arg(long, default_value = "TERM", value_parser = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])]
    pub(crate) signal: String,
    /// What happens to the command when the lock is lost
    #[arg(long, value_enum, default_value = "signal")]
    pub(crate) on_lost: OnLost,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Program {
    /// Runs this text with `sh -c`, with the arguments as its parameters
    #[arg(short = 'c', long = "shell", value_name = "TEXT")]
    pub(crate) shell: Option<String>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "shell", value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The key; several: all or nothing
    #[arg(short, long = "key", required_unless_present = "ticket", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Takes the lock of this ticket over, without a wait; others on the machine see command lines, so use the
    /// environment
    #[arg(
        long,
        env = "DISTLOCK_TICKET",
        hide_env_values = true,
        conflicts_with_all = ["keys", "shared", "max_holders"],
        value_name = "TICKET"
    )]
    pub(crate) ticket: Option<Ticket>,
    /// If the command succeeds, does not release the lock, and prints a ticket: for --ticket, within the ttl
    #[arg(long, conflicts_with_all = ["shared", "max_holders", "min_hold"])]
    pub(crate) hand_over: bool,
    /// Lease time: how long others wait if this machine crashes
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) ttl: Span,
    /// How long to wait for the lock, or `forever`
    #[arg(short, long, default_value = "10s", value_name = "TIME")]
    pub(crate) wait: Wait,
    /// A read lock
    #[arg(short, long, conflicts_with_all = ["max_holders", "fenced"])]
    pub(crate) shared: bool,
    /// At most so many holders at a time
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "fenced")]
    pub(crate) max_holders: Option<u32>,
    /// Keeps others out for so long, even if the command ends earlier
    #[arg(long, value_name = "TIME")]
    pub(crate) min_hold: Option<Span>,
    /// The longest time for which the command may run
    #[arg(long, value_name = "TIME")]
    pub(crate) max_hold: Option<Span>,
    /// Gets a fencing token, for the environment
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Does not renew the lease: the command may run for the ttl at most
    #[arg(long)]
    pub(crate) no_renew: bool,
    /// The exit status if the lock is busy
    #[arg(long, default_value_t = 75, value_name = "STATUS")]
    pub(crate) busy_exit: u8,
    /// Exits with 0, and says nothing, if the lock is busy
    #[arg(long, conflicts_with = "busy_exit")]
    pub(crate) quiet_busy: bool,
    /// Gives the command the URL, with its password, as DISTLOCK_URL
    #[arg(long)]
    pub(crate) pass_url: bool,
    #[command(flatten)]
    pub(crate) ending: Ending,
    #[command(flatten)]
    pub(crate) program: Program,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Leader {
    /// The name of the office
    pub(crate) office: String,
    /// Lease time: how long there is no leader if this machine crashes
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) ttl: Span,
    /// How long to wait for each term, or `forever`
    #[arg(short, long, default_value = "forever", value_name = "TIME")]
    pub(crate) wait: Wait,
    /// The label of its requests, for those who look
    #[arg(long, default_value = "distlock leader", value_name = "TEXT")]
    pub(crate) label: String,
    /// The longest time for which a term lasts; then the command is ended, and another may be the leader
    #[arg(long, value_name = "TIME")]
    pub(crate) max_hold: Option<Span>,
    /// Gives the command the URL, with its password, as DISTLOCK_URL
    #[arg(long)]
    pub(crate) pass_url: bool,
    #[command(flatten)]
    pub(crate) ending: Ending,
    #[command(flatten)]
    pub(crate) program: Program,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// Which keys: `*` is any text, `?` one character, `\` takes away their meaning
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks that somebody waits for
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only locks that programs on this machine hold or wait for
    #[arg(long)]
    pub(crate) mine: bool,
    /// The order
    #[arg(long, value_enum, default_value = "key")]
    pub(crate) sort: Sort,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By key: each is printed as soon as it is known
    Key,
    /// The one first that has been held longest
    Age,
    /// The one first that most processes wait for
    Waiters,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    /// Which keys: `*` is any text, `?` one character, `\` takes away their meaning
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// How often it looks
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) every: Span,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Web {
    /// The address to listen on; one that other machines reach needs a token
    #[arg(long, default_value = "127.0.0.1:4747", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Allows to release locks, and asks for this token (16 characters or more) to see them
    #[arg(long, env = "DISTLOCK_WEB_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The same, from this file: its first line
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Further names of this server, as behind a proxy
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// The keys to show: * any text, ? one character, \ takes away the meaning of the next character
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

/// The database.
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[derive(Debug, Subcommand)]
pub(crate) enum Sql {
    /// For PostgreSQL
    #[cfg(feature = "postgres")]
    Postgres {
        /// The schema, as in `?schema=` of the URL
        #[arg(long, default_value = "distlock", value_name = "NAME")]
        schema: String,
    },
    /// For MySQL and MariaDB
    #[cfg(feature = "mysql")]
    Mysql {
        /// What the names of the tables begin with, as in `?table_prefix=` of the URL
        #[arg(long, default_value = "distlock_", value_name = "TEXT")]
        table_prefix: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Key {
    /// The key
    pub(crate) key: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WaitFor {
    /// The key
    pub(crate) key: String,
    /// How long to wait, or `forever`
    #[arg(short, long, default_value = "forever", value_name = "TIME")]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Release {
    /// The key
    pub(crate) key: String,
    /// Does not ask
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only if this owner token, as `show` prints it, is that of a holder still
    #[arg(long)]
    pub(crate) token: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Guardian {
    /// How long the command has to end after it was asked to; without it, it is killed at once
    #[arg(long)]
    pub(crate) kill_after: Option<Span>,
    /// The signal that asks it to
    #[arg(long)]
    pub(crate) signal: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Begin {
    /// The file descriptor to wait for
    #[arg(long)]
    pub(crate) gate: i32,
    #[command(flatten)]
    pub(crate) program: Program,
}

impl Program {
    /// What is executed.
    pub(crate) fn parts(&self) -> (PathBuf, Vec<OsString>) {
        match &self.shell {
            Some(text) => {
                // What `sh -c` calls itself comes before its parameters.
                let mut arguments = vec!["-c".into(), text.into(), "sh".into()];
                arguments.extend(self.command.iter().cloned());
                ("/bin/sh".into(), arguments)
            }
            None => {
                let mut words = self.command.iter().cloned();
                (words.next().unwrap_or_default().into(), words.collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_follows_two_hyphens_is_the_command() {
        let args = Args::try_parse_from(["distlock", "run", "--key", "k", "--", "ls", "--key", "x"]).unwrap();
        let Command::Run(run) = args.command else { panic!("it is run") };
        assert_eq!(run.keys, ["k"]);
        assert_eq!(run.program.parts(), ("ls".into(), vec!["--key".into(), "x".into()]));
    }

    #[test]
    fn a_text_is_run_by_a_shell() {
        let args =
            Args::try_parse_from(["distlock", "run", "--key", "k", "-c", "echo $1", "--", "a"]).unwrap();
        let Command::Run(run) = args.command else { panic!("it is run") };
        let arguments: Vec<OsString> = ["-c", "echo $1", "sh", "a"].map(Into::into).into();
        assert_eq!(run.program.parts(), ("/bin/sh".into(), arguments));
        assert!(Args::try_parse_from(["distlock", "run", "--key", "k"]).is_err(), "nothing to run");
    }
}
