//! Keys of a bundle's documents that the program that closed it does not write: whoever reads the
//! file by other means would believe them, and nothing vouches for what they say.

use serde_json::Value;

/// The first key of a document that is not there when the same is written again, such as
/// `gpus[0].trust`.
pub fn added(document: &Value, again: &Value) -> Option<String> {
    match (document, again) {
        (Value::Object(document), Value::Object(again)) => {
            document.iter().find_map(|(key, value)| match again.get(key) {
                None => Some(key.clone()),
                Some(again) => added(value, again).map(|path| joined(key, &path)),
            })
        }
        (Value::Array(document), Value::Array(again)) => {
            let pairs = document.iter().zip(again).enumerate();
            let mut found = pairs.filter_map(|(at, (value, again))| {
                added(value, again).map(|path| joined(&format!("[{at}]"), &path))
            });
            found.next()
        }
        _ => None,
    }
}

fn joined(key: &str, path: &str) -> String {
    let point = if path.starts_with('[') { "" } else { "." };
    format!("{key}{point}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_key_that_was_added_is_named_with_its_place() {
        let again = json!({"gpus": [{"name": "cuda:0"}, {"name": "cuda:1"}], "host": "n1"});
        assert_eq!(added(&again, &again), None);
        let mut more = again.clone();
        more["gpus"][1]["trust"] = json!(true);
        assert_eq!(added(&more, &again).as_deref(), Some("gpus[1].trust"));
        let mut more = again.clone();
        more["approved"] = Value::Null;
        assert_eq!(added(&more, &again).as_deref(), Some("approved"));
        assert_eq!(added(&json!({}), &again), None, "what was left out is for others to find");
    }
}
