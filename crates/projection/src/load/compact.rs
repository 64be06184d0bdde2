//! JSON of which the long lists of numbers take 8 bytes a number: results request by request have a
//! number for each token, and as `Value` each would take 32 bytes and more.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt};

/// Keys of an object whose values are lists of numbers, or lists of such lists.
const LISTS: [&str; 5] = ["input_lens", "output_lens", "ttfts", "itls", "start_times"];

/// Keys whose values nothing reads: the texts of all answers.
const UNREAD: [&str; 1] = ["generated_texts"];

/// A value of a file of results. In the place of a list that is set apart stands `null`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compact {
    /// All but the lists.
    pub value: Value,
    /// The lists of the object by their keys.
    pub lists: BTreeMap<String, List>,
    /// The elements, where the value is an array.
    pub items: Option<Vec<Compact>>,
}

/// What stands in the place of a list of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum List {
    /// A number; NaN where Python wrote one.
    Number(f64),
    /// Numbers.
    Numbers(Vec<f64>),
    /// Lists of numbers.
    Lists(Vec<Vec<f64>>),
    /// Something else.
    #[default]
    Other,
}

impl Compact {
    /// Takes the numbers of a list; none where there is none of that name, or it has others.
    pub fn take_numbers(&mut self, key: &str) -> Option<Vec<f64>> {
        match self.lists.remove(key)? {
            List::Numbers(numbers) => Some(numbers),
            List::Lists(lists) if lists.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }

    /// Takes the lists of numbers of a list.
    pub fn take_lists(&mut self, key: &str) -> Option<Vec<Vec<f64>>> {
        match self.lists.remove(key)? {
            List::Lists(lists) => Some(lists),
            List::Numbers(numbers) if numbers.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Compact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Compact, D::Error> {
        deserializer.deserialize_any(OfCompact)
    }
}

/// A value that is neither a list nor an object.
fn plain(value: Value) -> Compact {
    Compact { value, ..Compact::default() }
}

/// The same in a list of numbers.
fn number(value: Value) -> List {
    match &value {
        // What Python writes for a number that is none.
        Value::Null => List::Number(f64::NAN),
        Value::String(text) if text == "inf" => List::Number(f64::NAN),
        other => other.as_f64().map_or(List::Other, List::Number),
    }
}

struct OfCompact;

/// The visits of values that are neither lists nor objects.
macro_rules! scalars {
    ($made:expr) => {
        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok($made(Value::from(value)))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok($made(Value::from(value)))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok($made(Value::from(value)))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            Ok($made(Value::from(value)))
        }

        fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
            Ok($made(Value::from(value)))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($made(Value::Null))
        }
    };
}

impl<'de> Visitor<'de> for OfCompact {
    type Value = Compact;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    scalars!(plain);

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Compact, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = all.next_element()? {
            items.push(item);
        }
        Ok(Compact { items: Some(items), ..Compact::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Compact, A::Error> {
        let (mut map, mut lists) = (Map::new(), BTreeMap::new());
        while let Some(key) = all.next_key::<String>()? {
            let value = if LISTS.contains(&&*key) {
                lists.insert(key.clone(), all.next_value::<List>()?);
                Value::Null
            } else if UNREAD.contains(&&*key) {
                all.next_value::<IgnoredAny>()?;
                Value::Null
            } else {
                all.next_value()?
            };
            map.insert(key, value);
        }
        Ok(Compact { value: Value::Object(map), lists, items: None })
    }
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
        deserializer.deserialize_any(OfList)
    }
}

struct OfList;

impl<'de> Visitor<'de> for OfList {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    scalars!(number);

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<List, A::Error> {
        let (mut numbers, mut lists, mut is_other) = (Vec::new(), Vec::new(), false);
        while let Some(item) = all.next_element::<List>()? {
            match item {
                List::Number(number) => numbers.push(number),
                List::Numbers(numbers) => lists.push(numbers),
                _ => is_other = true,
            }
        }
        numbers.shrink_to_fit();
        Ok(match (numbers.is_empty(), lists.is_empty()) {
            _ if is_other => List::Other,
            (_, true) => List::Numbers(numbers),
            (true, false) => List::Lists(lists),
            (false, false) => List::Other,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<List, A::Error> {
        while all.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(List::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Compact, List};
    use serde_json::{Value, json};

    #[test]
    fn lists_of_numbers_are_set_apart_and_all_else_stays() {
        let text = r#"{"ttfts": [0.5, null, 2, -3, "inf"], "itls": [[0.1, 0.2], [], [3]],
            "input_lens": [1, "x"], "output_lens": {"a": [1]}, "start_times": [1, [2]],
            "generated_texts": ["long", "long"], "errors": ["", "late"], "a": {"ttfts": [1]}}"#;
        let mut read: Compact = serde_json::from_str(text).expect("JSON");
        let whole: Value = serde_json::from_str(text).expect("JSON");
        for key in ["errors", "a"] {
            assert_eq!(read.value[key], whole[key]);
        }
        for key in ["ttfts", "itls", "input_lens", "output_lens", "generated_texts"] {
            assert_eq!(read.value.get(key), Some(&Value::Null), "{key}");
        }
        let firsts = read.take_numbers("ttfts").expect("numbers");
        assert_eq!(firsts[0], 0.5);
        assert!(firsts[1].is_nan() && firsts[4].is_nan());
        assert_eq!(firsts[2..4], [2.0, -3.0]);
        assert_eq!(read.take_lists("itls"), Some(vec![vec![0.1, 0.2], vec![], vec![3.0]]));
        for key in ["input_lens", "output_lens", "start_times"] {
            assert_eq!(read.lists.remove(key), Some(List::Other), "{key}");
        }
    }

    #[test]
    fn what_is_no_object_is_kept() {
        for text in ["3", "true", "null", "\"a\"", "{}", "-2.5"] {
            let read: Compact = serde_json::from_str(text).expect("JSON");
            assert_eq!(read.value, serde_json::from_str::<Value>(text).expect("JSON"));
            assert!(read.items.is_none() && read.lists.is_empty());
        }
        let read: Compact = serde_json::from_str("[{\"ttfts\": []}, 3]").expect("JSON");
        let mut items = read.items.expect("an array");
        assert_eq!(items[0].take_numbers("ttfts"), Some(Vec::new()));
        assert_eq!(items[1].value, json!(3));
        assert!(serde_json::from_str::<Compact>("{\"itls\": [[1, 2]").is_err());
    }
}
