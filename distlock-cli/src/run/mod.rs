//! `run` and `leader`: a command that runs while a lock is held.

mod gate;
mod group;
mod guardian;
mod signals;
mod supervise;
mod terminal;

use std::time::Duration;

use distlock::{Guard, LockManager, LockRequest};

use crate::args::{self, Ending, General, OnLost, Program};
use crate::connect::connect;
use crate::exit::Exit;
use crate::span::{Span, Wait};
pub(crate) use gate::begin;
use group::Group;
pub(crate) use guardian::guard;
use signals::Signals;
use supervise::{Ended, supervise};

/// At the end, the store has so long to answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs a command under a lock.
pub(crate) async fn run(general: &General, options: args::Run) -> Result<Exit, Exit> {
    check(&options.ending, options.ttl)?;
    if let Some(most) = options.max_hold {
        check(&options.ending, most)?;
    }
    let mut signals = Signals::catch()?;
    let manager = interruptible(&mut signals, connect(general)).await??;
    let acquired = interruptible(&mut signals, request(&manager, &options).acquire()).await?;
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) if error.is_busy() && options.quiet_busy => return Ok(Exit::Success),
        Err(error) if error.is_busy() => {
            return Err(Exit::Status(options.busy_exit).because(&error.to_string()));
        }
        Err(error) => return Err(Exit::told(&error)),
    };
    let ended = under(&guard, options.ttl, &options.program, &options.ending, &mut signals).await;
    let exit = end(guard, ended, options.ending.on_lost).await;
    manager.shutdown(LAST_WORDS).await;
    exit
}

/// Runs a command whenever this is the leader.
pub(crate) async fn lead(general: &General, options: args::Leader) -> Result<Exit, Exit> {
    check(&options.ending, options.ttl)?;
    let mut signals = Signals::catch()?;
    let manager = interruptible(&mut signals, connect(general)).await??;
    loop {
        let request = manager.lock(&options.office).ttl(options.ttl.0).fenced().wait_forever();
        let acquired = interruptible(&mut signals, request.acquire()).await?;
        let guard = match acquired {
            Ok(guard) => guard,
            // The store may come back.
            Err(error) if Exit::of(&error) == Exit::Unavailable => {
                eprintln!("distlock: {error}; trying again");
                interruptible(&mut signals, tokio::time::sleep(LAST_WORDS)).await?;
                continue;
            }
            Err(error) => return Err(Exit::told(&error)),
        };
        let ended = under(&guard, options.ttl, &options.program, &options.ending, &mut signals).await;
        match end(guard, ended, options.ending.on_lost).await {
            Err(Exit::Lost) => {}
            exit => {
                manager.shutdown(LAST_WORDS).await;
                return exit;
            }
        }
    }
}

/// The command is killed before the lease ends only if there is time for it.
fn check(ending: &Ending, ttl: Span) -> Result<(), Exit> {
    // A lease is renewed when a third of it is over.
    if ending.on_lost == OnLost::Signal && ending.kill_after.0 > ttl.0 / 2 {
        return Err(Exit::Usage.because(
            "--kill-after is longer than half of --ttl or --max-hold: the command could not be killed in time",
        ));
    }
    Ok(())
}

fn request(manager: &LockManager, options: &args::Run) -> LockRequest {
    let mut request = manager.lock_all(&options.keys).ttl(options.ttl.0).label("distlock run");
    request = match options.wait {
        Wait::For(time) => request.wait(time),
        Wait::Forever => request.wait_forever(),
    };
    if options.shared {
        request = request.shared();
    }
    if let Some(most) = options.max_holders {
        request = request.max_holders(most);
    }
    if let Some(Span(time)) = options.min_hold {
        request = request.min_hold(time);
    }
    if let Some(Span(time)) = options.max_hold {
        request = request.max_hold(time);
    }
    if options.fenced {
        request = request.fenced();
    }
    if options.no_renew {
        request = request.no_renew();
    }
    request
}

/// Runs the command with a whole lease before it: one that was handed over by another process is short at first, until
/// it is confirmed.
async fn under(
    guard: &Guard,
    ttl: Span,
    program: &Program,
    ending: &Ending,
    signals: &mut Signals,
) -> Result<Ended, Exit> {
    if guard.remaining() < ttl.0 / 2 {
        let extended = interruptible(signals, guard.extend(ttl.0)).await?;
        extended.map_err(|error| Exit::told(&error))?;
    }
    supervise(guard, ttl.0, program, ending, signals).await
}

/// Ends early when a signal comes, with its status: what was begun is dropped.
async fn interruptible<T>(signals: &mut Signals, work: impl Future<Output = T>) -> Result<T, Exit> {
    tokio::select! {
        done = work => Ok(done),
        signal = signals.next() => Err(Exit::Signal(signal.as_raw())),
    }
}

/// Releases the lock, now that nothing of the command is left.
async fn end(guard: Guard, ended: Result<Ended, Exit>, on_lost: OnLost) -> Result<Exit, Exit> {
    let lost = guard.check().err();
    // One that the store does not confirm is repeated until the process ends, and the lease ends with its ttl.
    if let (Err(error), None) = (guard.release().await, &lost) {
        eprintln!("distlock: {error}");
    }
    match ended? {
        Ended::ByItself(status) => match lost {
            Some(error) if on_lost != OnLost::Ignore => Err(Exit::told(&error)),
            Some(_) | None => Ok(Exit::from(status)),
        },
        Ended::ByUs(why) => Err(Exit::Lost.because(&format!("{why}; the command was ended"))),
    }
}

/// Returns when nobody of the group is left.
async fn until_gone(group: Group) {
    let mut pause = Duration::from_millis(1);
    while !group.is_gone() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
