//! Draws the screen.

use distlock::LockEntry;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};

use super::model::{Mode, Model, Order};
use crate::words::{Parties, holder, kind, shown, time, time_or_dash, waiter};

/// The lines for the selected lock.
const DETAILS: u16 = 8;
/// A screen with fewer lines shows no details.
const LOW: u16 = 20;

/// A screen with fewer columns shows no kind and no rest of the lease: the key and the owner need the room.
const NARROW: u16 = 66;

const HELP: &str = "\
j k, arrows       select (PgUp, PgDn, g Home, G End)
/                 filter by key (Enter keeps it, Esc removes it)
s                 order: waiters, age, key
x, F9, Ctrl-K     release the selected lock, after a question
?, F1             this help
q, Esc, Ctrl-C    quit";

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let details = if frame.area().height < LOW { 0 } else { DETAILS };
    let foot = footer(model, frame.area().width);
    let foot_height = u16::try_from(foot.len()).unwrap_or(1);
    let heights = [
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(details),
        Constraint::Length(foot_height),
    ];
    let [head, table, below, last] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(header(model)), head);
    let rows = model.rows();
    let place = model.place(&rows);
    draw_table(frame, table, model, &rows, place);
    if let Some(entry) = place.and_then(|at| rows.get(at)) {
        frame.render_widget(selected(entry), below);
    }
    frame.render_widget(Paragraph::new(foot), last);
    if model.mode == Mode::Help {
        let help = Paragraph::new(HELP).block(Block::bordered().title("keys (any key closes this help)"));
        frame.render_widget(Clear, table);
        frame.render_widget(help, table);
    }
}

fn header(model: &Model) -> Vec<Line<'static>> {
    let Some(look) = &model.look else {
        let text = model.trouble.as_ref().map_or_else(|| "looking …".to_owned(), |(_, error)| shown(error));
        return vec![Line::from(text)];
    };
    let rate = |each: Option<f64>| each.map_or_else(|| "-".to_owned(), |each| format!("{each:.1}"));
    let (busy, lost) = (model.rates.map(|rates| rates.busy), model.rates.map(|rates| rates.lost));
    let lost_style =
        if lost.is_some_and(|lost| lost > 0.0) { Style::new().red().bold() } else { Style::new() };
    let counts = Line::from(vec![
        "distlock".bold(),
        Span::from(format!(
            "  {} held  {} awaited  {} processes wait  {} clients  ",
            look.held,
            look.awaited,
            look.waiting,
            look.clients.len()
        )),
        Span::from(format!("{} busy/s  ", rate(busy))),
        Span::styled(format!("{} lost/s", rate(lost)), lost_style),
    ]);
    if let Some(line) = staleness(model) {
        return vec![counts.dim(), line];
    }
    let more = look.held.max(look.entries.len()) - look.entries.len();
    let mut second = format!("{}  by {}", shown(&model.pattern), order(model.order));
    if more > 0 {
        second += &format!("  and {more} more");
    }
    if !model.filter.is_empty() || model.mode == Mode::Filter {
        second += &format!("  filter: {}", shown(&model.filter));
    }
    let mut second = vec![Span::from(second)];
    if !look.silent.is_empty() {
        second.push(format!("  {} clients without a sign of life", look.silent.len()).red().bold());
    }
    if !look.is_whole {
        second.push("  some locks are missing".yellow());
    }
    vec![counts, Line::from(second)]
}

