//! Marks with different shapes, for readers who do not see the colours.

use plotters::prelude::*;

use super::theme::{GROUND, SERIES, Shade};
use super::words::{Area, failed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Square,
    Circle,
    Diamond,
    Triangle,
    TriangleDown,
    Ring,
    Cross,
}

impl Marker {
    const ALL: [Marker; 7] = [
        Marker::Square,
        Marker::Circle,
        Marker::Diamond,
        Marker::Triangle,
        Marker::TriangleDown,
        Marker::Ring,
        Marker::Cross,
    ];

    /// The mark of the series with this number. The eighth series has the mark of the first.
    pub(super) fn nth(index: usize) -> (Marker, Shade) {
        (Marker::ALL[index % Marker::ALL.len()], SERIES[index % SERIES.len()])
    }

    pub(super) fn draw(self, area: &Area<'_>, (x, y): (i32, i32), color: Shade) -> Result<(), String> {
        let color = color.light;
        let polygon = |corners: &[(i32, i32)]| {
            let corners: Vec<_> = corners.iter().map(|(right, down)| (x + right, y + down)).collect();
            area.draw(&Polygon::new(corners, color.filled()))
        };
        match self {
            Marker::Square => area.draw(&Rectangle::new([(x - 6, y - 6), (x + 6, y + 6)], color.filled())),
            Marker::Circle => area.draw(&Circle::new((x, y), 7, color.filled())),
            Marker::Diamond => polygon(&[(0, -9), (9, 0), (0, 9), (-9, 0)]),
            Marker::Triangle => polygon(&[(0, -8), (8, 7), (-8, 7)]),
            Marker::TriangleDown => polygon(&[(0, 8), (8, -7), (-8, -7)]),
            Marker::Ring => {
                area.draw(&Circle::new((x, y), 7, GROUND.light.filled())).map_err(failed)?;
                area.draw(&Circle::new((x, y), 7, color.stroke_width(3)))
            }
            Marker::Cross => area.draw(&Cross::new((x, y), 7, color.stroke_width(3))),
        }
        .map_err(failed)
    }
}
