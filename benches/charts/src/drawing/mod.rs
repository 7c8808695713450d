//! Charts as SVG, light or dark like the page around them.

mod lines;
mod marker;
mod scale;
mod spans;
mod theme;
mod words;

pub(crate) use lines::{Limit, Line, Lines, draw_lines};
pub(crate) use scale::Scale;
pub(crate) use spans::{Span, Spans, draw_spans};

/// The title, the scale and the numbers of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pen {
    /// The subject of the chart.
    Bold,
    /// A series for comparison.
    Plain,
}

impl Pen {
    fn width(self) -> u32 {
        match self {
            Pen::Bold => 4,
            Pen::Plain => 2,
        }
    }
}
