//! Lines with marks, and a legend in a place without lines.

use plotters::coord::ranged1d::Ranged as _;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::marker::Marker;
use super::scale::{Places, written};
use super::theme::{self, FAINT, GREY, GROUND, INK, Shade};
use super::words::{self, Area, Head, MARGIN, Size, WIDTH, failed, say, style};
use super::{Axis, Pen};

/// The room for the numbers at the left, and for the numbers and the axis name below.
const LEFT: u32 = 110;
const BELOW: u32 = 76;
/// From the highest to the lowest line.
const HEIGHT: i32 = 480;
/// The distance between the middles of two names of the legend.
const LEADING: i32 = 27;
/// The distances from the edge of the legend to its marks, to its names, and to the lines around it.
const TO_MARK: i32 = 18;
const TO_NAME: i32 = 34;
const GAP: i32 = 10;

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
    /// From left to right. Even without a point, its name is in the legend.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A series in pixels.
struct Placed<'a> {
    line: &'a Line,
    marker: Marker,
    color: Shade,
    points: Vec<(i32, i32)>,
}

/// Left, top, right, bottom.
#[derive(Clone, Copy, Debug)]
struct Frame(i32, i32, i32, i32);

impl Frame {
    fn has(self, (x, y): (i32, i32)) -> bool {
        let Frame(left, top, right, bottom) = self;
        (left..=right).contains(&x) && (top..=bottom).contains(&y)
    }
}

/// The chart as SVG.
///
/// # Errors
/// If there is no point.
pub(crate) fn draw_lines(chart: &Lines) -> Result<String, String> {
    let points = || chart.series.iter().flat_map(|line| line.points.iter().copied());
    if points().next().is_none() {
        return Err(format!("there is nothing to draw in \"{}\"", chart.title));
    }
    let x = Places::exactly(points().map(|(x, _)| x));
    let limit = chart.limit.iter().map(|limit| limit.at);
    let heights: Vec<f64> = points().map(|(_, y)| y).chain(limit).collect();
    let y = Places::around(chart.y.scale, heights.into_iter());
    let head = Head::new(&chart.title, &chart.under, Some(&chart.y.title));
    let plot = Frame(LEFT as i32, head.height(), WIDTH as i32 - MARGIN, head.height() + HEIGHT);
    let rows = legend(chart);
    let mut svg = String::new();
    {
        let size = (WIDTH, plot.3 as u32 + BELOW);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        head.draw(&area)?;
        let (placed, level) = place(&area, chart, &x, &y, plot)?;
        let mut taken: Vec<_> = placed.iter().flat_map(|one| along(&one.points)).collect();
        taken.extend(level.iter().flat_map(|level| along(level)));
        draw_legend(&area, &placed, &rows, free_corner(plot, &rows, &taken))?;
        for Placed { line, color, points, .. } in &placed {
            let path = PathElement::new(points.clone(), color.light.stroke_width(line.pen.width()));
            area.draw(&path).map_err(failed)?;
        }
        for Placed { marker, color, points, .. } in &placed {
            points.iter().try_for_each(|point| marker.draw(&area, *point, *color))?;
        }
        area.present().map_err(failed)?;
    }
    let names: Vec<_> = rows.into_iter().map(|(_, text)| text).collect();
    let description = format!("{}, by {}. {}.", chart.y.title, chart.x.title, names.join("; "));
    Ok(theme::finish(&svg, &chart.title, &description))
}

/// The limit as a line from left to right, if there is one.
type Level = Option<[(i32, i32); 2]>;

/// Draws the axes, and returns the positions of the points and of the limit.
fn place<'a>(
    area: &Area<'_>,
    chart: &'a Lines,
    x: &Places,
    y: &Places,
    plot: Frame,
) -> Result<(Vec<Placed<'a>>, Level), String> {
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(plot.1).margin_right(MARGIN).margin_bottom(12);
    builder.x_label_area_size(BELOW - 12).y_label_area_size(LEFT);
    let mut axes = builder.build_cartesian_2d(x.clone(), y.clone()).map_err(failed)?;
    axes.configure_mesh()
        .bold_line_style(FAINT.light)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY.light)
        .label_style(words::font(Size::Label).color(&INK.light))
        .axis_desc_style(words::font(Size::Label).color(&INK.light))
        .x_desc(&chart.x.title)
        .x_label_formatter(&|number| written(*number))
        .y_label_formatter(&|number| written(*number))
        .draw()
        .map_err(failed)?;
    let ends = x.range();
    let level =
        chart.limit.as_ref().map(|limit| [ends.start, ends.end].map(|x| axes.backend_coord(&(x, limit.at))));
    if let (Some(limit), Some([left, right])) = (&chart.limit, level) {
        for from in (left.0..right.0).step_by(12) {
            let dash = vec![(from, left.1), ((from + 7).min(right.0), left.1)];
            area.draw(&PathElement::new(dash, GREY.light.stroke_width(2))).map_err(failed)?;
        }
        say(area, limit.name, (left.0 + 10, left.1 + 16), &style(Size::Small, GREY, HPos::Left))?;
    }
    let series = chart.series.iter().enumerate().map(|(index, line)| {
        let (marker, color) = Marker::nth(index);
        let point = |(at, value): &(f64, f64)| axes.backend_coord(&(*at, *value));
        Placed { line, marker, color, points: line.points.iter().map(point).collect() }
    });
    Ok((series.collect(), level))
}

