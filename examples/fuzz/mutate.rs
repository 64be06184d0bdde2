//! What makes strange inputs of usual ones.

use oorandom::Rand64;
use serde_json::{Map, Value, json};

/// A source of choices, from a seed and the number of an input.
pub struct Chance(Rand64);

impl Chance {
    pub fn new(seed: u64, number: u64) -> Chance {
        Chance(Rand64::new(u128::from(seed) << 64 | u128::from(number)))
    }

    /// A whole number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.0.rand_range(0..end as u64) as usize }
    }

    /// Whether one of `of` comes about.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// Numbers at the edges of types and limits.
const NUMBERS: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "8",
    "16",
    "63",
    "64",
    "255",
    "256",
    "1023",
    "1024",
    "2047",
    "2048",
    "4095",
    "4096",
    "65535",
    "65536",
    "1048575",
    "1048576",
    "1048577",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740993",
    "1099511627776",
    "1125899906842624",
    "1125899906842625",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "1e-9",
    "1e-300",
    "5e-324",
    "1e9",
    "999999999.0",
    "1e18",
    "1e300",
    "1.7976931348623157e308",
    "-1e308",
];

/// Texts that readers and terminals act upon.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\u{1b}[2J",
    "\u{9b}31m",
    "\u{202e}",
    "\u{ad}\u{e0041}",
    "\u{feff}",
    "\u{3164}",
    "=1+1",
    "\u{ff1d}1",
    "<script>",
    "a/b/c",
    "../../etc/passwd",
    "\0",
    "\n",
    "{{7*7}}",
    "%s%n",
    "nan",
    "inf",
    "stub",
    "null",
    "rank 0: a, b (c)",
    "2026-02-30T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "sm_90a",
    "avx512",
    "all_reduce",
    "\u{1f600}",
    "\u{fffd}",
    "x",
];

fn number(chance: &mut Chance) -> Value {
    let text = *chance.pick(NUMBERS);
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn any(chance: &mut Chance) -> Value {
    match chance.below(8) {
        0 => Value::Null,
        1 => json!(chance.one_in(2)),
        2 => json!([]),
        3 => json!({}),
        4 => json!(chance.pick(TEXTS)),
        5 => json!("x".repeat(chance.below(2000))),
        _ => number(chance),
    }
}

/// How many values are in a value, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// The value of a number, counted as [`size`] does.
fn nth(value: &mut Value, mut left: usize) -> Option<&mut Value> {
    if left == 0 {
        return Some(value);
    }
    left -= 1;
    let below: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return None,
    };
    for inner in below {
        let size = size(inner);
        if left < size {
            return nth(inner, left);
        }
        left -= size;
    }
    None
}

/// Changes one thing somewhere in a JSON value.
pub fn change(value: &mut Value, chance: &mut Chance) {
    let place = chance.below(size(value));
    let Some(place) = nth(value, place) else { return };
    match place {
        // Most often a number stays a number, so that more is read than refused.
        Value::Number(_) if !chance.one_in(8) => *place = number(chance),
        Value::String(text) if !chance.one_in(4) => match chance.below(3) {
            0 => *text = (*chance.pick(TEXTS)).to_owned(),
            1 => text.insert_str(0, chance.pick::<&str>(TEXTS)),
            _ => text.push_str(chance.pick::<&str>(TEXTS)),
        },
        Value::Array(items) if !items.is_empty() => change_list(items, chance),
        Value::Object(fields) if !fields.is_empty() => change_fields(fields, chance),
        place => *place = any(chance),
    }
}

fn change_list(items: &mut Vec<Value>, chance: &mut Chance) {
    let at = chance.below(items.len());
    match chance.below(4) {
        0 => drop(items.remove(at)),
        1 => items.truncate(at),
        2 => {
            let again = items[at].clone();
            let times = 1 + chance.below(20);
            items.splice(at..at, std::iter::repeat_n(again, times));
        }
        _ => items[at] = any(chance),
    }
}

fn change_fields(fields: &mut Map<String, Value>, chance: &mut Chance) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = chance.pick(&names).clone();
    match chance.below(4) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert((*chance.pick(TEXTS)).to_owned(), any(chance))),
        2 => {
            let other = chance.pick(&names).clone();
            let value = fields[&other].clone();
            fields.insert(name, value);
        }
        _ => drop(fields.insert(name, any(chance))),
    }
}

/// Changes some numbers of a case's point, most of them within what is allowed.
pub fn change_point(point: &mut Value, chance: &mut Chance) {
    let Some(fields) = point.as_object_mut() else { return };
    let names: Vec<String> =
        fields.iter().filter(|(_, of)| of.is_number()).map(|(name, _)| name.clone()).collect();
    for _ in 0..1 + chance.below(3) {
        if names.is_empty() {
            return;
        }
        let name = chance.pick(&names).clone();
        let new = match chance.below(4) {
            0 => number(chance),
            _ => json!(1u64 << chance.below(21)),
        };
        fields.insert(name, new);
    }
}

/// Changes bytes of a text: some are flipped, cut out, doubled or put in.
pub fn change_bytes(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..1 + chance.below(6) {
        let at = chance.below(bytes.len() + 1);
        let length = chance.below(16).min(bytes.len() - at.min(bytes.len()));
        match chance.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            1 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            2 => drop(bytes.drain(at..at + length)),
            3 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.splice(at..at, chance.pick(TEXTS).bytes().collect::<Vec<_>>())),
            _ => drop(bytes.splice(at..at, chance.pick(NUMBERS).bytes().collect::<Vec<_>>())),
        }
    }
}

/// Changes lines of a text: numbers become others, lines go, come twice or from another text.
pub fn change_lines(text: &str, other: &str, chance: &mut Chance) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + chance.below(4) {
        if lines.is_empty() {
            break;
        }
        let at = chance.below(lines.len());
        match chance.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let others: Vec<&str> = other.lines().collect();
                if !others.is_empty() {
                    lines.insert(at, (*chance.pick(&others)).to_owned());
                }
            }
            3 => {
                if let Some((name, _)) = lines[at].split_once('=') {
                    let value = *chance.pick(&["nan", "inf", "-inf", "[]", "{}", "true", "\"x\""]);
                    lines[at] = format!("{name}= {value}");
                }
            }
            _ => lines[at] = with_number(&lines[at], chance),
        }
    }
    lines.join("\n") + "\n"
}

/// A line in which one number is another.
fn with_number(line: &str, chance: &mut Chance) -> String {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let starts: Vec<usize> = line
        .char_indices()
        .filter(|&(at, c)| c.is_ascii_digit() && !line[..at].ends_with(is_digit))
        .map(|(at, _)| at)
        .collect();
    if starts.is_empty() {
        return line.to_owned();
    }
    let start = *chance.pick(&starts);
    let end = line[start..].find(|c| !is_digit(c)).map_or(line.len(), |length| start + length);
    let new = if chance.one_in(2) { "0" } else { *chance.pick(NUMBERS) };
    format!("{}{new}{}", &line[..start], &line[end..])
}