/// A notice that the rows are old, with the reason.
fn staleness(model: &Model) -> Option<Line<'static>> {
    let age = time(model.old()?);
    let text = match &model.trouble {
        Some((since, error)) => {
            format!("shown as {age} ago; failing for {}: {}", time(since.elapsed()), shown(error))
        }
        None => format!("shown as {age} ago: no answer since"),
    };
    Some(Line::from(text).red().bold())
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Waiters => "waiters",
        Order::Age => "age",
        Order::Key => "key",
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, model: &Model, rows: &[&LockEntry], place: Option<usize>) {
    // On a narrow screen, the key is left out last.
    let wide = area.width >= NARROW;
    let columns = [
        ("KEY", Constraint::Fill(2), true),
        ("KIND", Constraint::Length(13), wide),
        ("AGE", Constraint::Length(7), area.width >= 50),
        ("LEFT", Constraint::Length(7), wide),
        ("WAIT", Constraint::Length(5), true),
        ("OWNER", Constraint::Fill(if wide { 3 } else { 2 }), area.width >= 34),
    ];
    let in_use = || columns.iter().filter(|(.., is_shown)| *is_shown);
    let header = Row::new(in_use().map(|(name, ..)| *name)).style(Style::new().underlined());
    let widths: Vec<Constraint> = in_use().map(|(_, width, _)| *width).collect();
    // Creates only the visible rows, wherever the selected one is.
    let seen = usize::from(area.height).max(1);
    let first = place.map_or(0, |at| at.saturating_sub(seen.saturating_sub(2)));
    let row = |entry: &&LockEntry| {
        let parties = Parties::from(*entry);
        let cells = [
            shown(parties.key),
            kind(parties.kind),
            time_or_dash(parties.age()),
            time_or_dash(parties.left()),
            parties.waiters.to_string(),
            parties.owner(),
        ];
        let cells = cells.into_iter().zip(&columns).filter(|(_, (.., is_shown))| *is_shown);
        let row = Row::new(cells.map(|(cell, _)| cell));
        if parties.waiters > 0 { row.style(Style::new().bold()) } else { row }
    };
    let shown_rows: Vec<Row<'_>> = rows.iter().skip(first).take(seen).map(row).collect();
    let mut state = TableState::default().with_selected(place.map(|at| at - first));
    let highlight = if model.mode == Mode::Filter { Style::new() } else { Style::new().reversed() };
    let table = Table::new(shown_rows, widths).header(header).row_highlight_style(highlight);
    frame.render_stateful_widget(table, area, &mut state);
}

fn selected(entry: &LockEntry) -> Paragraph<'static> {
    let mut lines = Vec::new();
    for one in &entry.holders {
        let since = one.since.map_or_else(String::new, |since| format!(", for {}", time(since)));
        let left = one.remaining.map_or_else(String::new, |left| format!(", {} left", time(left)));
        lines.push(Line::from(format!("held by {}{since}{left}", holder(one))));
    }
    for one in &entry.waiting {
        let since = one.since.map_or_else(String::new, |since| format!(", for {}", time(since)));
        let count = one.requests.filter(|count| *count > 1);
        let count = count.map_or_else(String::new, |count| format!(", {count} requests"));
        lines.push(Line::from(format!("waits:  {}{since}{count}", waiter(one))));
    }
    Paragraph::new(lines).block(Block::bordered().title(shown(&entry.key)))
}

/// The question has its own line, and comes first: however wide the characters of the key are, only its end can be cut.
fn footer(model: &Model, width: u16) -> Vec<Line<'static>> {
    let line = match (&model.mode, model.message()) {
        (Mode::Confirm { key, owner, .. }, _) => {
            let question = "Release it? [y/N]  ";
            let key = cut(&shown(key), usize::from(width).saturating_sub(question.len()));
            return vec![
                Line::from(format!("{question}{key}")).red().bold(),
                Line::from(format!("held by {owner}")).red(),
            ];
        }
        (Mode::Filter, _) => Line::from("filter: type, Enter keeps it, Esc removes it"),
        (Mode::Help | Mode::Browse, Some(message)) => Line::from(shown(message)).yellow(),
        (Mode::Help | Mode::Browse, None) => {
            Line::from("q quit  / filter  s order  x release  j/k select  ? help").dim()
        }
    };
    vec![line]
}

/// Shortens a text to this many columns. Its beginning and its end stay. (Characters may take two columns, or none.)
fn cut(text: &str, columns: usize) -> String {
    let fits = |text: &str| Span::from(text).width() <= columns;
    if fits(text) {
        return text.to_owned();
    }
    let count = text.chars().count();
    let shortened = |kept: usize| {
        let first: String = text.chars().take(kept.div_ceil(2)).collect();
        let last: String = text.chars().skip(count - kept / 2).collect();
        format!("{first}…{last}")
    };
    (0..columns.min(count)).rev().map(shortened).find(|text| fits(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// A character of Chinese or Japanese takes two columns.
    #[test]
    fn the_question_is_whole_for_every_key() {
        let mut model = Model::new("*".to_owned());
        let (owners, owner) = (vec!["one".to_owned()], "one".to_owned());
        model.mode = Mode::Confirm { key: "鍵".repeat(70), owners, owner };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &model)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(
            screen.contains("Release it? [y/N]") && screen.contains("鍵") && screen.contains('…'),
            "{screen}"
        );
    }

    #[test]
    fn a_long_key_keeps_its_beginning_and_its_end() {
        assert_eq!(cut("order:42", 8), "order:42");
        assert_eq!(cut("order:0000042", 8), "orde…042");
        assert_eq!((cut("ab", 1), cut("ab", 0)), ("…".to_owned(), String::new()));
        assert_eq!((cut("鍵鍵鍵", 6), cut("鍵鍵鍵鍵", 6)), ("鍵鍵鍵".to_owned(), "鍵…鍵".to_owned()));
    }
}
