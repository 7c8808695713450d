//! Rows from a median to a 99th percentile.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Pen;
use super::marker::Marker;
use super::scale::{Places, Scale, written};
use super::theme::{self, FAINT, GREY, INK, SERIES, Shade};
use super::words::{self, Area, Head, MARGIN, Size, WIDTH, failed, say, style};

/// The height of a row, with the name and the numbers above it.
const ROW: u32 = 62;
const AXIS: u32 = 64;
/// The key to the marks.
const BOTTOM: u32 = 40;
const OURS: Shade = SERIES[1];

/// A chart of spans on a logarithmic axis.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(crate) title: String,
    /// Lines under the title.
    pub(crate) under: Vec<String>,
    /// The measured quantity, with its unit.
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
    let head = Head::new(&chart.title, &chart.under, None);
    let height = head.height() as u32 + rows * ROW + AXIS + BOTTOM;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        head.draw(&area)?;
        draw_rows(&area, chart, &places, (head.height(), f64::from(rows)))?;
        explain(&area, height as i32 - 24)?;
        area.present().map_err(failed)?;
    }
    let spans: Vec<_> = chart.spans.iter().map(|span| format!("{}: {}", span.name, span.numbers())).collect();
    let description = format!("{}, median … 99th percentile. {}.", chart.axis, spans.join("; "));
    Ok(theme::finish(&svg, &chart.title, &description))
}

impl Span {
    fn numbers(&self) -> String {
        format!("{} … {}", written(self.from), written(self.to))
    }
}

fn draw_rows(area: &Area<'_>, chart: &Spans, places: &Places, (top, rows): (i32, f64)) -> Result<(), String> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(top).margin_bottom(BOTTOM).margin_left(2 * MARGIN).margin_right(2 * MARGIN);
    builder.x_label_area_size(AXIS);
    // The first row is at the top.
    let mut axes = builder.build_cartesian_2d(places.clone(), rows..0.0).map_err(failed)?;
    axes.configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .bold_line_style(FAINT.light)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY.light)
        .label_style(words::font(Size::Label).color(&INK.light))
        .axis_desc_style(words::font(Size::Label).color(&INK.light))
        .x_desc(&chart.axis)
        .x_label_formatter(&|number| written(*number))
        .draw()
        .map_err(failed)?;
    for (index, span) in (0_u32..).zip(&chart.spans) {
        let at = |number, part| axes.backend_coord(&(number, f64::from(index) + part));
        if let Some(guide) = chart.guide {
            // The line does not cross the words of the row.
            dashes(area, [at(guide, 0.5), at(guide, 1.0)])?;
        }
        draw_span(area, span, [at(span.from, 0.7), at(span.to, 0.7)])?;
    }
    Ok(())
}

fn draw_span(area: &Area<'_>, span: &Span, [from, to]: [(i32, i32); 2]) -> Result<(), String> {
    let color = match span.pen {
        Pen::Bold => OURS,
        Pen::Plain => GREY,
    };
    let path = PathElement::new(vec![from, to], color.light.stroke_width(span.pen.width()));
    area.draw(&path).map_err(failed)?;
    Marker::Circle.draw(area, from, color)?;
    Marker::Diamond.draw(area, to, color)?;
    let y = from.1 - 24;
    say(area, &span.name, (MARGIN + 8, y), &style(Size::Small, color, HPos::Left))?;
    say(area, &span.numbers(), (WIDTH as i32 - MARGIN - 8, y), &style(Size::Small, color, HPos::Right))
}

/// A vertical line that does not belong to the axis.
fn dashes(area: &Area<'_>, [top, bottom]: [(i32, i32); 2]) -> Result<(), String> {
    for y in (top.1..bottom.1).step_by(12) {
        let dash = vec![(top.0, y), (top.0, (y + 7).min(bottom.1))];
        area.draw(&PathElement::new(dash, GREY.light.stroke_width(2))).map_err(failed)?;
    }
    Ok(())
}

/// Explains the marks.
fn explain(area: &Area<'_>, y: i32) -> Result<(), String> {
    let text = style(Size::Small, GREY, HPos::Left);
    Marker::Circle.draw(area, (MARGIN + 16, y), GREY)?;
    say(area, "median", (MARGIN + 34, y), &text)?;
    Marker::Diamond.draw(area, (MARGIN + 136, y), GREY)?;
    say(area, "99th percentile", (MARGIN + 154, y), &text)
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
        assert!(svg.contains("<desc>time, ms, median … 99th percentile. first: 0.2 … 0.4; "), "{svg}");
        assert!(theme::without_dark(&svg).is_empty(), "{svg}");
    }

    #[test]
    fn no_row_is_an_error() {
        assert!(draw_spans(&chart(Vec::new())).is_err());
        assert!(draw_spans(&chart(vec![span("one point", 1.0, 1.0)])).is_ok());
    }
}
