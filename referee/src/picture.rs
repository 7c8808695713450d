//! The report as a page of HTML: a time line of the key around each overlap. It needs no other file.

use std::{fmt::Write as _, time::Duration};

use crate::{
    history::{Fault, FaultKind, History},
    judge::Overlap,
};

/// How many overlaps are drawn.
const DRAWN: usize = 40;
/// Before and after the overlap.
const MARGIN: Duration = Duration::from_millis(500);
const WIDTH: f64 = 1_000.0;
const ROW: f64 = 26.0;
/// Room for the names of the rows.
const LEFT: f64 = 110.0;

/// The page of text, and the pictures.
#[must_use]
pub fn html(text: &str, history: &History, overlaps: &[Overlap]) -> String {
    let pictures: String = overlaps.iter().take(DRAWN).map(|overlap| picture(history, overlap)).collect();
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>distlock-referee</title>\
         <style>body{{font:14px sans-serif;margin:2em}}text{{font:12px sans-serif}}</style>\
         <pre>{}</pre>\
         <p>Green: the lock is held. Red: two processes hold it. Grey: the process is stopped. \
         Yellow: its link or the server has a fault.</p>\n{pictures}",
        escaped(text)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn picture(history: &History, overlap: &Overlap) -> String {
    let (first, second) = overlap.processes;
    let holders = [first, second];
    let of_overlap = history
        .requests
        .iter()
        .filter(|request| request.key == overlap.key && holders.contains(&request.process));
    let sections = of_overlap.filter_map(|request| Some((request.process, request.section.as_ref()?)));
    let sections: Vec<_> = sections
        .filter(|(_, section)| section.from <= overlap.until && overlap.from <= section.until)
        .collect();
    let begin =
        sections.iter().map(|(_, section)| section.from).min().unwrap_or(overlap.from).saturating_sub(MARGIN);
    let end = sections.iter().map(|(_, section)| section.until).max().unwrap_or(overlap.until) + MARGIN;
    let scale = (WIDTH - LEFT) / (end.saturating_sub(begin)).as_secs_f64();
    let x = |at: Duration| LEFT + at.clamp(begin, end).saturating_sub(begin).as_secs_f64() * scale;
    let mut svg = String::new();
    let mut bar = |row: usize, from: Duration, until: Duration, colour: &str, inset: f64| {
        let (left, width) = (x(from), (x(until) - x(from)).max(1.0));
        let (top, height) = (row as f64 * ROW + 4.0 + inset, ROW - 8.0 - 2.0 * inset);
        writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
        )
        .ok();
    };
    for (row, holder) in holders.into_iter().enumerate() {
        let touching = |fault: &&Fault| fault.touches(holder, begin, end);
        for fault in history.faults.iter().filter(touching) {
            let colour = if fault.kind == FaultKind::Stop { "#bbb" } else { "#fd7" };
            bar(row, fault.from, fault.until, colour, 0.0);
        }
        for (_, section) in sections.iter().filter(|(process, _)| *process == holder) {
            bar(row, section.from, section.until, "#2a2", 4.0);
        }
        bar(row, overlap.from, overlap.until, "#d22", 6.0);
    }
    for (row, holder) in holders.into_iter().enumerate() {
        writeln!(svg, "<text x=\"0\" y=\"{}\">process {holder}</text>", row as f64 * ROW + 18.0).ok();
    }
    let height = ROW * 2.0;
    format!(
        "<h4>key {}, {:.3} s to {:.3} s</h4><svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\">{svg}</svg>\n",
        overlap.key,
        begin.as_secs_f64(),
        end.as_secs_f64()
    )
}
