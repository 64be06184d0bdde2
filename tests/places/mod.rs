//! Where the numbers of a JSON value stand, for tests that change each of them.

use serde_json::Value;

/// The places of all numbers of a value as JSON pointers (RFC 6901), of lists those of the first
/// item.
pub fn places(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    collect(value, "", &mut all);
    all
}

fn collect(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Number(_) => all.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().take(1).for_each(|item| collect(item, &format!("{at}/0"), all));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, of)| {
            collect(of, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
        }),
        _ => {}
    }
}
