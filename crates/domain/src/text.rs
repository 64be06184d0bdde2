//! Text from outside (records, suites, drivers, other ranks) made safe to show.
//!
//! A character that is invisible, or that changes how its neighbours are shown, can make a reader
//! see something other than what is written. Every format and every message goes through [`clean`];
//! JSON keeps all data and escapes such characters ([`escaped`]).

/// Characters without a shape of their own, besides the control characters (Cc): those with the
/// property Default_Ignorable_Code_Point or the general category Cf, Zl or Zp.
/// Source: DerivedCoreProperties.txt and UnicodeData.txt of Unicode 16.0.
const HIDDEN: [(char, char); 25] = [
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{600}', '\u{605}'),
    ('\u{61C}', '\u{61C}'),
    ('\u{6DD}', '\u{6DD}'),
    ('\u{70F}', '\u{70F}'),
    ('\u{890}', '\u{891}'),
    ('\u{8E2}', '\u{8E2}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{200B}', '\u{200F}'),
    ('\u{2028}', '\u{202E}'),
    ('\u{2060}', '\u{206F}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FE00}', '\u{FE0F}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF0}', '\u{FFFB}'),
    ('\u{110BD}', '\u{110BD}'),
    ('\u{110CD}', '\u{110CD}'),
    ('\u{13430}', '\u{1343F}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{1D173}', '\u{1D17A}'),
    ('\u{E0000}', '\u{E0FFF}'),
];

/// Whether a reader cannot see a character, or it acts on a terminal or on its neighbours: control
/// characters, bidirectional controls, zero-width characters, tags, fillers.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Text that no reader acts upon: line breaks and tabs become spaces, all other hidden characters
/// U+FFFD.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if !c.is_ascii_graphic() && is_hidden(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// Cleans each line of a text of our own that quotes others', and keeps its line breaks. Of more
/// than 200 lines, or of very long lines, the rest is left out.
pub fn clean_lines(text: &str) -> String {
    let lines = text.lines().take(LINES_MAX);
    let lines: Vec<String> = lines.map(|line| shorten(&clean(line), COLUMNS_MAX)).collect();
    lines.join("\n")
}

/// No message has more lines.
const LINES_MAX: usize = 200;

/// No line of a message is longer, in characters.
const COLUMNS_MAX: usize = 4000;

/// Characters of a line of a verdict: more than any of our own has, and an end to what a stranger's
/// words can fill.
pub const VERDICT_LINE_MAX: usize = 2000;

