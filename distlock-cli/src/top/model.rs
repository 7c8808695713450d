//! What the screen shows, and what the keys do.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use distlock::{LockClient, LockEntry};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::words::Parties;

/// What was found at one look.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) entries: Vec<LockEntry>,
    pub(super) held: usize,
    pub(super) awaited: usize,
    /// Processes.
    pub(super) waiting: usize,
    pub(super) clients: Vec<LockClient>,
    pub(super) unanswered: Vec<String>,
}

/// What the keyboard is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    Filter,
    /// The question whether to take this lock away from this holder is on the screen.
    Confirm {
        key: String,
        token: String,
        owner: String,
    },
}

/// What a key has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Release { key: String, token: String },
}

/// In which order locks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Waiters,
    Age,
    Key,
}

/// So many in a second, since the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) busy: f64,
    pub(super) lost: f64,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) pattern: String,
    pub(super) look: Option<Look>,
    /// `None`: nobody tells, or it is the first look.
    pub(super) rates: Option<Rates>,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) order: Order,
    pub(super) message: Option<String>,
    selected: Option<String>,
}

impl Model {
    pub(super) fn new(pattern: String) -> Self {
        Model {
            pattern,
            look: None,
            rates: None,
            filter: String::new(),
            mode: Mode::Browse,
            order: Order::Waiters,
            message: None,
            selected: None,
        }
    }

    /// Takes in what was found. After an error the last locks stay on the screen.
    pub(super) fn looked(&mut self, found: Result<Look, String>) {
        match found {
            Ok(look) => {
                if self.look.is_none() {
                    self.message = None;
                }
                self.rates = self.look.as_ref().and_then(|before| rates(before, &look));
                self.look = Some(look);
            }
            Err(error) => self.message = Some(error),
        }
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = Some(message);
    }

    /// The locks that are shown, in order.
    pub(super) fn rows(&self) -> Vec<&LockEntry> {
        let entries = self.look.iter().flat_map(|look| &look.entries);
        let mut rows: Vec<&LockEntry> = entries.filter(|entry| entry.key.contains(&self.filter)).collect();
        match self.order {
            Order::Waiters => {
                rows.sort_by_key(|entry| Reverse((entry.waiting.len(), Parties::from(*entry).age())));
            }
            Order::Age => rows.sort_by_key(|entry| Reverse(Parties::from(*entry).age())),
            // As they came.
            Order::Key => {}
        }
        rows
    }

    /// Where the selected lock stands; the first one if it is gone.
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
            Mode::Browse => return self.browse(key.code),
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
            Mode::Confirm { key: name, token, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => {
                    self.mode = Mode::Browse;
                    return Action::Release { key: name, token };
                }
                // A change of the size of the screen is no answer.
                KeyCode::Null => {}
                _ => {
                    self.mode = Mode::Browse;
                    self.message = Some("nothing was changed".to_owned());
                }
            },
        }
        Action::Nothing
    }

    fn browse(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Up => self.move_by(-1),
            KeyCode::Down => self.move_by(1),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Waiters => Order::Age,
                    Order::Age => Order::Key,
                    Order::Key => Order::Waiters,
                }
            }
            KeyCode::Char('k') => self.ask_to_release(),
            _ => {}
        }
        Action::Nothing
    }

    fn ask_to_release(&mut self) {
        let rows = self.rows();
        let entry = self.place(&rows).and_then(|at| rows.get(at));
        let asked = entry.and_then(|entry| {
            let token = entry.holders.first()?.token.clone();
            Some(Mode::Confirm { key: entry.key.clone(), token, owner: Parties::from(*entry).owner() })
        });
        match asked {
            Some(mode) => {
                // The one that is asked about stays selected.
                if let Mode::Confirm { key, .. } = &mode {
                    self.selected = Some(key.clone());
                }
                self.mode = mode;
            }
            None => self.message = Some("nobody is known to hold this lock".to_owned()),
        }
    }
}

/// How often requests were busy, and holds lost, at the clients that tell it.
fn rates(before: &Look, now: &Look) -> Option<Rates> {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let known: HashMap<&str, &LockClient> =
        before.clients.iter().map(|client| (&*client.id, client)).collect();
    let (mut busy, mut lost, mut any) = (0, 0, false);
    for client in &now.clients {
        let Some(earlier) = known.get(&*client.id) else { continue };
        if let (Some(new), Some(old)) = (client.busy.zip(client.lost), earlier.busy.zip(earlier.lost)) {
            busy += new.0.saturating_sub(old.0);
            lost += new.1.saturating_sub(old.1);
            any = true;
        }
    }
    let each_second = |count: u64| u32::try_from(count).map_or(f64::INFINITY, f64::from) / seconds;
    (any && seconds > 0.0).then(|| Rates { busy: each_second(busy), lost: each_second(lost) })
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

    /// Of locks in memory, which only a manager can make.
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
        let look = Look {
            at: Instant::now(),
            held: entries.len(),
            awaited: 0,
            waiting: 0,
            entries,
            clients,
            unanswered: Vec::new(),
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
        assert_eq!(press(&mut model, "kn"), Action::Nothing);
        assert_eq!(model.mode, Mode::Browse);
        let (key, token) = ("order:2".to_owned(), guards[1].owner());
        assert_eq!(press(&mut model, "ky"), Action::Release { key, token });
        let mut empty = Model::new("*".to_owned());
        assert_eq!(press(&mut empty, "ky"), Action::Nothing);
    }

    #[tokio::test]
    async fn rates_are_those_of_clients_that_were_there_before() {
        let (model, _guards) = model().await;
        let before = model.look.unwrap();
        let mut now = before.clone();
        now.at += std::time::Duration::from_secs(2);
        now.clients[0].busy = now.clients[0].busy.map(|busy| busy + 5);
        let mut newcomer = now.clients[0].clone();
        newcomer.id.push('x');
        now.clients.push(newcomer);
        assert_eq!(rates(&before, &now), Some(Rates { busy: 2.5, lost: 0.0 }));
    }
}