/// The names of the series with their last numbers. If other lines are longer, also the position of that number. The
/// rows have the order of the ends of the lines, from above. Each row has the index of its series.
fn legend(chart: &Lines) -> Vec<(usize, String)> {
    let ends = chart.series.iter().map(|line| line.points.last());
    let longest = ends.clone().flatten().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
    let mut rows: Vec<_> = ends.enumerate().collect();
    rows.sort_by(|(_, one), (_, other)| {
        let height = |end: &Option<&(f64, f64)>| end.map_or(f64::NEG_INFINITY, |(_, y)| *y);
        height(other).total_cmp(&height(one))
    });
    let named = rows.into_iter().map(|(index, end)| {
        let name = &chart.series[index].name;
        let text = match end {
            None => format!("{name}: no figure"),
            Some((x, y)) if *x < longest => format!("{name}: {} at {}", written(*y), written(*x)),
            Some((_, y)) => format!("{name}: {}", written(*y)),
        };
        (index, text)
    });
    named.collect()
}

/// Points of a line, close to each other.
fn along(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let steps = |pair: &[(i32, i32)]| {
        let (from, to) = (pair[0], pair[1]);
        (0..=100)
            .map(move |part| (from.0 + (to.0 - from.0) * part / 100, from.1 + (to.1 - from.1) * part / 100))
    };
    points.windows(2).flat_map(steps).chain(points.iter().copied()).collect()
}

/// The corner of the plot where a legend covers the fewest of the points `taken`.
fn free_corner(plot: Frame, rows: &[(usize, String)], taken: &[(i32, i32)]) -> Frame {
    let names = rows.iter().map(|(_, text)| Size::Small.width(text)).max().unwrap_or(0);
    let (width, height) = (TO_NAME + names + 12, LEADING * rows.len() as i32 + 10);
    let Frame(left, top, right, bottom) = plot;
    let corners = [
        (right - GAP - width, top + GAP),
        (left + GAP, top + GAP),
        (right - GAP - width, bottom - GAP - height),
        (left + GAP, bottom - GAP - height),
    ];
    let covered = |(x, y): &(i32, i32)| {
        let with_gap = Frame(x - GAP, y - GAP, x + width + GAP, y + height + GAP);
        taken.iter().filter(|point| with_gap.has(**point)).count()
    };
    let (x, y) = corners.into_iter().min_by_key(covered).unwrap_or(corners[0]);
    Frame(x, y, x + width, y + height)
}

fn draw_legend(
    area: &Area<'_>,
    placed: &[Placed<'_>],
    rows: &[(usize, String)],
    frame: Frame,
) -> Result<(), String> {
    let Frame(left, top, right, bottom) = frame;
    let edges = [(left, top), (right, bottom)];
    area.draw(&Rectangle::new(edges, GROUND.light.filled())).map_err(failed)?;
    area.draw(&Rectangle::new(edges, FAINT.light.stroke_width(1))).map_err(failed)?;
    for ((index, text), row) in rows.iter().zip(0_i32..) {
        let Placed { marker, color, .. } = &placed[*index];
        let y = top + 5 + LEADING / 2 + row * LEADING;
        marker.draw(area, (left + TO_MARK, y), *color)?;
        say(area, text, (left + TO_NAME, y), &style(Size::Small, *color, HPos::Left))?;
    }
    Ok(())
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
    fn the_legend_covers_no_line() {
        let plot = Frame(100, 100, 700, 500);
        let rows = [(0, "first: 1".to_owned())];
        let rising = along(&[(110, 490), (690, 110)]);
        let falling = along(&[(110, 110), (690, 490)]);
        let corner = |taken: &[(i32, i32)]| {
            let frame = free_corner(plot, &rows, taken);
            assert!(!taken.iter().any(|point| frame.has(*point)), "{frame:?}");
            (frame.0 == 110, frame.1 == 110)
        };
        assert_eq!(corner(&rising), (true, true));
        assert_eq!(corner(&falling), (false, true));
        assert_eq!(corner(&[rising, along(&[(110, 110), (690, 110)])].concat()), (false, false));
        assert_eq!(corner(&[falling, along(&[(110, 110), (690, 110)])].concat()), (true, false));
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
        for word in words.iter().chain(&["second &amp; third: 10 at 1", "stopped: no figure", "1\u{a0}000"]) {
            assert!(svg.contains(word), "{word}: {svg}");
        }
        assert!(svg.contains("<title>a title</title>\n<desc>locks per second, by tasks. first: "), "{svg}");
        assert!(theme::without_dark(&svg).is_empty(), "{svg}");
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
