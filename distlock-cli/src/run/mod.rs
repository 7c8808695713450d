//! `run` and `leader`: a command that runs while a lock is held.

mod clock;
mod gate;
mod group;
mod guardian;
mod orders;
mod plan;
mod processes;
mod signals;
mod supervise;
mod terminal;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use distlock::{Guard, LockManager, LockRequest, Ticket};
use rustix::process::Signal;

use crate::args::{self, Ending, General, OnLost, Program};
use crate::connect::connect;
use crate::exit::Exit;
use crate::out::{complain, write_line};
use crate::span::{Span, Wait};
pub(crate) use gate::begin;
use group::Group;
pub(crate) use guardian::guard;
use signals::Signals;
pub(crate) use signals::die_of;
use supervise::{CommandEnd, supervise};

/// How long the last replies of the store are awaited.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The pause after an extension without a reply. A granted lock lasts for three seconds.
const EXTENSION_PAUSE: Duration = Duration::from_millis(100);

/// The command that runs under a lock, and how it is ended.
struct Job<'a> {
    program: &'a Program,
    ending: &'a Ending,
    ttl: Duration,
    /// The URL for the environment of the command.
    url: Option<&'a str>,
}

/// Runs a command under a lock.
pub(crate) async fn run(general: &General, options: args::Run) -> Result<Exit, Exit> {
    let mut signals = Signals::catch()?;
    let job = job(general, &options.child, options.ttl, options.max_hold)?;
    if options.hand_over && options.keys.len() > 1 {
        return Err(Exit::Usage.because("--hand-over is for one --key"));
    }
    let ticket = options.ticket.as_deref().map(str::parse::<Ticket>).transpose();
    // Without the text, which may contain a ticket.
    let ticket = ticket.map_err(|error| Exit::Usage.because(&error.to_string()))?;
    let manager = interruptible(&mut signals, connect(general)).await??;
    let exit = hold(&manager, &options, ticket.as_ref(), &job, &mut signals).await;
    // Also after a signal has ended the wait: the lock may be granted by then, and its release is not sent yet.
    manager.shutdown(LAST_WORDS).await;
    exit
}

/// Runs the command while the lock is held.
async fn hold(
    manager: &LockManager,
    options: &args::Run,
    ticket: Option<&Ticket>,
    job: &Job<'_>,
    signals: &mut Signals,
) -> Result<Exit, Exit> {
    if options.hand_over {
        // Checked before the command runs. After it, the lock could only be released.
        manager.check_hand_over().map_err(|error| Exit::told(&error))?;
    }
    let acquired = interruptible(signals, request(manager, options, ticket).acquire()).await?;
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) if error.is_busy() && options.quiet_busy => return Ok(Exit::Success),
        Err(error) if error.is_busy() => {
            return Err(Exit::Status(options.busy_exit).because(&error.to_string()));
        }
        Err(error) => return Err(Exit::told(&error)),
    };
    let ended = under(manager, &guard, job, signals).await;
    match &ended {
        Ok(CommandEnd::ByItself(status)) if options.hand_over && status.success() => {
            hand_over(manager, guard).await
        }
        _ => end(guard, ended, job.ending.on_lost).await,
    }
}

fn job<'a>(
    general: &'a General,
    child: &'a args::Child,
    ttl: Span,
    max_hold: Option<Span>,
) -> Result<Job<'a>, Exit> {
    let args::Child { pass_url, ending, program } = child;
    for span in std::iter::once(ttl).chain(max_hold) {
        check(ending, span)?;
    }
    let url = if *pass_url { Some(general.url()?) } else { None };
    Ok(Job { program, ending, ttl: ttl.0, url })
}

/// Hands the lock over to the process that gets the ticket.
async fn hand_over(manager: &LockManager, guard: Guard) -> Result<Exit, Exit> {
    let ticket = guard.hand_over().await.map_err(|error| Exit::told(&error))?;
    let Err(unwritten) = write_line(&ticket) else { return Ok(Exit::Success) };
    // No process can take the lock over, so it would block all others until the end of the ttl.
    let taken_back = async { manager.take_over(&ticket).acquire().await?.release().await };
    if let Err(error) = taken_back.await {
        complain(&error);
    }
    Err(Exit::Unavailable.because(&format!("the ticket cannot be written: {unwritten}")))
}

/// Runs the command while this process is the leader.
pub(crate) async fn lead(general: &General, options: args::Leader) -> Result<Exit, Exit> {
    let mut signals = Signals::catch()?;
    let job = job(general, &options.child, options.ttl, options.max_hold)?;
    let manager = interruptible(&mut signals, connect(general)).await??;
    let exit = hold_terms(&manager, &options, &job, &mut signals).await;
    // As in `run`.
    manager.shutdown(LAST_WORDS).await;
    exit
}

