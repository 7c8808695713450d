//! The additions that make a drawing usable on any page: a dark variant, and a text for readers who do not see it.

use plotters::prelude::RGBColor;

/// A colour for light and for dark pages. The ground comes first, then the colours on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shade {
    pub(super) light: RGBColor,
    dark: RGBColor,
}

const fn shade(light: u32, dark: u32) -> Shade {
    const fn rgb(hex: u32) -> RGBColor {
        let [_, red, green, blue] = hex.to_be_bytes();
        RGBColor(red, green, blue)
    }
    Shade { light: rgb(light), dark: rgb(dark) }
}

pub(super) const GROUND: Shade = shade(0x00fc_fcfd, 0x000d_1117);
pub(super) const INK: Shade = shade(0x001f_2937, 0x00e6_edf3);
pub(super) const GREY: Shade = shade(0x004b_5563, 0x00b1_bac4);
pub(super) const FAINT: Shade = shade(0x00d8_dde3, 0x0030_363d);
/// The colours of the series. In both variants, the contrast is enough for text.
pub(super) const SERIES: [Shade; 7] = [
    shade(0x0037_4151, 0x00d1_d5db),
    shade(0x000b_5cad, 0x0058_a6ff),
    shade(0x0086_198f, 0x00e8_79f9),
    shade(0x00b4_5309, 0x00fb_bf24),
    shade(0x0016_6d3b, 0x004a_de80),
    shade(0x00b9_1c1c, 0x00f8_7171),
    shade(0x000e_6b7c, 0x0022_d3ee),
];

fn all() -> impl Iterator<Item = Shade> {
    [GROUND, INK, GREY, FAINT].into_iter().chain(SERIES)
}

/// A colour in the form of plotters.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The drawing with its title, its description, and the colours of its dark variant.
pub(super) fn finish(svg: &str, title: &str, description: &str) -> String {
    let mut head = format!(
        "<title>{}</title>\n<desc>{}</desc>\n<style>\n@media (prefers-color-scheme: dark) {{\n",
        escaped(title),
        escaped(description)
    );
    for Shade { light, dark } in all() {
        for place in ["fill", "stroke"] {
            head += &format!("[{place}=\"{}\"] {{ {place}: {} }}\n", hex(light), hex(dark));
        }
    }
    head += "}\n</style>\n";
    let (tag, drawing) = svg.split_once('\n').unwrap_or((svg, ""));
    format!("{}\n{head}{drawing}", tag.replacen("<svg ", "<svg role=\"img\" ", 1))
}

/// The colours of a drawing that have no dark variant.
#[cfg(test)]
pub(super) fn without_dark(svg: &str) -> Vec<&str> {
    let known: Vec<_> = all().map(|color| hex(color.light)).collect();
    let (_, drawing) = svg.split_once("</style>").unwrap_or(("", svg));
    let mut colors = drawing.match_indices("=\"#").map(|(at, _)| &drawing[at + 2..at + 9]).peekable();
    assert!(colors.peek().is_some(), "no colour at all: {svg}");
    colors.filter(|color| !known.iter().any(|known| known == color)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_words_and_dark_colors() {
        let svg = finish("<svg width=\"1\">\n<rect fill=\"#FCFCFD\"/>\n</svg>\n", "a & b", "1 < 2");
        assert!(svg.starts_with(
            "<svg role=\"img\" width=\"1\">\n<title>a &amp; b</title>\n<desc>1 &lt; 2</desc>\n"
        ));
        assert!(svg.contains("[fill=\"#FCFCFD\"] { fill: #0D1117 }"), "{svg}");
        assert!(svg.ends_with("</style>\n<rect fill=\"#FCFCFD\"/>\n</svg>\n"), "{svg}");
        assert!(without_dark(&svg).is_empty());
        assert_eq!(without_dark("<rect fill=\"#123456\"/>"), ["#123456"]);
    }

    /// Uses the formula of the Web Content Accessibility Guidelines, 2.x.
    #[test]
    fn text_is_readable_on_both_grounds() {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let light =
            |RGBColor(r, g, b): RGBColor| 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05;
        for color in [INK, GREY].into_iter().chain(SERIES) {
            let on_light = light(GROUND.light) / light(color.light);
            let on_dark = light(color.dark) / light(GROUND.dark);
            assert!(on_light >= 4.5 && on_dark >= 4.5, "{color:?}: {on_light:.1}, {on_dark:.1}");
        }
    }
}
