//! The texts above a chart, and their styles.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::theme::{FAINT, GREY, GROUND, INK, Shade};

/// The target of drawings.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const FONT: &str = "DejaVu Sans, Verdana, Arial, sans-serif";
/// Twice the width of a small phone, which shows the words at half their size.
pub(super) const WIDTH: u32 = 720;
/// The margin at the left and at the right.
pub(super) const MARGIN: i32 = 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Title,
    Label,
    Small,
}

impl Size {
    /// In pixels.
    fn height(self) -> f64 {
        match self {
            Size::Title => 24.0,
            Size::Label => 20.0,
            Size::Small => 18.0,
        }
    }

    fn leading(self) -> i32 {
        self.height() as i32 + 8
    }

    /// The maximum width of a text, in a wide font.
    pub(super) fn width(self, text: &str) -> i32 {
        let character = if matches!(self, Size::Title) { 0.68 } else { 0.54 };
        (self.height() * character * text.chars().count() as f64).ceil() as i32
    }
}

/// Plotters divides a size by 1.24 for an SVG.
pub(super) fn font(size: Size) -> FontDesc<'static> {
    let height = size.height() * 1.24;
    match size {
        Size::Title => (FONT, height, FontStyle::Bold).into_font(),
        Size::Label | Size::Small => (FONT, height).into_font(),
    }
}

pub(super) fn style(size: Size, color: Shade, at: HPos) -> TextStyle<'static> {
    font(size).color(&color.light).pos(Pos::new(at, VPos::Center))
}

/// An error of plotters, as text.
pub(super) fn failed(error: impl Display) -> String {
    format!("the chart cannot be drawn: {error}")
}

/// The lines above a chart: its title, the machine, the quantity of the vertical axis.
pub(super) struct Head(Vec<(Size, Shade, String)>);

impl Head {
    pub(super) fn new(title: &str, under: &[String], axis: Option<&str>) -> Head {
        let mut lines = Vec::new();
        let mut add = |size, color, text: &str| {
            lines.extend(wrapped(size, text).into_iter().map(|line| (size, color, line)));
        };
        add(Size::Title, INK, title);
        under.iter().for_each(|text| add(Size::Small, GREY, text));
        axis.into_iter().for_each(|text| add(Size::Label, INK, text));
        Head(lines)
    }

    /// The position at which the chart itself may begin.
    pub(super) fn height(&self) -> i32 {
        24 + self.0.iter().map(|(size, ..)| size.leading()).sum::<i32>()
    }

    /// Fills the ground, and writes the lines.
    pub(super) fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        area.fill(&GROUND.light).map_err(failed)?;
        let (width, height) = area.dim_in_pixel();
        let corner = (i32::try_from(width).unwrap_or(0) - 1, i32::try_from(height).unwrap_or(0) - 1);
        area.draw(&Rectangle::new([(0, 0), corner], FAINT.light.stroke_width(1))).map_err(failed)?;
        let mut y = 12;
        for (size, color, line) in &self.0 {
            say(area, line, (MARGIN, y + size.leading() / 2), &style(*size, *color, HPos::Left))?;
            y += size.leading();
        }
        Ok(())
    }
}

/// As many lines as the width needs.
fn wrapped(size: Size, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if size.width(&format!("{line} {word}")) <= WIDTH as i32 - 2 * MARGIN => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

pub(super) fn say(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    style: &TextStyle<'static>,
) -> Result<(), String> {
    area.draw(&Text::new(text.to_owned(), at, style.clone())).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_and_keep_their_words() {
        let text = "Tasks of one process that each take the same key once, hold 2 ms";
        let lines = wrapped(Size::Title, text);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| Size::Title.width(line) <= WIDTH as i32));
        assert_eq!(wrapped(Size::Small, "short"), ["short"]);
    }
}
