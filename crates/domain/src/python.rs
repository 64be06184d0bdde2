//! JSON as Python's `json.dumps` writes it: with `NaN`, `Infinity` and `-Infinity`, which JSON does
//! not have.

use std::borrow::Cow;

/// The words, and what stands for them: a text for infinity, which some clients write for a rate
/// without a limit, and nothing for what is no number.
const WORDS: [(&str, &str); 3] = [("-Infinity", "null"), ("Infinity", "\"inf\""), ("NaN", "null")];

/// The text as JSON. Borrowed where it has none of Python's words outside of strings.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped, mut kept) = (false, false, 0);
    let mut at = 0;
    while at < text.len() {
        let byte = text.as_bytes()[at];
        let word = WORDS.iter().find(|(word, _)| !is_string && text[at..].starts_with(word));
        if let Some((word, instead)) = word {
            written += &text[kept..at];
            written += instead;
            at += word.len();
            kept = at;
            continue;
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ => {}
        }
        // Words begin with a byte of ASCII: between those of a longer character there is none.
        at += 1;
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    match kept {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(written + &text[kept..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_words_become_json_and_strings_stay() {
        for (text, json_text) in [
            (r#"{"a": NaN, "b": [Infinity,-Infinity]}"#, r#"{"a": null, "b": ["inf",null]}"#),
            (r#"{"NaN": "Infinity \" NaN", "b": 1}"#, r#"{"NaN": "Infinity \" NaN", "b": 1}"#),
            (r#"["é\\", NaN]"#, r#"["é\\", null]"#),
            ("NaN", "null"),
        ] {
            assert_eq!(json(text), json_text);
            assert!(serde_json::from_str::<serde_json::Value>(&json(text)).is_ok(), "{text}");
        }
        assert!(matches!(json("{\"a\": \"NaN\"}"), Cow::Borrowed(_)));
    }
}
