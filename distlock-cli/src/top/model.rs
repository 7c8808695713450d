//! The content of the screen, and the actions of the keys.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockEntry};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::rates::{Meter, Rates};
use crate::words::Parties;

/// The result of one look.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) entries: Vec<LockEntry>,
    pub(super) held: usize,
    pub(super) awaited: usize,
    /// The number of waiting processes.
    pub(super) waiting: u64,
    pub(super) clients: Vec<LockClient>,
    /// The clients among them that send no heartbeat.
    pub(super) silent: HashSet<String>,
    /// Whether the look was complete, on every server.
    pub(super) is_whole: bool,
    pub(super) took: Duration,
}

/// The meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    Filter,
    Help,
    /// The screen asks whether to release this lock of this holder by force.
    Confirm {
        key: String,
        owners: Vec<String>,
        owner: String,
    },
}

/// The action of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Release { key: String, owners: Vec<String> },
}

/// The order of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Waiters,
    Age,
    Key,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) pattern: String,
    pub(super) look: Option<Snapshot>,
    /// `None`: no client has counters, or it is the first listing.
    pub(super) rates: Option<Rates>,
    meter: Meter,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) order: Order,
    /// The result of the last action, and since when it has been shown.
    message: Option<(String, Instant)>,
    /// Since when the locks could not be listed, and the reason.
    pub(super) trouble: Option<(Instant, String)>,
    selected: Option<String>,
}

/// How long a message is shown. After that, the keys are shown again.
const MESSAGE: Duration = Duration::from_secs(5);
/// A screen that is older than this shows its age.
const OLD: Duration = Duration::from_secs(5);

impl Model {
    pub(super) fn new(pattern: String) -> Self {
        Model {
            pattern,
            look: None,
            rates: None,
            // The rates since the previous look.
            meter: Meter::default(),
            filter: String::new(),
            mode: Mode::Browse,
            order: Order::Waiters,
            message: None,
            trouble: None,
            selected: None,
        }
    }

    /// Stores the result of a look. After an error, the last locks stay on the screen.
    pub(super) fn looked(&mut self, found: Result<Snapshot, String>) {
        match found {
            Ok(look) => {
                self.trouble = None;
                self.rates = self.meter.look(look.at, &look.clients);
                self.look = Some(look);
            }
            Err(error) => {
                let since = self.trouble.take().map_or_else(Instant::now, |(since, _)| since);
                self.trouble = Some((since, error));
            }
        }
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = Some((message, Instant::now()));
    }

    pub(super) fn message(&self) -> Option<&str> {
        let (message, since) = self.message.as_ref()?;
        (since.elapsed() < MESSAGE).then_some(message)
    }

    /// The age of the rows, if they are old.
    pub(super) fn old(&self) -> Option<Duration> {
        let age = self.look.as_ref()?.at.elapsed();
        (self.trouble.is_some() || age > OLD).then_some(age)
    }

    /// The locks that are shown, in order.
    pub(super) fn rows(&self) -> Vec<&LockEntry> {
        let entries = self.look.iter().flat_map(|look| &look.entries);
        let mut rows: Vec<&LockEntry> = entries.filter(|entry| entry.key.contains(&self.filter)).collect();
        match self.order {
            Order::Waiters => {
                rows.sort_by_key(|entry| Reverse((entry.waiters, Parties::from(*entry).age())));
            }
            Order::Age => rows.sort_by_key(|entry| Reverse(Parties::from(*entry).age())),
            // They already have this order.
            Order::Key => {}
        }
        rows
    }

    /// The place of the selected lock. If it is gone, the first one.
    pub(super) fn place(&self, rows: &[&LockEntry]) -> Option<usize> {
        let at = rows.iter().position(|entry| self.selected.as_ref() == Some(&entry.key));
        at.or_else(|| (!rows.is_empty()).then_some(0))
    }

    fn move_by(&mut self, by: isize) {
        let rows = self.rows();
        let Some(at) = self.place(&rows) else { return };
        let at = at.saturating_add_signed(by).min(rows.len() - 1);
        self.selected = rows.get(at).map(|entry| entry.key.clone());
    }

    pub(super) fn pressed(&mut self, key: KeyEvent) -> Action {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        match self.mode.clone() {
            Mode::Browse => return self.browse(key),
            // A change of the screen's size is not a key.
            Mode::Help if key.code == KeyCode::Null => {}
            Mode::Help => self.mode = Mode::Browse,
            Mode::Filter => match key.code {
                KeyCode::Char(c) => self.filter.push(c),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Enter => self.mode = Mode::Browse,
                KeyCode::Esc => {
                    self.filter.clear();
                    self.mode = Mode::Browse;
                }
                _ => {}
            },
            Mode::Confirm { key: name, owners, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => {
                    self.mode = Mode::Browse;
                    return Action::Release { key: name, owners };
                }
                // A change of the screen's size is not an answer.
                KeyCode::Null => {}
                _ => {
                    self.mode = Mode::Browse;
                    self.say("nothing was changed".to_owned());
                }
            },
        }
        Action::Nothing
    }

