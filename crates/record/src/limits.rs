//! The limits that a version's schema states, checked on each line as it is read: what validators
//! refuse by the published schema, the reader refuses too, and says where it stands. Types and
//! names are left to the wire types.

use fizeau_domain::text::shorten;
use serde_json::{Map, Value};

/// What is wrong with a file of another kind.
const NO_HEADER: &str = "it does not begin with the header of a record (name the directory of a \
                         run, or the record.jsonl in it)";

/// Why a line is refused, by its number. What the first line lacks is what a file of another kind
/// lacks.
pub(super) fn refusal(number: usize, error: &serde_json::Error) -> String {
    let why = error.to_string();
    let is_other = error.is_syntax() || error.is_eof() || why.starts_with("missing field `line`");
    if number == 1 && is_other { NO_HEADER.into() } else { why }
}

/// Why a text without a header is no record.
pub(super) fn without_header(text: &[u8]) -> &'static str {
    if text.is_empty() { "it is empty" } else { NO_HEADER }
}

/// What of a line is beyond a limit of its schema, and where; none where nothing is.
pub(super) fn fault(schema: &Value, line: &Value) -> Option<String> {
    let Fault { place, why } = Limits { schema }.fault(schema, line)?;
    Some(format!("{}: {why}", place.trim_start_matches('.')))
}

struct Limits<'s> {
    /// The whole schema, which references are into.
    schema: &'s Value,
}

/// What is beyond a limit.
struct Fault {
    /// From the value that was looked at: `.summary.min`, `.times[3]`.
    place: String,
    why: String,
}

impl Fault {
    fn here(why: String) -> Fault {
        Fault { place: String::new(), why }
    }

    /// The same as seen from one level above. Made only where there is a fault: most lines have
    /// none, and many values.
    fn below(self, step: impl std::fmt::Display) -> Fault {
        Fault { place: format!("{step}{}", self.place), ..self }
    }
}

impl Limits<'_> {
    /// The definition that a reference names, where schemars puts them. By hand: `Value::pointer`
    /// makes new texts of each part, and most values of a line are behind a reference.
    fn named(&self, path: &str) -> Option<&Value> {
        self.schema.get("$defs")?.get(path.strip_prefix("#/$defs/")?)
    }

    fn fault(&self, schema: &Value, value: &Value) -> Option<Fault> {
        if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
            let fault = self.named(path).and_then(|named| self.fault(named, value));
            if fault.is_some() {
                return fault;
            }
        }
        if let Some(choices) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array)
        {
            // Right if it is right as any of those that it may be.
            let mut faults = choices
                .iter()
                .filter(|choice| may_be(choice, value))
                .map(|choice| self.fault(choice, value));
            let first = faults.next().flatten();
            if first.is_some() && faults.all(|fault| fault.is_some()) {
                return first;
            }
        }
        match value {
            Value::Object(fields) => self.of_fields(schema, fields),
            Value::Array(items) => {
                let most = schema.get("maxItems").and_then(Value::as_u64);
                if let Some(most) = most.filter(|most| items.len() as u64 > *most) {
                    return Some(Fault::here(format!("it has more than {most} items")));
                }
                let of_item = schema.get("items")?;
                let mut each = items.iter().enumerate();
                each.find_map(|(n, item)| {
                    Some(self.fault(of_item, item)?.below(format_args!("[{n}]")))
                })
            }
            _ => of_one(schema, value).map(|why| Fault::here(format!("{} {why}", short(value)))),
        }
    }

    fn of_fields(&self, schema: &Value, fields: &Map<String, Value>) -> Option<Fault> {
        let listed = schema.get("properties");
        let others = schema.get("additionalProperties");
        fields.iter().find_map(|(name, value)| {
            let schema = listed.and_then(|properties| properties.get(name)).or(others)?;
            Some(self.fault(schema, value)?.below(format_args!(".{}", shorten(name, NAME_SHOWN))))
        })
    }
}

/// Characters of a value or a field's name that an error shows.
const NAME_SHOWN: usize = 80;

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => Value::String(shorten(text, NAME_SHOWN)).to_string(),
        other => other.to_string(),
    }
}

