//! The words of a chart: title, the lines under it, and their styles.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Where drawings go.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const FONT: &str = "DejaVu Sans, Verdana, Arial, sans-serif";
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
pub(super) const GREY: RGBColor = RGBColor(0x4b, 0x55, 0x63);
pub(super) const FAINT: RGBColor = RGBColor(0xd8, 0xdd, 0xe3);
const GROUND: RGBColor = RGBColor(0xfc, 0xfc, 0xfd);
const LEFT: i32 = 24;

/// Where the chart itself may begin below the title and `lines` lines.
pub(super) fn below_title(lines: usize) -> u32 {
    70 + 22 * u32::try_from(lines).unwrap_or(0)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Title,
    Label,
    Small,
}

/// Plotters divides a size by 1.24 for an SVG.
pub(super) fn font(size: Size) -> FontDesc<'static> {
    match size {
        Size::Title => (FONT, 27.0, FontStyle::Bold).into_font(),
        Size::Label => (FONT, 19.0).into_font(),
        Size::Small => (FONT, 17.0).into_font(),
    }
}

pub(super) fn style(size: Size, color: RGBColor, at: HPos) -> TextStyle<'static> {
    font(size).color(&color).pos(Pos::new(at, VPos::Center))
}

/// What plotters says, as text.
pub(super) fn failed(error: impl Display) -> String {
    format!("the chart cannot be drawn: {error}")
}

/// An empty chart with its title.
pub(super) fn prepare(area: &Area<'_>, title: &str, under: &[String]) -> Result<(), String> {
    area.fill(&GROUND).map_err(failed)?;
    let (width, height) = area.dim_in_pixel();
    let corner = (i32::try_from(width).unwrap_or(0) - 1, i32::try_from(height).unwrap_or(0) - 1);
    area.draw(&Rectangle::new([(0, 0), corner], FAINT.stroke_width(1))).map_err(failed)?;
    say(area, title, (LEFT, 32), &style(Size::Title, INK, HPos::Left))?;
    for (index, line) in (0_i32..).zip(under) {
        say(area, line, (LEFT, 62 + 22 * index), &style(Size::Small, GREY, HPos::Left))?;
    }
    Ok(())
}

pub(super) fn say(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    style: &TextStyle<'static>,
) -> Result<(), String> {
    area.draw(&Text::new(text.to_owned(), at, style.clone())).map_err(failed)
}