    /// The keys are the same as in vi, htop and k9s.
    fn browse(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            if key.code == KeyCode::Char('k') {
                self.ask_to_release();
            }
            return Action::Nothing;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Waiters => Order::Age,
                    Order::Age => Order::Key,
                    Order::Key => Order::Waiters,
                }
            }
            KeyCode::Char('x') | KeyCode::F(9) => self.ask_to_release(),
            _ => {}
        }
        Action::Nothing
    }

    fn ask_to_release(&mut self) {
        let rows = self.rows();
        let entry = self.place(&rows).and_then(|at| rows.get(at));
        let asked = entry.and_then(|entry| {
            let owners: Vec<String> = entry.holders.iter().map(|holder| holder.token.clone()).collect();
            let owner = Parties::from(*entry).owner();
            (!owners.is_empty()).then(|| Mode::Confirm { key: entry.key.clone(), owners, owner })
        });
        match asked {
            Some(mode) => {
                // The lock in the question stays selected.
                if let Mode::Confirm { key, .. } = &mode {
                    self.selected = Some(key.clone());
                }
                self.mode = mode;
            }
            None => self.say("no holder of this lock is known".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(model: &mut Model, keys: &str) -> Action {
        let mut action = Action::Nothing;
        for c in keys.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            action = model.pressed(KeyEvent::from(code));
        }
        action
    }

    /// A model of locks in memory, which only a manager can create.
    async fn model() -> (Model, Vec<distlock::Guard>) {
        let manager = distlock::LockManager::in_memory();
        let mut guards = Vec::new();
        for key in ["order:1", "order:2", "user:1"] {
            guards.push(manager.lock(key).acquire().await.unwrap());
        }
        let mut locks = manager.list("*");
        let mut entries = Vec::new();
        while let Some(entry) = locks.next().await {
            entries.push(entry.unwrap());
        }
        let clients = locks.clients().to_vec();
        let look = Snapshot {
            at: Instant::now(),
            held: entries.len(),
            awaited: 0,
            waiting: 0,
            entries,
            clients,
            silent: HashSet::new(),
            is_whole: true,
            took: Duration::ZERO,
        };
        let mut model = Model::new("*".to_owned());
        model.looked(Ok(look));
        press(&mut model, "ss");
        (model, guards)
    }

    #[tokio::test]
    async fn a_filter_leaves_what_contains_it() {
        let (mut model, _guards) = model().await;
        let keys = |model: &Model| model.rows().iter().map(|entry| entry.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&model), ["order:1", "order:2", "user:1"]);
        press(&mut model, "/order\n");
        assert_eq!(keys(&model), ["order:1", "order:2"]);
        assert_eq!(press(&mut model, "/q"), Action::Nothing, "a letter of the filter");
        model.pressed(KeyEvent::from(KeyCode::Esc));
        assert_eq!(keys(&model).len(), 3);
        assert_eq!(press(&mut model, "q"), Action::Quit);
    }

    #[tokio::test]
    async fn nothing_is_released_without_a_yes() {
        let (mut model, guards) = model().await;
        model.pressed(KeyEvent::from(KeyCode::Down));
        assert_eq!(press(&mut model, "xn"), Action::Nothing);
        assert_eq!(model.mode, Mode::Browse);
        let (key, owners) = ("order:2".to_owned(), vec![guards[1].owner()]);
        assert_eq!(press(&mut model, "xy"), Action::Release { key, owners });
        let mut empty = Model::new("*".to_owned());
        assert_eq!(press(&mut empty, "xy"), Action::Nothing);
    }

    #[tokio::test]
    async fn j_and_k_move_and_control_k_asks() {
        let (mut model, _guards) = model().await;
        assert_eq!(press(&mut model, "jjk"), Action::Nothing);
        assert_eq!((model.selected.as_deref(), &model.mode), (Some("order:2"), &Mode::Browse));
        model.pressed(KeyEvent::new(KeyCode::Char('k'), KeyModifiers::CONTROL));
        assert!(matches!(&model.mode, Mode::Confirm { key, .. } if key == "order:2"));
        press(&mut model, "n?");
        assert_eq!(model.mode, Mode::Help);
        press(&mut model, "q");
        assert_eq!(model.mode, Mode::Browse, "it leaves the help only");
    }

    #[tokio::test]
    async fn trouble_ends_with_the_next_look() {
        let (mut model, _guards) = model().await;
        let look = model.look.clone().unwrap();
        assert!(model.old().is_none());
        model.looked(Err("gone".to_owned()));
        let (since, _) = model.trouble.clone().unwrap();
        model.looked(Err("gone still".to_owned()));
        assert_eq!(model.trouble, Some((since, "gone still".to_owned())));
        assert!(model.old().is_some() && model.look.is_some());
        model.looked(Ok(look));
        assert!(model.trouble.is_none() && model.old().is_none());
    }
}