async fn hold_terms(
    manager: &LockManager,
    options: &args::Leader,
    job: &Job<'_>,
    signals: &mut Signals,
) -> Result<Exit, Exit> {
    let office = &options.office;
    loop {
        let request = limited(manager.lock(office), options.ttl, options.wait, options.max_hold);
        let request = request.label(options.label.clone()).fenced();
        let acquired = interruptible(signals, request.acquire()).await?;
        let guard = match acquired {
            Ok(guard) => guard,
            // The store may become reachable again.
            Err(error) if Exit::of(&error) == Exit::Unavailable && options.wait == Wait::Forever => {
                complain(format_args!("{error}; retrying"));
                interruptible(signals, tokio::time::sleep(LAST_WORDS)).await?;
                continue;
            }
            Err(error) => return Err(Exit::told(&error)),
        };
        let term = guard.fencing_token().map_or_else(|| "?".to_owned(), |token| token.to_string());
        complain(format_args!("leader of {office}: term {term} begins"));
        let ended = under(manager, &guard, job, signals).await;
        let exit = end(guard, ended, job.ending.on_lost).await;
        complain(format_args!("leader of {office}: term {term} has ended"));
        match (exit, signals.asked_to_end()) {
            (Err(Exit::Lost), None) => {}
            // The signal was passed on to the command, which was ended at the same time because the lock was lost.
            (Err(Exit::Lost), Some(signal)) => return Err(Exit::Signal(signal.as_raw())),
            (exit, _) => return exit,
        }
    }
}

/// This program, even if its file was replaced, for example by an upgrade.
fn own_program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}

/// Checks that there is time to kill the command before the lease ends.
fn check(ending: &Ending, ttl: Span) -> Result<(), Exit> {
    // A lease is renewed when a third of it is over.
    if ending.on_lost == OnLost::Signal && ending.kill_after.0 > ttl.0 / 2 {
        return Err(Exit::Usage.because(
            "--kill-after is longer than half of --ttl or --max-hold: the command could not be killed in time",
        ));
    }
    Ok(())
}

/// Adds the options that `run` and `leader` have in common.
fn limited(request: LockRequest, ttl: Span, wait: Wait, max_hold: Option<Span>) -> LockRequest {
    let request = match wait {
        Wait::For(time) => request.ttl(ttl.0).wait(time),
        Wait::Forever => request.ttl(ttl.0).wait_forever(),
    };
    match max_hold {
        Some(Span(most)) => request.max_hold(most),
        None => request,
    }
}

fn request(manager: &LockManager, options: &args::Run, ticket: Option<&Ticket>) -> LockRequest {
    let request = match ticket {
        Some(ticket) => manager.take_over(ticket),
        None => manager.lock_all(&options.keys),
    };
    let mut request = limited(request, options.ttl, options.wait, options.max_hold).label("distlock run");
    if options.shared {
        request = request.shared();
    }
    if let Some(most) = options.max_holders {
        request = request.max_holders(most);
    }
    if let Some(Span(time)) = options.min_hold {
        request = request.min_hold(time);
    }
    if options.fenced {
        request = request.fenced();
    }
    if options.no_renew {
        request = request.no_renew();
    }
    request
}

/// Runs the command with a full lease. A lease that was granted from a queue is short until it is extended.
async fn under(
    manager: &LockManager,
    guard: &Guard,
    job: &Job<'_>,
    signals: &mut Signals,
) -> Result<CommandEnd, Exit> {
    let is_short = guard.remaining() < job.ttl / 2;
    while is_short && let Err(error) = interruptible(signals, guard.extend(job.ttl)).await? {
        // Without a reply, the lock is still held until its deadline.
        let error = guard.check().err().unwrap_or(error);
        if Exit::of(&error) != Exit::Unavailable {
            return Err(Exit::told(&error));
        }
        interruptible(signals, tokio::time::sleep(EXTENSION_PAUSE)).await?;
    }
    supervise(manager, guard, job, signals).await
}

/// Executes `work`. If a signal arrives, drops `work` and returns the status for the signal.
async fn interruptible<T>(signals: &mut Signals, work: impl Future<Output = T>) -> Result<T, Exit> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            signal = signals.next() => match signal {
                Signal::CONT => {}
                signal if signals::is_stop(signal) => signals::take_effect(signal),
                signal => return Err(Exit::Signal(signal.as_raw())),
            }
        }
    }
}

/// Releases the lock after all processes of the command have ended.
async fn end(guard: Guard, ended: Result<CommandEnd, Exit>, on_lost: OnLost) -> Result<Exit, Exit> {
    let mut lost = guard.check().err();
    if let (Err(error), None) = (guard.release().await, &lost) {
        if error.is_lost() && on_lost != OnLost::Ignore {
            // The release itself has found the loss.
            lost = Some(error);
        } else {
            // A release without a confirmation is retried until the process ends. Otherwise the lease expires after
            // its ttl.
            complain(&error);
        }
    }
    match ended? {
        CommandEnd::ByItself(status) => match lost {
            Some(error) if on_lost != OnLost::Ignore => Err(Exit::told(&error)),
            Some(_) | None => Ok(Exit::from(status)),
        },
        CommandEnd::ByUs(why) => Err(Exit::Lost.because(&why)),
    }
}

/// Returns when no process of the group is left. Only after the leader was reaped.
async fn until_gone(group: Group) {
    let (mut pause, mut seen) = (Duration::from_millis(1), None);
    loop {
        group.reap_inherited();
        if group.has_gone(&mut seen) {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
