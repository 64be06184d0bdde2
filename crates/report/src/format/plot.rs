//! Charts to SVG: direct labels instead of a key where curves have ends, thin grids, sizes in
//! binary steps, and markers with dashes so that curves differ without colour and equal ones show.
//!
//! Colours are those of [`PALETTE`] and [`INK`], [`MUTED`], [`GRID`], which the page's style maps
//! to lighter ones where the reader prefers a dark page.

use super::{
    cell, clean,
    key::{self, Frame},
    shorten,
    ticks::{binary_ticks, decimal_ticks, even_ticks, near_ticks},
};
use crate::{Axis, Chart, PlottedCase, Quantity, Scale, Series, SeriesKind};
use fizeau_domain::units::{
    Bytes, BytesPerSecond, Celsius, FlopsPerSecond, Megahertz, Seconds, Watts,
};
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// Colours that people with any colour vision tell apart, from each other and from [`MUTED`], dark
/// enough for text on white. Found by search from those of Okabe and Ito (2008), of which some
/// differ by hue alone once light ones are darkened; a test computes the distances again.
pub const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x78, 0xCC),
    RGBColor(0x95, 0x14, 0x00),
    RGBColor(0x02, 0x7C, 0x5C),
    RGBColor(0xAC, 0x56, 0x9B),
    RGBColor(0x8F, 0x6E, 0x25),
    RGBColor(0x09, 0x2A, 0x6B),
    RGBColor(0xA2, 0x29, 0x39),
];
/// Words on axes.
pub const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
/// Words beside the point.
pub const MUTED: RGBColor = RGBColor(0x59, 0x63, 0x6E);
/// Lines behind the curves.
pub const GRID: RGBColor = RGBColor(0xDD, 0xE2, 0xE8);

/// Drawn at twice the size it is shown at, so that whole pixels are fine enough.
const SIZE: (u32, u32) = (1240, 760);
/// Width on a phone's page, likewise doubled: 390 px without the page's edges.
const PHONE_WIDTH: u32 = 716;
const FONT: &str = "system-ui, sans-serif";
/// The backend divides by 1.24 what it is given; this comes out at 26, shown as 13.
const TEXT: f64 = 26.0 * 1.24;
/// Height of a line of text.
pub(super) const LINE: i32 = 36;
const NAME_MAX: usize = 26;
/// Least distance of two numbers below the plot.
const NUMBERS_APART: i32 = 10;
/// Characters of a case's id, longer than any of ours.
const ID_MAX: usize = 200;
/// Characters of a line below a picture.
pub(super) const CAPTION_MAX: usize = 76;
/// Points of a series that show their values where a reader points at them.
const HOVERS_MAX: usize = 2_000;
/// How near a reader has to point, in the picture's units.
const HOVER: i32 = 14;

/// What the chart is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dress<'c> {
    /// The page, which says the title and has a background.
    Page,
    /// The same in a narrow window: names stand below the plot, and nothing is pointed at.
    Phone,
    /// A file of its own, with what tells where its numbers are from below: machine, run and date,
    /// a line each.
    Alone(&'c [String]),
}

/// A chart that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the chart {chart}: {why}")]
pub struct PlotError {
    /// Its name.
    pub chart: String,
    /// What the drawing library says.
    pub why: String,
}

type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// A picture on its way.
pub(super) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
/// Whether the drawing library could.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws a chart.
///
/// # Errors
/// [`PlotError`] where the drawing library refuses.
pub fn svg(chart: &Chart, dress: Dress<'_>) -> Result<String, PlotError> {
    let mut text = String::new();
    let mut hovers = String::new();
    let below = match dress {
        Dress::Page => 0,
        Dress::Phone => 24 + LINE as u32 * chart.series.len() as u32,
        Dress::Alone(lines) => 24 + LINE as u32 * lines.len() as u32,
    };
    {
        let width = if dress == Dress::Phone { PHONE_WIDTH } else { SIZE.0 };
        let size = (width, SIZE.1 + below);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(chart, dress, &root, &mut hovers)
            .and_then(|()| root.present())
            .map_err(|error| PlotError { chart: chart.name.clone(), why: error.to_string() })?;
    }
    if let Some(end) = text.rfind("</svg>").filter(|_| !hovers.is_empty()) {
        text.insert_str(end, &format!("<g class=\"points\">\n{hovers}</g>\n"));
    }
    Ok(text)
}