/// JSON in which hidden characters are written as `\uXXXX`: the same data, and nothing for a
/// terminal or an editor to act upon. `json` is JSON already, so that such characters stand in
/// strings alone; line breaks between its tokens stay.
pub fn escaped(json: String) -> String {
    use std::fmt::Write as _;
    let is_to_escape = |c: char| c != '\n' && !c.is_ascii_graphic() && is_hidden(c);
    if !json.chars().any(is_to_escape) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if !is_to_escape(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A string takes all that is written.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Bytes of memory that parsing JSON into values takes at most, estimated from above: a short text
/// can hold many small objects, each of which takes a block of memory of its own.
pub fn json_memory(json: &[u8]) -> u64 {
    /// Measured with serde_json: an object with a field, a list with a value, a value in a list.
    const OBJECT: u64 = 704;
    const LIST: u64 = 160;
    const VALUE: u64 = 64;
    let weight = |&byte: &u8| match byte {
        b'{' => OBJECT,
        b'[' => LIST,
        b',' => VALUE,
        _ => 1,
    };
    json.iter().map(weight).sum()
}

/// Clean text that a spreadsheet shows and does not run: what begins as a formula (`=`, `+`, `-`,
/// `@`, or their fullwidth forms) is led by an apostrophe.
pub fn for_spreadsheets(text: &str) -> String {
    const STARTS: [char; 8] = ['=', '+', '-', '@', '\u{FF1D}', '\u{FF0B}', '\u{FF0D}', '\u{FF20}'];
    // Spreadsheets pass over what cannot be seen at the beginning, and take a tab for one too.
    let is_passed_over = |c: char| c.is_whitespace() || is_hidden(c);
    let cleaned = clean(text);
    let runs = text.starts_with(['\t', '\r'])
        || text.trim_start_matches(is_passed_over).starts_with(STARTS);
    if runs { format!("'{cleaned}") } else { cleaned }
}

/// A word as a shell takes it.
pub fn for_shells(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Clean text as it stands within an attribute of XML.
pub fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
    out
}

/// A count and what is counted: `1 case`, `2 cases`. The word is one whose plural ends in s.
pub fn counted(count: usize, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {word}{ending}")
}

/// The form of a verb or a pronoun that agrees with a count: `agreed(1, "is", "are")`.
pub fn agreed<'w>(count: usize, one: &'w str, many: &'w str) -> &'w str {
    if count == 1 { one } else { many }
}

/// At most `limit` characters, the last an ellipsis where something was cut.
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.into(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// Text for a window: lines are broken between words so that none is longer than `width` columns,
/// where there is a width and a word does not exceed it; lines after the first begin with `indent`
/// spaces, and `indent` columns of the first are taken already.
pub fn wrap(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = word.chars().count();
        let is_first = wrapped.is_empty();
        if !is_first && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if !is_first {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

/// Characters that stay of a shortened id's beginning, where there is room: enough to tell
/// operations apart.
const ID_START: usize = 12;

/// A case's id in at most `limit` characters. What is left out is in the middle, so that the last
/// two parts, shape and kernel, stay as far as they fit.
pub fn shorten_id(id: &str, limit: usize) -> String {
    let all: Vec<char> = id.chars().collect();
    if all.len() <= limit {
        return id.to_owned();
    }
    let room = limit.saturating_sub(1);
    let shape = id.rmatch_indices('/').nth(1).map_or(id, |(at, _)| &id[at..]).chars().count();
    let end = shape.min(room - ID_START.min(room / 2));
    let start = &all[..room - end];
    start.iter().chain(&['\u{2026}']).chain(&all[all.len() - end..]).collect()
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_agree_with_their_count() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "case")), ["0 cases", "1 case", "2 cases"]);
        assert_eq!([0, 1, 2].map(|count| agreed(count, "is", "are")), ["are", "is", "are"]);
    }

    #[test]
    fn ids_keep_their_shape_and_kernel() {
        let id = "attention/prefill/bf16/b1-h8-kv2-q512-k512-d128x128-causal/avx512";
        assert_eq!(shorten_id(id, 65), id);
        let short = "attention/pref\u{2026}/b1-h8-kv2-q512-k512-d128x128-causal/avx512";
        assert_eq!(shorten_id(id, 58), short);
        assert_eq!(shorten_id(id, 36), "attention/pr\u{2026}-d128x128-causal/avx512");
        for limit in 0..66 {
            assert!(shorten_id(id, limit).chars().count() <= limit.max(1), "{limit}");
        }
        assert_eq!(shorten_id("\u{b5}\u{b5}/\u{b5}\u{b5}\u{b5}", 4), "\u{b5}\u{2026}\u{b5}\u{b5}");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("a few words more", Some(10), 2), "a few\n  words\n  more");
        assert_eq!(wrap("a few words more", None, 2), "a few words more");
        assert_eq!(wrap("unbreakable", Some(5), 2), "unbreakable");
    }

    #[test]
    fn nothing_hidden_is_left() {
        let cleaned = clean("a\x1b[31mb\u{202E}c\u{200B}d\ne\x7ff\u{9b}g");
        assert_eq!(cleaned, "a\u{FFFD}[31mb\u{FFFD}c\u{FFFD}d e\u{FFFD}f\u{FFFD}g");
        assert_eq!(clean("naïve µs 三"), "naïve µs 三");
        for c in "\u{AD}\u{34F}\u{180E}\u{3164}\u{115F}\u{FFA0}\u{E0041}\u{2066}\u{FE0F}".chars() {
            assert_eq!(clean(&c.to_string()), "\u{FFFD}", "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn json_keeps_what_is_hidden_as_escapes() {
        let value = serde_json::json!({
            "a\u{9b}": "b\u{202e}\u{e0041}\u{1b}\u{7f}\u{ad}三",
            "list": [1, "\n"]
        });
        let text = escaped(format!("{value:#}"));
        assert!(text.contains("\\udb40\\udc41") && text.contains("\\u009b"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn formulas_are_text() {
        for formula in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "  =1",
            "\n\t@x",
            "\u{FF1D}1+1",
            "\u{FF0B}1",
            "\u{FF0D}1",
            "\u{FF20}x",
            "\u{AD}=1",
            "\u{202E}\u{3000}=1",
            "\u{FEFF}+1",
        ] {
            assert!(for_spreadsheets(formula).starts_with('\''), "{formula:?}");
        }
        assert_eq!(for_spreadsheets("gemm/f32"), "gemm/f32");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("µµµ", 3), "µµµ");
        assert_eq!(shorten("µµµµ", 3), "µµ\u{2026}");
    }

    #[test]
    fn messages_have_an_end() {
        let long = "x".repeat(10_000) + &"\ny".repeat(10_000);
        let said = clean_lines(&long);
        assert!(said.lines().count() == LINES_MAX && said.len() < 10_000, "{}", said.len());
    }

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        let all = ["stream/read", "gemm/*", "!x", "it's", ""].map(for_shells);
        assert_eq!(all, ["stream/read", "'gemm/*'", "'!x'", "'it'\\''s'", "''"]);
    }
}
