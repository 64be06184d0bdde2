//! A cell in digits, for people and for machines.

use crate::Cell;
use fizeau_domain::{
    number::{brief, is_long},
    spec::STUB,
};
use serde_json::{Number, Value};

/// For people: few digits, with a unit. Not yet [clean](super::clean). What is no number is shown
/// as what is not there.
pub fn text(cell: &Cell) -> String {
    if number(cell).is_some_and(|number| !number.is_finite()) {
        return text(&Cell::Absent);
    }
    match cell {
        Cell::Text(text) | Cell::Code(text) => text.clone(),
        Cell::Bandwidth(rate) => rate.to_string(),
        Cell::Throughput(rate) => rate.to_string(),
        Cell::Time(time) => time.to_string(),
        Cell::Size(size) => size.to_string(),
        Cell::Share(share) => percent(*share),
        Cell::StubShare(share) => format!("{} ({STUB})", percent(*share)),
        Cell::Ratio(ratio) | Cell::Relative { value: ratio, is_stub: false } => {
            format!("{}x", thousandths(*ratio))
        }
        Cell::Relative { value, is_stub: true } => format!("{}x ({STUB})", thousandths(*value)),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number, "") => digits(*number),
        Cell::Number(number, unit) => format!("{} {unit}", digits(*number)),
        Cell::Span(from, to) => bar(*from, *to),
        Cell::Absent => "\u{2013}".into(),
    }
}

/// Characters of the widest bar.
const BAR: f64 = 28.0;

/// A bar between two shares of its column: one character at least.
fn bar(from: f64, to: f64) -> String {
    let place = |share: f64| (share.clamp(0.0, 1.0) * BAR).round() as usize;
    let (first, last) = (place(from), place(to));
    let first = first.min(BAR as usize - 1);
    format!("{}{}", "\u{b7}".repeat(first), "\u{2588}".repeat(last.saturating_sub(first).max(1)))
}

/// Three places after the point.
fn thousandths(number: f64) -> String {
    if number.abs() >= 1e6 { brief(number) } else { format!("{number:.3}") }
}

/// Four significant digits.
fn digits(number: f64) -> String {
    if is_long(number) {
        return brief(number);
    }
    let magnitude = if number == 0.0 { 0 } else { number.abs().log10().floor() as i32 };
    format!("{number:.*}", (3 - magnitude).clamp(0, 6) as usize)
}

/// A share with one place after the point, two below one percent.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 1e6 {
        return format!("{} %", brief(percent));
    }
    if percent.abs() < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// Whether it is set at the right, so that digits stand under each other.
pub fn is_number(cell: &Cell) -> bool {
    !matches!(cell, Cell::Text(_) | Cell::Code(_) | Cell::Span(..))
}

/// Whether a number is a stub's, and is marked so wherever it stands.
pub fn is_stub(cell: &Cell) -> bool {
    matches!(cell, Cell::Relative { is_stub: true, .. } | Cell::StubShare(_))
}

/// For machines: SI units, all digits. What JSON cannot say is null.
pub fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) | Cell::Code(text) => Value::String(text.clone()),
        Cell::Count(count) => Value::from(*count),
        Cell::Size(size) => Value::from(size.0),
        Cell::Span(from, to) => Value::from(vec![*from, *to]),
        _ => number(cell).and_then(Number::from_f64).map_or(Value::Null, Value::Number),
    }
}

/// In SI units; none for words.
pub fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Bandwidth(rate) => Some(rate.0),
        Cell::Throughput(rate) => Some(rate.0),
        Cell::Time(time) => Some(time.0),
        Cell::Size(size) => Some(size.0 as f64),
        Cell::Share(number)
        | Cell::StubShare(number)
        | Cell::Ratio(number)
        | Cell::Relative { value: number, .. } => Some(*number),
        Cell::Count(count) => Some(*count as f64),
        Cell::Number(number, _) => Some(*number),
        Cell::Text(_) | Cell::Code(_) | Cell::Span(..) | Cell::Absent => None,
    }
}

/// The SI unit of a cell's [`value`]; none where it has none.
pub fn unit(cell: &Cell) -> Option<&'static str> {
    match cell {
        Cell::Bandwidth(_) => Some("B/s"),
        Cell::Throughput(_) => Some("FLOP/s"),
        Cell::Time(_) => Some("s"),
        Cell::Size(_) => Some("B"),
        Cell::Number(_, "") => None,
        Cell::Number(_, unit) => Some(unit),
        _ => None,
    }
}