fn draw(chart: &Chart, dress: Dress<'_>, root: &Area<'_>, hovers: &mut String) -> Drawn {
    let mut top = if chart.marks.is_empty() { 24 + LINE as u32 } else { 24 + LINE as u32 * 2 };
    let mut bottom = 12;
    if let Dress::Alone(lines) = dress {
        root.fill(&WHITE)?;
        let title = shorten(&clean(&chart.title), 80);
        let font = (FONT, TEXT * 1.3).into_font();
        let style = TextStyle::from(font).color(&INK).pos(Pos::new(HPos::Left, VPos::Top));
        root.draw_text(&title, &style, (24, 20))?;
        top += 60;
        bottom += LINE as u32 * lines.len() as u32;
        for (line, text) in (0i32..).zip(lines) {
            let style = text_style(MUTED, HPos::Left, VPos::Top);
            let height = SIZE.1 as i32 + LINE * line;
            root.draw_text(&shorten(&clean(text), CAPTION_MAX), &style, (24, height))?;
        }
    }
    let x = Span::of(&chart.x, chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)));
    let y = Span::of(&chart.y, chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)));
    let longest = labelled(chart)
        .map(|(series, _)| clean(&series.name).chars().count().min(NAME_MAX))
        .max()
        .unwrap_or(0) as u32;
    let widest = y.ticks.iter().map(|tick| label(chart.y.quantity, y.value(*tick)).len()).max();
    let mut right = 40 + longest * 15;
    if dress == Dress::Phone {
        bottom += LINE as u32 * chart.series.len() as u32;
        right = 24;
    }
    let plane = ChartBuilder::on(root)
        .margin_top(top)
        .margin_bottom(bottom)
        .margin_left(12)
        .margin_right(right)
        .x_label_area_size(96)
        .y_label_area_size(26 + widest.unwrap_or(0).max(7) as u32 * 15)
        .build_cartesian_2d(x.low..x.high, y.low..y.high)?;
    let mut drawing = Drawing { chart, root, plane, x, y };
    drawing.draw_axes()?;
    drawing.draw_marks()?;
    for (series, index, tint) in tints(chart) {
        drawing.draw_series(series, index, tint)?;
        let is_line = matches!(series.kind, SeriesKind::Limit | SeriesKind::Region);
        if dress == Dress::Page && !is_line {
            drawing.hover(series, hovers);
        }
    }
    if dress == Dress::Phone {
        return drawing.draw_list();
    }
    drawing.draw_names()?;
    drawing.draw_key()
}

/// A chart on its way to the picture.
struct Drawing<'d, 'b> {
    chart: &'d Chart,
    /// The whole picture.
    root: &'d Area<'b>,
    /// The plot, in positions of `x` and `y`.
    plane: Plane<'d, 'b>,
    x: Span,
    y: Span,
}

