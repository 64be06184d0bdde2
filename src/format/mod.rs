//! Documents to text: terminal, Markdown, HTML, CSV, JSON; charts to SVG and PNG.
//!
//! A record's strings come from drivers, files and other machines: every format neutralises what
//! its readers would act upon ([`clean`], and its own escapes).

pub mod cell;
pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod nccl_tests;
pub mod plot;
#[cfg(feature = "png")]
pub mod png;
pub mod terminal;

/// Text that no reader acts upon: control characters, and the characters that reorder or hide
/// text, are replaced by U+FFFD, line breaks by a space.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() || steers(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// Whether a character steers the ones around it: bidirectional marks, embeddings, overrides and
/// isolates, zero-width characters, line separators, and the invisible tags.
fn steers(c: char) -> bool {
    matches!(
        c,
        '\u{61C}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    )
}

/// At most `limit` characters, the last an ellipsis where something was cut.
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.into(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_left() {
        let cleaned = clean("a\x1b[31mb\u{202E}c\u{200B}d\ne\x7ff\u{9b}g");
        assert_eq!(cleaned, "a\u{FFFD}[31mb\u{FFFD}c\u{FFFD}d e\u{FFFD}f\u{FFFD}g");
        assert_eq!(clean("naïve µs 三"), "naïve µs 三");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("µµµ", 3), "µµµ");
        assert_eq!(shorten("µµµµ", 3), "µµ\u{2026}");
    }
}
