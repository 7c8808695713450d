//! `top`: all locks on one screen that is kept up to date.

mod model;
mod screen;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use distlock::{LockEntry, LockManager};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::args::{General, Top};
use crate::connect::connect;
use crate::exit::Exit;
use crate::take::{Taken, take_from};
use crate::words::{clients, shown};
use model::{Action, Model, Snapshot};

/// The maximum number of shown locks, with their holders and waiters. Further locks are only counted.
const MOST: usize = 10_000;
/// The limit for one look. Locks that were not listed by then are missing.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// The minimum pause between two listings. It is also at least a multiple of the time of a listing, because each
/// listing is a search of the store.
const SHORTEST: Duration = Duration::from_millis(100);
const RESTS: u32 = 9;
/// The screen is also drawn without new data, because it shows the age of old data.
const TICK: Duration = Duration::from_secs(1);

pub(crate) async fn top(general: &General, options: Top) -> Result<Exit, Exit> {
    if !stdout().is_terminal() {
        return Err(
            Exit::Usage.because("this is not a terminal: use `distlock ls`, which prints text or JSON")
        );
    }
    let manager = connect(general).await?;
    let trouble = |error: std::io::Error| Exit::Unavailable.because(&format!("the terminal: {error}"));
    let mut ends = signal(SignalKind::terminate()).map_err(trouble)?;
    let mut hangs_up = signal(SignalKind::hangup()).map_err(trouble)?;
    let mut terminal = ratatui::try_init().map_err(trouble)?;
    let restore = Restore;
    let mut keys = keyboard();
    let every = options.every.0.max(SHORTEST);
    let mut model = Model::new(options.pattern.clone());
    let look_in = |pause| tokio::spawn(look(manager.clone(), options.pattern.clone(), pause));
    let mut looking = look_in(Duration::ZERO);
    let mut releasing = None;
    let mut ticks = tokio::time::interval(TICK);
    loop {
        if let Err(error) = terminal.draw(|frame| screen::draw(frame, &model)) {
            drop(restore);
            return Err(trouble(error));
        }
        tokio::select! {
            key = keys.recv() => match key.map(|key| model.pressed(key)) {
                Some(Action::Nothing) => {}
                Some(Action::Release { key, owners }) => {
                    releasing = Some(tokio::spawn(release(manager.clone(), key, owners)));
                }
                // The keyboard was closed.
                Some(Action::Quit) | None => return Ok(Exit::Success),
            },
            found = &mut looking => {
                let found = found.unwrap_or_else(|error| Err(error.to_string()));
                let pause = every.max(found.as_ref().map_or(every, |look| look.took * RESTS));
                model.looked(found);
                looking = look_in(pause);
            }
            said = outcome(&mut releasing) => {
                releasing = None;
                model.say(said);
                looking.abort();
                looking = look_in(Duration::ZERO);
            }
            _ = ticks.tick() => {}
            _ = ends.recv() => return Ok(Exit::Signal(15)),
            _ = hangs_up.recv() => return Ok(Exit::Signal(1)),
        }
    }
}

/// The result of a release, if there is one.
async fn outcome(releasing: &mut Option<JoinHandle<String>>) -> String {
    match releasing {
        Some(releasing) => releasing.await.unwrap_or_else(|error| error.to_string()),
        None => std::future::pending().await,
    }
}

/// Restores the terminal in every case.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // `restore` would print an error, and panic if it cannot.
        drop(ratatui::try_restore());
    }
}

/// The typed keys. The thread ends with the process, because nothing interrupts a read from a terminal.
fn keyboard() -> mpsc::Receiver<KeyEvent> {
    let (sender, keys) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = match event {
                Event::Key(key) if key.kind == KeyEventKind::Press => key,
                // Any key redraws the screen, and this one has no other effect.
                Event::Resize(..) => KeyEvent::from(event::KeyCode::Null),
                _ => continue,
            };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    keys
}

async fn look(manager: LockManager, pattern: String, pause: Duration) -> Result<Snapshot, String> {
    tokio::time::sleep(pause).await;
    let began = Instant::now();
    let mut locks = manager.list(pattern);
    let (mut entries, mut held, mut awaited, mut waiting) = (Vec::<LockEntry>::new(), 0, 0, 0);
    let mut parties = 0;
    let until = tokio::time::Instant::now() + LONGEST_LOOK;
    let mut is_whole = true;
    loop {
        let Ok(next) = tokio::time::timeout_at(until, locks.next()).await else {
            is_whole = false;
            break;
        };
        let Some(entry) = next else { break };
        let entry = entry.map_err(|error| error.to_string())?;
        held += usize::from(!entry.holders.is_empty());
        awaited += usize::from(entry.waiters > 0);
        waiting += entry.waiters;
        parties += 1 + entry.holders.len() + entry.waiting.len();
        if parties <= 2 * MOST {
            entries.push(entry);
        }
    }
    let clients = locks.clients().to_vec();
    let silent = locks.unanswered().iter().cloned().collect();
    is_whole &= locks.unread().is_empty();
    Ok(Snapshot {
        at: Instant::now(),
        entries,
        held,
        awaited,
        waiting,
        clients,
        silent,
        is_whole,
        took: began.elapsed(),
    })
}

/// Releases a lock by force, but only the leases of the holders that were shown.
async fn release(manager: LockManager, key: String, owners: Vec<String>) -> String {
    let name = shown(&key);
    match take_from(&manager, &key, &owners).await {
        Ok(Taken::From(owners)) => format!("{name} was taken from {}", clients(&owners)),
        Ok(Taken::HeldByAnother(_)) => format!("{name} now has another holder: nothing was changed"),
        Ok(Taken::NotHeld) => format!("{name} was released meanwhile"),
        Err(error) => error.to_string(),
    }
}