impl Drawing<'_, '_> {
    /// The place in the picture of two positions.
    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        self.plane.backend_coord(&(x, y))
    }

    /// Grid, numbers and titles.
    fn draw_axes(&self) -> Drawn {
        let Drawing { chart, root, x, y, .. } = self;
        let (left, bottom) = self.at(x.low, y.low);
        let (right, top) = self.at(x.high, y.high);
        let line = |from, to, colour: RGBColor| {
            root.draw(&PathElement::new(vec![from, to], colour.stroke_width(2)))
        };
        let (width, _) = root.dim_in_pixel();
        let mut end = 0;
        for &tick in &x.ticks {
            let (at, _) = self.at(tick, y.low);
            line((at, bottom), (at, top), GRID)?;
            let text = label(chart.x.quantity, x.value(tick));
            let half = half_width(&text);
            // A number that would run into its neighbour, or out of the picture, is left out.
            if at - half >= end && at + half <= width as i32 {
                let style = text_style(INK, HPos::Center, VPos::Top);
                root.draw_text(&text, &style, (at, bottom + 14))?;
                end = at + half + NUMBERS_APART;
            }
        }
        for &tick in &y.ticks {
            let (_, at) = self.at(x.low, tick);
            line((left, at), (right, at), GRID)?;
            let style = text_style(INK, HPos::Right, VPos::Center);
            root.draw_text(&label(chart.y.quantity, y.value(tick)), &style, (left - 14, at))?;
        }
        line((left, bottom), (right, bottom), MUTED)?;
        let style = text_style(MUTED, HPos::Right, VPos::Top);
        root.draw_text(&clean(&chart.x.title), &style, (right, bottom + 56))?;
        let style = text_style(MUTED, HPos::Left, VPos::Bottom);
        // Over the row of marks, so that neither meets the other.
        let lift = if chart.marks.is_empty() { 24 } else { 24 + LINE };
        root.draw_text(&clean(&chart.y.title), &style, (16, top - lift))
    }

    /// Lines where a cache ends, labelled over the plot; in a second row where two are close.
    fn draw_marks(&self) -> Drawn {
        let Drawing { chart, root, x, y, .. } = self;
        let mut ends = [i32::MIN; 2];
        for mark in chart.marks.iter().filter(|mark| x.holds(mark.at)) {
            let (left, bottom) = self.at(x.place(mark.at), y.low);
            let (_, top) = self.at(x.place(mark.at), y.high);
            let name = shorten(&clean(&mark.label), NAME_MAX);
            let half = half_width(&name);
            let row = usize::from(left - half < ends[1]);
            ends[1 - row] = left + half;
            let lift = LINE * row as i32;
            let line = PathElement::new(
                vec![(left, bottom), (left, top - 6)],
                MUTED.mix(0.6).stroke_width(2),
            );
            root.draw(&line)?;
            let style = text_style(MUTED, HPos::Center, VPos::Bottom);
            let inside = left.min(root.dim_in_pixel().0 as i32 - half).max(half);
            root.draw_text(&name, &style, (inside, top - 14 - lift))?;
        }
        Ok(())
    }

    fn draw_series(&mut self, series: &Series, index: usize, tint: RGBColor) -> Drawn {
        let Drawing { plane, x, y, .. } = self;
        let places: Vec<(f64, f64)> =
            series.points.iter().map(|(a, b)| (x.place(*a), y.place(*b))).collect();
        match series.kind {
            SeriesKind::Limit => {
                plane.draw_series(LineSeries::new(places, tint.stroke_width(3)))?;
                return Ok(());
            }
            SeriesKind::Curve => {
                let style = tint.stroke_width(4);
                match index {
                    0 => plane.draw_series(LineSeries::new(places.clone(), style)).map(|_| ())?,
                    _ => {
                        let dashes = [(22, 10), (12, 12), (5, 9), (30, 16), (16, 24), (5, 20)];
                        let (dash, gap) = dashes[(index - 1) % dashes.len()];
                        let line = DashedLineSeries::new(places.clone(), dash, gap, style);
                        plane.draw_series(line).map(|_| ())?;
                    }
                }
            }
            SeriesKind::Region => {
                if let (Some(from), Some(to)) = (places.first(), places.last()) {
                    // A point alone has an area too.
                    let (wide, high) = ((x.high - x.low) * 0.012, (y.high - y.low) * 0.02);
                    let (low, high) = ((from.0 - wide, from.1 - high), (to.0 + wide, to.1 + high));
                    let area = Rectangle::new([low, high], tint.mix(0.12).filled());
                    plane.draw_series([area])?;
                }
                return Ok(());
            }
            SeriesKind::Points | SeriesKind::Faint => {}
        }
        // A marker every so often, so that many points stay a curve.
        let every = if series.kind == SeriesKind::Curve { places.len().div_ceil(28) } else { 1 };
        let shown = places.iter().copied().step_by(every.max(1));
        // Points of a cloud are small, or they would be one.
        let size = if series.kind == SeriesKind::Curve { 14 } else { 9 };
        plane.draw_series(shown.map(|place| {
            EmptyElement::at(place) + Polygon::new(marker(index, size, (0, 0)), tint.filled())
        }))?;
        Ok(())
    }

    /// Adds what a reader sees who points at a point of a series: an unseen circle with a title.
    fn hover(&self, series: &Series, out: &mut String) {
        let Drawing { chart, x, y, .. } = self;
        let name = escape(&shorten(&clean(&series.name), NAME_MAX));
        for (place, (at, value)) in series.points.iter().take(HOVERS_MAX).enumerate() {
            let (left, height) = self.at(x.place(*at), y.place(*value));
            let at = label(chart.x.quantity, *at);
            let value = label(chart.y.quantity, *value);
            let words = match series.cases.get(place) {
                None => format!("{name}: {value} at {at}"),
                Some(case) => format!("{}: {value}{}", named(case), beside(chart, case, &at)),
            };
            *out += &format!(
                "<circle cx=\"{left}\" cy=\"{height}\" r=\"{HOVER}\" fill-opacity=\"0\">\
                 <title>{words}</title></circle>\n"
            );
        }
    }

    /// The names of curves and limits at their right ends, pushed apart.
    fn draw_names(&self) -> Drawn {
        let Drawing { chart, root, x, y, .. } = self;
        let (right, top) = self.at(x.high, y.high);
        let (_, bottom) = self.at(x.high, y.low);
        let mut names: Vec<_> = labelled(chart)
            .filter_map(|(series, tint)| {
                let end = series.points.last()?;
                Some((self.at(x.place(end.0), y.place(end.1)), tint, series))
            })
            .collect();
        names.sort_by_key(|((_, y), ..)| *y);
        let mut heights: Vec<i32> = names.iter().map(|((_, y), ..)| *y).collect();
        spread(&mut heights, top, bottom);
        for (((end_x, end_y), tint, series), height) in names.into_iter().zip(heights) {
            let lead = vec![(end_x + 10, end_y), (right + 4, height), (right + 14, height)];
            root.draw(&PathElement::new(lead, tint.mix(0.5).stroke_width(2)))?;
            let name = shorten(&clean(&series.name), NAME_MAX);
            let style = text_style(tint, HPos::Left, VPos::Center);
            root.draw_text(&name, &style, (right + 22, height))?;
        }
        Ok(())
    }

    /// The names of all series below the plot, each behind its line or marker.
    fn draw_list(&self) -> Drawn {
        for (line, (series, index, tint)) in (0i32..).zip(tints(self.chart)) {
            let height = SIZE.1 as i32 + 24 + LINE * line;
            let is_line = matches!(series.kind, SeriesKind::Curve | SeriesKind::Limit);
            if is_line {
                let sample = vec![(16, height), (64, height)];
                self.root.draw(&PathElement::new(sample, tint.stroke_width(4)))?;
            }
            if series.kind != SeriesKind::Limit {
                let shape = marker(index, 12, (40, height));
                self.root.draw(&Polygon::new(shape, tint.filled()))?;
            }
            let style = text_style(tint, HPos::Left, VPos::Center);
            let name = shorten(&clean(&series.name), NAME_MAX);
            self.root.draw_text(&name, &style, (80, height))?;
        }
        Ok(())
    }

    /// The names of series without ends, in a corner.
    fn draw_key(&self) -> Drawn {
        let Drawing { chart, root, x, y, .. } = self;
        let points: Vec<_> =
            tints(chart).into_iter().filter(|(series, ..)| is_in_key(series.kind)).collect();
        let names: Vec<String> =
            points.iter().map(|(series, ..)| shorten(&clean(&series.name), NAME_MAX)).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as i32;
        let ((left, top), (right, bottom)) = (self.at(x.low, y.high), self.at(x.high, y.low));
        let size = (60 + longest * 15, 28 + LINE * names.len() as i32);
        let place = |(a, b): &(f64, f64)| self.at(x.place(*a), y.place(*b));
        let drawn = chart.series.iter().filter(|series| series.kind != SeriesKind::Region);
        let curves: Vec<Vec<(i32, i32)>> =
            drawn.map(|series| series.points.iter().map(place).collect()).collect();
        let Frame { right, bottom, .. } =
            key::frame(Frame { left, top, right, bottom }, size, &curves);
        for (line, ((_, index, tint), name)) in points.iter().zip(&names).rev().enumerate() {
            let height = bottom - 28 - LINE * line as i32;
            root.draw(&Polygon::new(marker(*index, 12, (right - 24, height)), tint.filled()))?;
            let style = text_style(*tint, HPos::Right, VPos::Center);
            root.draw_text(name, &style, (right - 44, height))?;
        }
        Ok(())
    }
}

