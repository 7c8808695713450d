//! `top`: all locks on one screen, as they come and go.

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
use crate::words::shown;
use model::{Action, Look, Model};

/// More locks than this are counted, and not shown.
const MOST: usize = 10_000;
/// It does not look more often: clients answer twenty times a second, whoever asks.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) async fn top(general: &General, options: Top) -> Result<Exit, Exit> {
    if !stdout().is_terminal() {
        return Err(Exit::Usage.because("this is no terminal: `distlock ls` prints the same as text or JSON"));
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
    loop {
        if let Err(error) = terminal.draw(|frame| screen::draw(frame, &model)) {
            drop(restore);
            return Err(trouble(error));
        }
        tokio::select! {
            key = keys.recv() => match key.map(|key| model.pressed(key)) {
                Some(Action::Nothing) => {}
                Some(Action::Release { key, token }) => {
                    releasing = Some(tokio::spawn(release(manager.clone(), key, token)));
                }
                // The keyboard is gone.
                Some(Action::Quit) | None => return Ok(Exit::Success),
            },
            found = &mut looking => {
                model.looked(found.unwrap_or_else(|error| Err(error.to_string())));
                looking = look_in(every);
            }
            said = outcome(&mut releasing) => {
                releasing = None;
                model.say(said);
                looking.abort();
                looking = look_in(Duration::ZERO);
            }
            _ = ends.recv() => return Ok(Exit::Signal(15)),
            _ = hangs_up.recv() => return Ok(Exit::Signal(1)),
        }
    }
}

/// What became of a release, if there is one.
async fn outcome(releasing: &mut Option<JoinHandle<String>>) -> String {
    match releasing {
        Some(releasing) => releasing.await.unwrap_or_else(|error| error.to_string()),
        None => std::future::pending().await,
    }
}

/// Gives the terminal back, however this ends.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What is typed. The thread ends with the process: nothing interrupts a read of a terminal.
fn keyboard() -> mpsc::Receiver<KeyEvent> {
    let (sender, keys) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = match event {
                Event::Key(key) if key.kind == KeyEventKind::Press => key,
                // The screen is drawn anew for any key; this one has no meaning.
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

async fn look(manager: LockManager, pattern: String, pause: Duration) -> Result<Look, String> {
    tokio::time::sleep(pause).await;
    let mut locks = manager.list(pattern);
    let (mut entries, mut held, mut awaited, mut waiting) = (Vec::<LockEntry>::new(), 0, 0, 0);
    while let Some(entry) = locks.next().await {
        let entry = entry.map_err(|error| error.to_string())?;
        held += usize::from(!entry.holders.is_empty());
        awaited += usize::from(!entry.waiting.is_empty());
        waiting += entry.waiting.len();
        if entries.len() < MOST {
            entries.push(entry);
        }
    }
    let (clients, unanswered) = (locks.clients().to_vec(), locks.unanswered().to_vec());
    Ok(Look { at: Instant::now(), entries, held, awaited, waiting, clients, unanswered })
}

/// Takes a lock away from the holder that was seen.
async fn release(manager: LockManager, key: String, token: String) -> String {
    let name = shown(&key);
    match manager.inspect(&*key).await {
        Ok(Some(info)) if info.holders.iter().any(|holder| holder.token == token) => {}
        Ok(Some(_)) => return format!("{name} has another holder by now: nothing was done"),
        Ok(None) => return format!("{name} is free already"),
        Err(error) => return error.to_string(),
    }
    match manager.force_release(&*key).await {
        Ok(true) => format!("{name} was taken away"),
        Ok(false) => format!("{name} was released meanwhile"),
        Err(error) => error.to_string(),
    }
}
