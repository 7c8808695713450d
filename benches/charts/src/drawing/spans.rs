//! Rows from a median to a 99th percentile.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Pen;
use super::marker::Marker;
use super::scale::{Places, Scale, written};
use super::words::{self, Area, FAINT, GREY, INK, Size, failed, say, style};

const WIDTH: u32 = 1_080;
/// For each character of the names at the left, in a wide font.
const CHARACTER: usize = 9;
/// For the numbers at the right.
const NUMBERS: u32 = 170;
const ROW: u32 = 38;
const AXIS: u32 = 60;
/// The floor, and the key to the marks.
const BOTTOM: u32 = 44;
const OURS: RGBColor = RGBColor(0x0b, 0x5c, 0xad);

/// A chart of spans on a logarithmic axis.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(crate) title: String,
    /// Lines under the title.
    pub(crate) under: Vec<String>,
    /// What is measured, with its unit.
    pub(crate) axis: String,
    /// A number that all rows are compared with.
    pub(crate) guide: Option<f64>,
    pub(crate) spans: Vec<Span>,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) pen: Pen,
    /// The median.
    pub(crate) from: f64,
    /// The 99th percentile.
    pub(crate) to: f64,
}

impl Spans {
    /// The room for the names.
    fn names(&self) -> u32 {
        let longest = self.spans.iter().map(|span| span.name.chars().count()).max().unwrap_or(0);
        u32::try_from(longest * CHARACTER + 40).unwrap_or(u32::MAX).clamp(200, WIDTH / 2)
    }
}

/// The chart as SVG.
///
/// # Errors
/// If there is no row.
pub(crate) fn draw_spans(chart: &Spans) -> Result<String, String> {
    if chart.spans.is_empty() {
        return Err(format!("there is nothing to draw in \"{}\"", chart.title));
    }
    let ends: Vec<f64> = chart.spans.iter().flat_map(|span| [span.from, span.to]).collect();
    let places = Places::around(Scale::Log, ends.iter().copied());
    let rows = u32::try_from(chart.spans.len()).map_err(|_| "too many rows")?;
    let top = words::below_title(chart.under.len());
    let height = top + rows * ROW + AXIS + BOTTOM;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        words::prepare(&area, &chart.title, &chart.under)?;
        draw_rows(&area, chart, &places, f64::from(rows))?;
        explain(&area, (chart.names() as i32, height as i32 - 26))?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn draw_rows(area: &Area<'_>, chart: &Spans, places: &Places, rows: f64) -> Result<(), String> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(words::below_title(chart.under.len())).margin_bottom(BOTTOM);
    builder.margin_left(chart.names()).margin_right(NUMBERS).x_label_area_size(AXIS);
    // The first row is at the top.
    let mut axes = builder.build_cartesian_2d(places.clone(), rows..0.0).map_err(failed)?;
    axes.configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(words::font(Size::Label).color(&INK))
        .axis_desc_style(words::font(Size::Label).color(&GREY))
        .x_desc(&chart.axis)
        .x_label_formatter(&|number| written(*number))
        .draw()
        .map_err(failed)?;
    if let Some(guide) = chart.guide {
        let ends = [0.0, rows].map(|y| axes.backend_coord(&(guide, y)));
        dashes(area, ends)?;
    }
    for (index, span) in (0_u32..).zip(&chart.spans) {
        let at = |number| axes.backend_coord(&(number, f64::from(index) + 0.5));
        draw_span(area, span, chart.names() as i32, [at(span.from), at(span.to)])?;
    }
    Ok(())
}

/// A row whose axis begins at `left`.
fn draw_span(area: &Area<'_>, span: &Span, left: i32, [from, to]: [(i32, i32); 2]) -> Result<(), String> {
    let color = match span.pen {
        Pen::Bold => OURS,
        Pen::Plain => GREY,
    };
    area.draw(&PathElement::new(vec![from, to], color.stroke_width(span.pen.width()))).map_err(failed)?;
    Marker::Circle.draw(area, from, color)?;
    Marker::Diamond.draw(area, to, color)?;
    let y = from.1;
    say(area, &span.name, (left - 16, y), &style(Size::Label, color, HPos::Right))?;
    let numbers = format!("{} … {}", written(span.from), written(span.to));
    say(area, &numbers, ((WIDTH - NUMBERS) as i32 + 20, y), &style(Size::Label, color, HPos::Left))
}

/// A vertical line that is not one of the axis's.
fn dashes(area: &Area<'_>, [top, bottom]: [(i32, i32); 2]) -> Result<(), String> {
    for y in (top.1..bottom.1).step_by(12) {
        let dash = vec![(top.0, y), (top.0, (y + 7).min(bottom.1))];
        area.draw(&PathElement::new(dash, GREY.stroke_width(2))).map_err(failed)?;
    }
    Ok(())
}

/// What the marks mean.
fn explain(area: &Area<'_>, (left, y): (i32, i32)) -> Result<(), String> {
    let text = style(Size::Small, GREY, HPos::Left);
    Marker::Circle.draw(area, (left + 8, y), GREY)?;
    say(area, "median", (left + 24, y), &text)?;
    Marker::Diamond.draw(area, (left + 118, y), GREY)?;
    say(area, "99th percentile", (left + 134, y), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(spans: Vec<Span>) -> Spans {
        let (title, under) = ("a title".to_owned(), vec!["a machine".to_owned()]);
        Spans { title, under, axis: "time, ms".to_owned(), guide: Some(0.2), spans }
    }

    fn span(name: &str, from: f64, to: f64) -> Span {
        Span { name: name.to_owned(), pen: Pen::Bold, from, to }
    }

    #[test]
    fn all_words_are_in_the_chart() {
        let svg = draw_spans(&chart(vec![span("first", 0.2, 0.4), span("second", 8.0, 123.0)])).unwrap();
        let words = ["a title", "a machine", "time, ms", "first", "0.2 … 0.4", "second", "8 … 123", "median"];
        for word in words {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }

    #[test]
    fn no_row_is_an_error() {
        assert!(draw_spans(&chart(Vec::new())).is_err());
        assert!(draw_spans(&chart(vec![span("one point", 1.0, 1.0)])).is_ok());
    }
}
