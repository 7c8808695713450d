//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::span::{Span, Wait};

const STATUSES: &str = "\
Exit status: the status of the command, 128+n if signal n has ended it, or
  64  wrong usage or options
  69  the store is unreachable, or the ticket cannot be written
  75  the lock is busy, or the ticket cannot be used
  76  the lock was lost before or while the command ran
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
    /// URL of the store, such as redis://127.0.0.1/ [env: DISTLOCK_URL]
    #[arg(long, global = true, conflicts_with = "url_file")]
    pub(crate) url: Option<String>,
    /// File with the URL, so that other users cannot see its password [env: DISTLOCK_URL_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// The URL from the options or the environment
    #[arg(skip)]
    pub(crate) found: OnceLock<String>,
    /// Prefix of every key
    #[arg(long, env = "DISTLOCK_PREFIX", default_value = "", global = true)]
    pub(crate) prefix: String,
    /// Name of this client in its owner tokens
    #[arg(long, env = "DISTLOCK_NAME", global = true)]
    pub(crate) name: Option<String>,
    /// Prints JSON (ls, show, doctor, ping)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Prints more on standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while it holds a lock
    Run(Run),
    /// Runs a command while this process is the leader, once in each term
    Leader(Leader),
    /// Lists all locks that are held or waited for
    Ls(Ls),
    /// Shows the holders and waiters of a lock; exits with 1 if it is free
    Show(Key),
    /// Waits until a lock is free, without acquiring it
    Wait(WaitFor),
    /// Releases a lock by force; exits with 1 if it was free
    Release(Release),
    /// Shows all locks on a screen that is kept up to date
    Top(Top),
    /// Exits with 0 if a lock can be acquired and released
    Ping,
    /// Examines the store and prints risks with their remedies; exits with 1 if it finds a fault
    Doctor,
    /// Shows all locks as a page in the browser
    Web(Web),
    /// Prints the SQL that creates the tables, for an administrator; it needs no URL
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    #[command(subcommand)]
    Sql(Sql),
    /// Prints the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page: `distlock man > distlock.1`
    Man,
    /// Ends a command whose `distlock run` was killed or stopped
    #[command(hide = true)]
    Guardian(Guardian),
    /// Waits for a file descriptor, then executes a command
    #[command(hide = true)]
    Begin(Begin),
}

impl Command {
    pub(crate) fn prints_json(&self) -> bool {
        matches!(self, Command::Ls(_) | Command::Show(_) | Command::Doctor | Command::Ping)
    }
}

/// The effect of a lost lock on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// It gets the signal, and SIGKILL after --kill-after
    Signal,
    /// It gets SIGKILL at once
    Kill,
    /// The command continues
    Ignore,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Ending {
    /// How long the command has to end after the signal, before it is killed
    #[arg(long, default_value = "5s", value_name = "TIME")]
    pub(crate) kill_after: Span,
    /// The signal that ends the command
    #[arg(long, default_value = "TERM", value_parser = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])]
    pub(crate) signal: String,
    /// The effect of a lost lock on the command
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
    /// The key; repeat it for several keys, all or nothing
    #[arg(short, long = "key", required_unless_present = "ticket", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Takes over the lock of this ticket, without a wait. Other users see command lines, so use the environment
    #[arg(
        long,
        env = "DISTLOCK_TICKET",
        hide_env_values = true,
        conflicts_with_all = ["keys", "shared", "max_holders"],
        value_name = "TICKET"
    )]
    // Not a `Ticket`, because the error of the parser would print the text.
    pub(crate) ticket: Option<String>,
    /// After the command has succeeded, prints a ticket (for --ticket, within the ttl) instead of releasing the lock
    #[arg(long, conflicts_with_all = ["shared", "max_holders", "min_hold"])]
    pub(crate) hand_over: bool,
    /// How long the lease lasts: others wait this long if this machine crashes
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) ttl: Span,
    /// How long to wait for the lock, or `forever`
    #[arg(short, long, default_value = "10s", value_name = "TIME")]
    pub(crate) wait: Wait,
    /// A read lock
    #[arg(short, long, conflicts_with_all = ["max_holders", "fenced"])]
    pub(crate) shared: bool,
    /// At most this many holders at a time
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "fenced")]
    pub(crate) max_holders: Option<u32>,
    /// Excludes others for at least this time, even if the command ends earlier
    #[arg(long, value_name = "TIME")]
    pub(crate) min_hold: Option<Span>,
    /// The longest time for which the command may run
    #[arg(long, value_name = "TIME")]
    pub(crate) max_hold: Option<Span>,
    /// Requests a fencing token, and passes it as DISTLOCK_FENCE
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Does not renew the lease; the command may run for at most the ttl
    #[arg(long)]
    pub(crate) no_renew: bool,
    /// The exit status if the lock is busy; 75 for a ticket that cannot be used
    #[arg(long, default_value_t = 75, value_name = "STATUS")]
    pub(crate) busy_exit: u8,
    /// If the lock is busy, exits with 0 and prints nothing
    #[arg(long, conflicts_with = "busy_exit")]
    pub(crate) quiet_busy: bool,
    #[command(flatten)]
    pub(crate) child: Child,
}