/// An axis made linear: positions are logarithms where the scale is.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Span {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Span {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        match axis.scale {
            Scale::Linear if axis.quantity == Quantity::Count => {
                let steps =
                    (0..9).flat_map(|power| [1.0, 2.0, 5.0].map(|of| of * 10f64.powi(power)));
                let step = { steps }.find(|step| (high - low) / step <= 8.0).unwrap_or(high - low);
                let (first, last) = ((low / step).ceil() as i32, (high / step).floor() as i32);
                let ticks = (first..=last).map(|n| f64::from(n) * step).collect();
                let edge = ((high - low) * 0.06).max(0.1);
                Span { scale: Scale::Linear, low: low - edge, high: high + edge, ticks }
            }
            Scale::Linear => {
                let high = if high > 0.0 { high } else { 1.0 };
                let ticks = even_ticks(high);
                Span { scale: Scale::Linear, low: 0.0, high: high * 1.08, ticks }
            }
            Scale::Logarithmic => {
                let (low, high) = (low.max(f64::MIN_POSITIVE).log2(), high.max(1e-300).log2());
                let edge = ((high - low) * 0.04).max(0.2);
                let (low, high) = (low - edge, high + edge);
                let ticks = match axis.quantity {
                    Quantity::Size => binary_ticks(low, high),
                    // Ratios near one: steps of percents, not of decades.
                    Quantity::Ratio if high - low < 1.5 => near_ticks(low, high),
                    _ => decimal_ticks(low, high),
                };
                Span { scale: Scale::Logarithmic, low, high, ticks }
            }
        }
    }

    /// From a value to its position.
    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log2(),
        }
    }

    /// From a position to its value.
    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear => place,
            Scale::Logarithmic => place.exp2(),
        }
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&self.place(value))
    }
}

