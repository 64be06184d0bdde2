//! JSON in which no field stands twice: of two values of one field, readers take the first, the
//! last or either, so that a file with both says nothing.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A value whose tables have each field once.
pub struct Once(pub Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Once, D::Error> {
        from.deserialize_any(Reader).map(Once)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value in JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Once(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = table.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("field {name} stands twice")));
            }
            let Once(value) = table.next_value()?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_stands_twice_is_refused_at_any_depth() {
        let text = r#"{"a": [1, -2, 0.5, null, true, "x", {"b": 1}], "b": {}}"#;
        let Once(read) = serde_json::from_str(text).expect("JSON");
        assert_eq!(read, serde_json::from_str::<Value>(text).expect("JSON"));
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"c": [{"a": 1, "b": 2, "a": 3}]}"#] {
            let error = serde_json::from_str::<Once>(text).err().expect("twice").to_string();
            assert!(error.contains("field a stands twice"), "{error}");
        }
    }
}