/// The command that runs under the lock.
#[derive(Debug, ClapArgs)]
pub(crate) struct Child {
    /// Passes the URL, with its password, to the command as DISTLOCK_URL
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
    /// How long the lease lasts: there is no leader for this long if this machine crashes
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) ttl: Span,
    /// How long to wait for each term, or `forever`
    #[arg(short, long, default_value = "forever", value_name = "TIME")]
    pub(crate) wait: Wait,
    /// The label of its requests, which `ls` and `show` print
    #[arg(long, default_value = "distlock leader", value_name = "TEXT")]
    pub(crate) label: String,
    /// The longest time of a term; after that, the command is ended, and another process may lead
    #[arg(long, value_name = "TIME")]
    pub(crate) max_hold: Option<Span>,
    #[command(flatten)]
    pub(crate) child: Child,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// A pattern of keys: `*` matches any text, `?` one character, `\` escapes the next character
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks with waiters
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
    /// By key; each lock is printed as soon as it is read
    Key,
    /// The lock that has been held longest comes first
    Age,
    /// The lock with the most waiting processes comes first
    Waiters,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    /// A pattern of keys: `*` matches any text, `?` one character, `\` escapes the next character
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The pause between two refreshes
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) every: Span,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Web {
    /// The address to listen on; an address that other machines can reach needs a token
    #[arg(long, default_value = "127.0.0.1:4747", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Allows to release locks; the page then requires this token (16 characters or more)
    #[arg(long, env = "DISTLOCK_WEB_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The same with the token in the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Further names of this server, for example behind a proxy; a port has no effect
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// A pattern of keys: * matches any text, ? one character, \ escapes the next character
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
        /// The prefix of the tables' names, as in `?table_prefix=` of the URL
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
    /// Releases the lock without a confirmation
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only if the holder still has this owner token, which `show` prints
    #[arg(long)]
    pub(crate) token: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Guardian {
    /// How long the command has to end after the signal; if not set, it is killed at once
    #[arg(long)]
    pub(crate) kill_after: Option<Span>,
    /// The signal that ends it
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
    /// The command to execute.
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
        assert_eq!(run.child.program.parts(), ("ls".into(), vec!["--key".into(), "x".into()]));
    }

    #[test]
    fn a_text_is_run_by_a_shell() {
        let args =
            Args::try_parse_from(["distlock", "run", "--key", "k", "-c", "echo $1", "--", "a"]).unwrap();
        let Command::Run(run) = args.command else { panic!("it is run") };
        let arguments: Vec<OsString> = ["-c", "echo $1", "sh", "a"].map(Into::into).into();
        assert_eq!(run.child.program.parts(), ("/bin/sh".into(), arguments));
        assert!(Args::try_parse_from(["distlock", "run", "--key", "k"]).is_err(), "nothing to run");
    }
}
