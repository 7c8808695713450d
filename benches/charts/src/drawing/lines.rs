//! Lines with marks, each named at its right end.

use plotters::coord::ranged1d::Ranged as _;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::marker::Marker;
use super::scale::{Places, written};
use super::words::{self, Area, FAINT, GREY, INK, Size, failed, say, style};
use super::{Axis, Pen};

const WIDTH: u32 = 1_080;
const HEIGHT: u32 = 620;
/// For the names at the right.
const NAMES: u32 = 370;
/// Between the middles of two names.
const LEADING: i32 = 23;

/// A chart of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    /// Lines under the title.
    pub(crate) under: Vec<String>,
    /// Logarithmic, with the numbers that occur.
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Line>,
    pub(crate) limit: Option<Limit>,
}

/// A height that the lines cannot pass, drawn across the chart.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) at: f64,
    pub(crate) name: &'static str,
}

/// A series.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) pen: Pen,
    /// From left to right. Without a point, its name stands there all the same.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A series in pixels.
struct Placed<'a> {
    line: &'a Line,
    marker: Marker,
    color: RGBColor,
    points: Vec<(i32, i32)>,
}

/// The chart as SVG.
///
/// # Errors
/// If there is no point at all.
pub(crate) fn draw_lines(chart: &Lines) -> Result<String, String> {
    let points = || chart.series.iter().flat_map(|line| line.points.iter().copied());
    if points().next().is_none() {
        return Err(format!("there is nothing to draw in \"{}\"", chart.title));
    }
    let x = Places::exactly(points().map(|(x, _)| x));
    let limit = chart.limit.iter().map(|limit| limit.at);
    let heights: Vec<f64> = points().map(|(_, y)| y).chain(limit).collect();
    let y = Places::around(chart.y.scale, heights.into_iter());
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        words::prepare(&area, &chart.title, &chart.under)?;
        let placed = place(&area, chart, &x, &y)?;
        for series in &placed {
            let path =
                PathElement::new(series.points.clone(), series.color.stroke_width(series.line.pen.width()));
            area.draw(&path).map_err(failed)?;
        }
        for Placed { marker, color, points, .. } in &placed {
            points.iter().try_for_each(|point| marker.draw(&area, *point, *color))?;
        }
        name_all(&area, &placed, chart.under.len())?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Draws the axes, and returns where the points are.
fn place<'a>(area: &Area<'_>, chart: &'a Lines, x: &Places, y: &Places) -> Result<Vec<Placed<'a>>, String> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(words::below_title(chart.under.len())).margin_right(NAMES).margin_bottom(16);
    builder.margin_left(20).x_label_area_size(54).y_label_area_size(104);
    let mut axes = builder.build_cartesian_2d(x.clone(), y.clone()).map_err(failed)?;
    axes.configure_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(words::font(Size::Label).color(&INK))
        .axis_desc_style(words::font(Size::Label).color(&GREY))
        .x_desc(&chart.x.title)
        .y_desc(&chart.y.title)
        .x_label_formatter(&|number| written(*number))
        .y_label_formatter(&|number| written(*number))
        .draw()
        .map_err(failed)?;
    if let Some(limit) = &chart.limit {
        let ends = x.range();
        let [left, right] = [ends.start, ends.end].map(|x| axes.backend_coord(&(x, limit.at)));
        for from in (left.0..right.0).step_by(12) {
            let dash = vec![(from, left.1), ((from + 7).min(right.0), left.1)];
            area.draw(&PathElement::new(dash, GREY.stroke_width(2))).map_err(failed)?;
        }
        say(area, limit.name, (left.0 + 10, left.1 + 14), &style(Size::Small, GREY, HPos::Left))?;
    }
    let series = chart.series.iter().enumerate().map(|(index, line)| {
        let (marker, color) = Marker::nth(index);
        let point = |(at, value): &(f64, f64)| axes.backend_coord(&(*at, *value));
        Placed { line, marker, color, points: line.points.iter().map(point).collect() }
    });
    Ok(series.collect())
}

/// Writes the names beside the ends of the lines, and their last numbers.
fn name_all(area: &Area<'_>, placed: &[Placed<'_>], under: usize) -> Result<(), String> {
    let bottom = HEIGHT as i32 - 100;
    let right = (WIDTH - NAMES) as i32;
    // A line without a point is named below all others.
    let mut order: Vec<(&Placed<'_>, i32)> =
        placed.iter().map(|one| (one, one.points.last().map_or(bottom, |(_, y)| *y))).collect();
    order.sort_by_key(|(_, y)| *y);
    let wanted: Vec<i32> = order.iter().map(|(_, y)| *y).collect();
    let heights = spread(&wanted, words::below_title(under) as i32, bottom);
    for ((Placed { line, marker, color, points }, _), y) in order.into_iter().zip(heights) {
        if let Some(end) = points.last() {
            let leader = vec![(end.0 + 9, end.1), (right + 6, y)];
            area.draw(&PathElement::new(leader, color.mix(0.35).stroke_width(1))).map_err(failed)?;
        }
        marker.draw(area, (right + 17, y), *color)?;
        let last = line.points.last().map_or_else(|| "no figure".to_owned(), |(_, last)| written(*last));
        let size = style(Size::Label, *color, HPos::Left);
        say(area, &format!("{}: {last}", line.name), (right + 33, y), &size)?;
    }
    Ok(())
}

/// Moves heights, which are in order, as far apart as names need, and back above the bottom.
fn spread(wanted: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut heights = wanted.to_vec();
    let mut least = top;
    for height in &mut heights {
        *height = (*height).max(least);
        least = *height + LEADING;
    }
    let mut most = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - LEADING;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Scale;

    fn chart(series: Vec<Line>) -> Lines {
        let axis = |title: &str| Axis { title: title.to_owned(), scale: Scale::Log };
        let (title, under) = ("a title".to_owned(), vec!["a machine".to_owned()]);
        Lines { title, under, x: axis("tasks"), y: axis("locks per second"), series, limit: None }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), pen: Pen::Plain, points: points.to_vec() }
    }

    #[test]
    fn names_are_moved_apart() {
        assert_eq!(spread(&[100, 101, 102, 400], 80, 500), [100, 123, 146, 400]);
        assert_eq!(spread(&[498, 499, 500], 80, 500), [454, 477, 500]);
    }

    #[test]
    fn all_words_are_in_the_chart() {
        let series = vec![
            line("first", &[(1.0, 20_000.0), (1_000.0, 150_000.0)]),
            line("second & third", &[(1.0, 10.0)]),
            line("stopped", &[]),
        ];
        let svg = draw_lines(&chart(series)).unwrap();
        let words = ["a title", "a machine", "tasks", "locks per second", "first: 150\u{a0}000"];
        for word in words.iter().chain(&["second &amp; third: 10", "stopped: no figure", "1\u{a0}000"]) {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }

    #[test]
    fn a_limit_is_in_the_chart_though_no_line_reaches_it() {
        let lines = chart(vec![line("first", &[(1.0, 2.0), (10.0, 20.0)])]);
        let limit = Some(Limit { at: 1_000.0, name: "the end" });
        let svg = draw_lines(&Lines { limit, ..lines }).unwrap();
        assert!(svg.contains("the end") && svg.contains("1\u{a0}000"), "{svg}");
    }

    #[test]
    fn one_point_is_enough_and_none_is_an_error() {
        assert!(draw_lines(&chart(vec![line("single", &[(16.0, 1.0)])])).is_ok());
        assert!(draw_lines(&chart(vec![line("none", &[])])).is_err());
        assert!(draw_lines(&chart(Vec::new())).is_err());
    }
}
