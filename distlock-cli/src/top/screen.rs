//! Drawing.

use distlock::LockEntry;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};

use super::model::{Mode, Model, Order};
use crate::words::{Parties, holder, kind, shown, time, time_or_dash, waiter};

/// The lines for the selected lock.
const DETAILS: u16 = 8;
/// A screen with fewer lines shows no details.
const LOW: u16 = 20;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let details = if frame.area().height < LOW { 0 } else { DETAILS };
    let heights =
        [Constraint::Length(2), Constraint::Min(3), Constraint::Length(details), Constraint::Length(1)];
    let [head, table, below, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(header(model)), head);
    let rows = model.rows();
    let place = model.place(&rows);
    draw_table(frame, table, model, &rows, place);
    if let Some(entry) = place.and_then(|at| rows.get(at)) {
        frame.render_widget(selected(entry), below);
    }
    frame.render_widget(Paragraph::new(footer(model)), foot);
}

fn header(model: &Model) -> Vec<Line<'static>> {
    let Some(look) = &model.look else {
        let text = model.message.clone().unwrap_or_else(|| "looking …".to_owned());
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
    let more = look.held.max(look.entries.len()) - look.entries.len();
    let mut second = format!("{}  by {}", shown(&model.pattern), order(model.order));
    if more > 0 {
        second += &format!("  and {more} more");
    }
    if !model.filter.is_empty() || model.mode == Mode::Filter {
        second += &format!("  filter: {}", shown(&model.filter));
    }
    let mut second = vec![Span::from(second)];
    if !look.unanswered.is_empty() {
        second.push(format!("  {} do not answer", look.unanswered.len()).yellow());
    }
    vec![counts, Line::from(second)]
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Waiters => "waiters",
        Order::Age => "age",
        Order::Key => "key",
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, model: &Model, rows: &[&LockEntry], place: Option<usize>) {
    let header = Row::new(["KEY", "KIND", "AGE", "LEFT", "WAIT", "OWNER"]).style(Style::new().underlined());
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(13),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(5),
        Constraint::Fill(3),
    ];
    // No more than what can be seen are made, wherever the selected one stands.
    let seen = usize::from(area.height).max(1);
    let first = place.map_or(0, |at| at.saturating_sub(seen.saturating_sub(2)));
    let row = |entry: &&LockEntry| {
        let parties = Parties::from(*entry);
        let row = Row::new([
            shown(parties.key),
            kind(parties.kind),
            time_or_dash(parties.age()),
            time_or_dash(parties.left()),
            parties.waiters.to_string(),
            parties.owner(),
        ]);
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

fn footer(model: &Model) -> Line<'static> {
    match (&model.mode, &model.message) {
        (Mode::Confirm { key, owner, .. }, _) => {
            Line::from(format!("{} is held by {owner}. Take it away? [y/N]", shown(key))).red().bold()
        }
        (Mode::Filter, _) => Line::from("filter: type, Enter keeps it, Esc removes it"),
        (Mode::Browse, Some(message)) => Line::from(shown(message)).yellow(),
        (Mode::Browse, None) => Line::from("q quit  / filter  s order  k release  arrows select").dim(),
    }
}