/// Whether a value can be meant by one of several schemas: by its tag, if it has one.
fn may_be(schema: &Value, value: &Value) -> bool {
    if schema.get("type").is_some_and(|name| name == "null") {
        return value.is_null();
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().all(|(name, schema)| match schema.get("const") {
        Some(constant) => value.get(name) == Some(constant),
        None => true,
    })
}

/// What of a single value is beyond the limits of its own schema.
fn of_one(schema: &Value, value: &Value) -> Option<String> {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
            return Some(format!("is not {constant}"));
        }
        if let Some(least) = limit("minimum").filter(|least| number < *least) {
            return Some(format!("is less than {least}"));
        }
        let most = limit("maximum").filter(|most| number > *most);
        return most.map(|most| format!("is more than {most}"));
    }
    let is_date = schema.get("format").is_some_and(|format| format == "date-time");
    let text = value.as_str().filter(|_| is_date)?;
    (!is_moment(text))
        .then(|| "is no date with a time (RFC 3339, such as 2026-11-21T07:32:22Z)".to_owned())
}

/// Whether a text is a moment as RFC 3339 writes it: `2026-11-21T07:32:22.5Z`.
fn is_moment(text: &str) -> bool {
    moment(text).is_some()
}

fn moment(text: &str) -> Option<()> {
    let (date, time) = text.split_at_checked(10)?;
    let [year, month, day] = numbers(date, b'-', [4, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let (clock, rest) = time.strip_prefix('T')?.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock, b':', [2, 2, 2])?;
    // A leap second is the sixtieth.
    ((1..=days).contains(&day) && hour < 24 && minute < 60 && second <= 60).then_some(())?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            (zone.len() < fraction.len()).then_some(zone)?
        }
        None => rest,
    };
    if zone == "Z" {
        return Some(());
    }
    let [hours, minutes] = numbers(zone.strip_prefix(['+', '-'])?, b':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(())
}

/// Numbers of given lengths in digits, with a mark between them.
fn numbers<const N: usize>(text: &str, mark: u8, digits: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(char::from(mark));
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let whole = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = whole.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn moments_are_told_from_other_texts() {
        for right in [
            "2026-11-21T07:32:22Z",
            "2024-02-29T23:59:60Z",
            "2026-11-21T07:32:22.125Z",
            "2026-11-21T07:32:22+02:00",
        ] {
            assert!(is_moment(right), "{right}");
        }
        for wrong in [
            "",
            "yesterday",
            "2026-11-21",
            "2026-11-21 07:32:22Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T07:32:22",
            "2026-11-21T07:32:22.Z",
            "2026-11-21T07:32:22Z ",
            "2026-11-21T07:32:+2Z",
            "2026-11-2\u{e9}T07:32:22Z",
        ] {
            assert!(!is_moment(wrong), "{wrong}");
        }
    }

    #[test]
    fn limits_hold_wherever_a_schema_has_them() {
        let schema = json!({
            "$defs": { "Time": { "type": "number", "minimum": 0.0 } },
            "oneOf": [
                { "properties": {
                    "line": { "const": "one" },
                    "times": { "type": "array", "items": { "$ref": "#/$defs/Time" } },
                    "share": { "anyOf": [{ "type": "number", "maximum": 1.0 }, { "type": "null" }] }
                } },
                { "properties": { "line": { "const": "other" }, "times": { "minimum": 7 } } }
            ]
        });
        let fault = |value| fault(&schema, &value);
        assert_eq!(fault(json!({ "line": "one", "times": [0, 1.5], "share": null })), None);
        assert_eq!(fault(json!({ "line": "one", "new": -1 })), None);
        let negative = fault(json!({ "line": "one", "times": [1, -1] }));
        assert_eq!(negative.as_deref(), Some("times[1]: -1 is less than 0"));
        let more = fault(json!({ "line": "one", "share": 7 }));
        assert_eq!(more.as_deref(), Some("share: 7 is more than 1"));
        let other = fault(json!({ "line": "other", "times": 6.5 }));
        assert_eq!(other.as_deref(), Some("times: 6.5 is less than 7"));
    }
}