/// A value in the digits of an axis: as few as it needs.
pub fn label(quantity: Quantity, value: f64) -> String {
    let text = match quantity {
        Quantity::Size => return Bytes(value.round().max(0.0) as u64).to_string(),
        Quantity::Time => Seconds(value).to_string(),
        Quantity::Bandwidth => BytesPerSecond(value).to_string(),
        Quantity::Throughput => FlopsPerSecond(value).to_string(),
        Quantity::Clock => Megahertz(value).to_string(),
        Quantity::Power => Watts(value).to_string(),
        Quantity::Temperature => Celsius(value).to_string(),
        Quantity::Count => return format!("{value:.0}"),
        Quantity::Number => {
            let places = (1 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 9);
            let text = format!("{value:.*}", places as usize);
            let is_whole = !text.contains('.');
            return match is_whole {
                true => text,
                false => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            };
        }
        Quantity::Ratio => return format!("{value:.2}x"),
        Quantity::Intensity if value < 1.0 => return format!("1/{:.0}", 1.0 / value),
        Quantity::Intensity if value >= 1e4 => return format!("{:.0}k", value / 1e3),
        Quantity::Intensity => return format!("{value:.0}"),
    };
    if value == 0.0 {
        return "0".into();
    }
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

/// Limits are grey; the rest take colours, dashes and markers in turn.
fn tints(chart: &Chart) -> Vec<(&Series, usize, RGBColor)> {
    let mut next = 0;
    chart
        .series
        .iter()
        .map(|series| match series.kind {
            SeriesKind::Limit => (series, 0, MUTED),
            SeriesKind::Faint => (series, 0, MUTED),
            SeriesKind::Region => (series, 1, PALETTE[2]),
            SeriesKind::Curve | SeriesKind::Points => {
                next += 1;
                (series, next - 1, PALETTE[(next - 1) % PALETTE.len()])
            }
        })
        .collect()
}

/// Half of the width of a text in the picture, by its number of characters.
fn half_width(text: &str) -> i32 {
    text.chars().count() as i32 * 15 / 2
}

pub(super) fn text_style(colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    let mut style = TextStyle::from((FONT, TEXT).into_font()).pos(Pos::new(h, v));
    style.color = colour.to_backend_color();
    style
}

/// Series whose end carries their name.
fn labelled(chart: &Chart) -> impl Iterator<Item = (&Series, RGBColor)> {
    tints(chart)
        .into_iter()
        .filter(|(series, ..)| matches!(series.kind, SeriesKind::Curve | SeriesKind::Limit))
        .map(|(series, _, tint)| (series, tint))
}

/// The id of a point's case, whole.
fn named(case: &PlottedCase) -> String {
    escape(&shorten(&clean(&case.id), ID_MAX))
}

/// What is said of a case's point beside its value: its share, and where it is on an axis of a
/// quantity.
fn beside(chart: &Chart, case: &PlottedCase, at: &str) -> String {
    let share = case.share.map(|share| format!(", {} of its ceiling", cell::percent(share)));
    let at = match chart.x.quantity {
        Quantity::Count => String::new(),
        _ => format!(", at {at} {}", escape(&clean(&chart.x.title))),
    };
    share.unwrap_or_default() + &at
}

/// Text between tags of a picture.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The corners of a marker: disc, square, diamond, and triangles up and down. Later ones are
/// smaller, so that where curves are equal the earlier ones show around them.
fn marker(index: usize, size: i32, (x, y): (i32, i32)) -> Vec<(i32, i32)> {
    let shape: &[(i32, i32)] = match index % 5 {
        0 => &[(-8, -3), (-3, -8), (3, -8), (8, -3), (8, 3), (3, 8), (-3, 8), (-8, 3)],
        1 => &[(-7, -7), (7, -7), (7, 7), (-7, 7)],
        2 => &[(0, -10), (10, 0), (0, 10), (-10, 0)],
        3 => &[(0, -9), (9, 7), (-9, 7)],
        _ => &[(0, 9), (9, -7), (-9, -7)],
    };
    let size = size - (index as i32).min(size / 2);
    shape.iter().map(|(dx, dy)| (x + dx * size / 10, y + dy * size / 10)).collect()
}

/// Moves ascending heights a line apart, within the plot where there is room.
fn spread(heights: &mut [i32], top: i32, bottom: i32) {
    let mut least = top;
    for height in heights.iter_mut() {
        *height = (*height).max(least);
        least = *height + LINE;
    }
    let mut most = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - LINE;
    }
}

/// Whether a series has no end that could carry its name.
fn is_in_key(kind: SeriesKind) -> bool {
    matches!(kind, SeriesKind::Points | SeriesKind::Faint | SeriesKind::Region)
}

#[cfg(test)]
mod tests;
