//! Selectors: globs over case ids, such as `gemm/bf16/*`.

use crate::{
    near::{also_called, nearest},
    text::{for_shells, shorten},
};
use globset::{Glob, GlobSet};
use std::collections::BTreeSet;

/// Which cases a run is about. Several are joined by "or"; one that starts with `!` excludes.
#[derive(Clone, Debug)]
pub struct Selector {
    wanted: Vec<Part>,
    unwanted: Vec<Part>,
}

/// One word of a selector, without its `!`.
#[derive(Clone, Debug)]
struct Part {
    text: String,
    matcher: GlobSet,
}

/// Longest selector, in bytes: some times as long as any id.
const LENGTH_MAX: usize = 4096;

/// Segments of ids that an error names.
const NEAREST_MAX: usize = 16;

/// Characters of a selector that an error shows.
const LENGTH_SHOWN: usize = 200;

/// What is wrong with selectors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SelectorError {
    /// It is no glob.
    #[error("{selector:?} is not a selector: {why}")]
    Malformed {
        /// As it was given.
        selector: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing is left of what was selected.
    #[error("the selectors that begin with ! exclude every selected case of {count}")]
    AllExcluded {
        /// How many there are.
        count: usize,
    },
    /// It excludes nothing.
    #[error("{selector:?} excludes none of the cases that are selected without it ({count}){near}")]
    NothingExcluded {
        /// As it was given.
        selector: String,
        /// How many there are.
        count: usize,
        /// What it may have meant, as the end of a sentence.
        near: String,
    },
    /// It selects nothing.
    #[error(
        "{selector:?} selects none of {count} cases{near}; `fizeau list` shows the ids of a suite, \
         `--suite NAME` those of another one"
    )]
    Nothing {
        /// As it was given.
        selector: String,
        /// How many there are.
        count: usize,
        /// What it may have meant, as the end of a sentence.
        near: String,
    },
}

impl Selector {
    /// From the words of a command line; none select everything. `*` also crosses `/`, and a
    /// selector that matches the first segments of ids selects all below them. What stands behind a
    /// `!` excludes what it would select.
    pub fn parse(words: &[String]) -> Result<Selector, SelectorError> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for word in words {
            let (text, excludes) = match word.strip_prefix('!') {
                Some(rest) => (rest, true),
                None => (word.as_str(), false),
            };
            let malformed = |why: String| SelectorError::Malformed {
                selector: shorten(word, LENGTH_SHOWN),
                why,
            };
            if text.len() > LENGTH_MAX {
                return Err(malformed(format!("it is longer than {LENGTH_MAX} bytes")));
            }
            // By way of a set: a glob alone panics where the expression that it makes is too large.
            let matcher = Glob::new(text).and_then(|glob| GlobSet::builder().add(glob).build());
            let why = |error: globset::Error| shorten(&error.kind().to_string(), LENGTH_SHOWN);
            let matcher = matcher.map_err(|error| malformed(why(error)))?;
            let part = Part { text: text.trim_end_matches('/').to_owned(), matcher };
            if excludes { unwanted.push(part) } else { wanted.push(part) }
        }
        Ok(Selector { wanted, unwanted })
    }

    /// Whether it selects a case by its id.
    pub fn selects(&self, id: &str) -> bool {
        self.wants(id) && !self.unwanted.iter().any(|one| one.matches(id))
    }

    /// Whether it selects a case before anything is excluded.
    fn wants(&self, id: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|one| one.matches(id))
    }

    /// Refuses where one of the selectors selects or excludes nothing: a typing error would else go
    /// unseen.
    pub fn all_select(&self, ids: &[String]) -> Result<(), SelectorError> {
        if let Some(Part { text, .. }) = self.wanted.iter().find(|one| !one.matches_any(ids)) {
            let (selector, count) = (text.clone(), ids.len());
            return Err(SelectorError::Nothing { near: near(text, ids), selector, count });
        }
        let wanted: Vec<String> = ids.iter().filter(|id| self.wants(id)).cloned().collect();
        if let Some(Part { text, .. }) = self.unwanted.iter().find(|one| !one.matches_any(&wanted))
        {
            let (selector, count) = (format!("!{text}"), wanted.len());
            let near = near(text, &wanted);
            return Err(SelectorError::NothingExcluded { near, selector, count });
        }
        if !ids.is_empty() && !ids.iter().any(|id| self.selects(id)) {
            return Err(SelectorError::AllExcluded { count: ids.len() });
        }
        Ok(())
    }
}

impl Part {
    /// Whether it matches an id, or whole segments at its beginning.
    fn matches(&self, id: &str) -> bool {
        let below = id.strip_prefix(self.text.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let mut beginnings = id.match_indices('/').map(|(at, _)| &id[..at]);
        below || self.matcher.is_match(id) || beginnings.any(|one| self.matcher.is_match(one))
    }

    fn matches_any(&self, ids: &[String]) -> bool {
        ids.iter().any(|id| self.matches(id))
    }
}

/// What was typed otherwise than selectors are, as the end of a sentence: several in one, another
/// case, a slash or a `!` too many, a letter off.
fn slip(selector: &str, ids: &[String]) -> Option<String> {
    let selects = |text: &str| {
        let parsed = Selector::parse(&[text.to_owned()]).ok()?;
        // Not by `all_select`, which asks for slips where nothing is selected.
        let is_there = parsed.wanted.iter().any(|one| one.matches_any(ids));
        is_there.then(|| for_shells(text))
    };
    if selector.is_empty() {
        return Some(": it is empty".into());
    }
    let is_glob = selector.contains(['{', '[']);
    let words: Vec<&str> = selector.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    if words.len() > 1 && !is_glob {
        let all: Option<Vec<String>> = words.into_iter().map(selects).collect();
        return all.map(|all| format!(": write them one by one, {}", all.join(" ")));
    }
    let plain = selector.trim_matches(['/', '!', ' ', ',']).to_ascii_lowercase();
    if plain != selector
        && let Some(meant) = selects(&plain)
    {
        return Some(format!(" (did you mean {meant}?)"));
    }
    if let Some(meant) = by_segments(selector, ids).as_deref().and_then(selects) {
        return Some(format!(" (did you mean {meant}?)"));
    }
    // A word that stands within ids.
    let segments: BTreeSet<&str> = ids.iter().flat_map(|id| id.split('/')).collect();
    let is_word = !selector.contains(['*', '?', '/']) && !is_glob;
    let segments = || segments.iter().copied().filter(|_| is_word);
    let near = also_called(selector, segments());
    let near = near.or_else(|| nearest(selector, segments()).into_iter().next())?;
    let wanted = if selects(near).is_some() { near.to_owned() } else { format!("*{near}*") };
    let is_there = ids.iter().any(|id| id.contains(selector));
    selects(&wanted).filter(|_| !is_there).map(|meant| format!(" (did you mean {meant}?)"))
}

/// A selector with the segments that no id has replaced by those that are nearest to them below
/// what stands before, up to one that has none near; `None` where nothing was replaced.
fn by_segments(selector: &str, ids: &[String]) -> Option<String> {
    let mut meant = String::new();
    for segment in selector.split('/') {
        let below = |id: &'_ String| -> Option<String> {
            let rest = match meant.is_empty() {
                true => Some(id.as_str()),
                false => id.strip_prefix(meant.as_str()).and_then(|rest| rest.strip_prefix('/')),
            };
            rest.and_then(|rest| rest.split('/').next()).map(str::to_owned)
        };
        let names: BTreeSet<String> = ids.iter().filter_map(below).collect();
        let names = || names.iter().map(String::as_str);
        let found = names().find(|name| *name == segment);
        let found = found.or_else(|| also_called(segment, names()));
        // Another size or element type is no slip of the pen.
        let is_word = !segment.contains(|c: char| c.is_ascii_digit());
        let near = || nearest(segment, names()).into_iter().next().filter(|_| is_word);
        let Some(found) = found.or_else(near) else { break };
        if !meant.is_empty() {
            meant.push('/');
        }
        meant.push_str(found);
    }
    let is_there = meant.is_empty() || format!("{selector}/").starts_with(&format!("{meant}/"));
    (!is_there).then_some(meant)
}

/// What a selector may have meant: a word within ids, else what ids have in the place where it
/// leaves them.
fn near(selector: &str, ids: &[String]) -> String {
    if let Some(words) = slip(selector, ids) {
        return words;
    }
    let within = format!("*{selector}*");
    let is_word = !selector.is_empty() && !selector.contains(['*', '?', '[', '{']);
    let count = ids.iter().filter(|id| is_word && id.contains(selector)).count();
    if count > 0 {
        return format!(" by the beginning of their ids ('{within}' selects {count})");
    }
    // What there is in the place of the first segment that no id has.
    let segments: Vec<&str> = selector.trim_end_matches('/').split('/').collect();
    let is_below =
        |id: &String, depth: usize| id.split('/').take(depth).eq(segments[..depth].iter().copied());
    let depth = (1..segments.len()).rev().find(|depth| ids.iter().any(|id| is_below(id, *depth)));
    let Some(depth) = depth else { return by_beginning(selector, ids) };
    let mut there: Vec<&str> = Vec::new();
    for id in ids.iter().filter(|id| is_below(id, depth)) {
        there.extend(id.split('/').nth(depth).filter(|segment| !there.contains(segment)));
    }
    let more = match there.len().saturating_sub(NEAREST_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    there.truncate(NEAREST_MAX);
    format!(" (below {}: {}{more})", segments[..depth].join("/"), there.join(", "))
}

/// The first segments of the ids that share most of their beginning with a selector.
fn by_beginning(selector: &str, ids: &[String]) -> String {
    let first = |id: &'_ String| id.split('/').next().unwrap_or_default().to_owned();
    let firsts: BTreeSet<String> = ids.iter().map(first).collect();
    let shared = |first: &String| {
        selector.bytes().zip(first.bytes()).take_while(|(wanted, is)| wanted == is).count()
    };
    let best = firsts.iter().map(shared).max().unwrap_or(0);
    if best < 2 {
        return String::new();
    }
    let nearest: Vec<&str> =
        firsts.iter().filter(|first| shared(first) == best).map(String::as_str).collect();
    format!(" (nearest: {})", nearest.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selector(words: &[&str]) -> Selector {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selector::parse(&words).expect("a selector")
    }

    #[test]
    fn globs_cross_segments_and_prefixes_select_what_is_below() {
        let id = "gemm/bf16/512x512x512/avx512";
        for word in [
            "gemm/bf16/*",
            "gemm",
            "gemm/",
            "gemm/bf16",
            "*avx512",
            "{gemm,stream}/*",
            "{gemm,stream}",
            "gemm/{bf16,f32}",
            "gemm/*/512x512x512",
            id,
        ] {
            assert!(selector(&[word]).selects(id), "{word}");
            assert!(!selector(&[&format!("!{word}")]).selects(id), "!{word}");
        }
        for word in ["gemm/b", "bf16", "stream/*", "!gemm/*", "!gemm", "{gem,strea}"] {
            assert!(!selector(&[word]).selects(id), "{word}");
        }
        assert!(selector(&[]).selects(id));
        assert!(selector(&["!stream/*"]).selects(id));
        assert!(!selector(&["gemm", "!*avx512"]).selects(id));
    }

    #[test]
    fn slips_lead_to_what_was_meant() {
        let ids = ["gemm/bf16/8x8x8/plain", "gemm/f32/8x8x8/plain", "stream/copy/1MiB/1u/plain"];
        let ids = ids.map(str::to_owned);
        for (slip, words) in [
            ("GEMM", "(did you mean gemm?)"),
            ("Gemm/BF16", "(did you mean gemm/bf16?)"),
            ("/gemm", "(did you mean gemm?)"),
            ("gemm,stream", ": write them one by one, gemm stream"),
            ("gemm stream", ": write them one by one, gemm stream"),
            ("stram", "(did you mean stream?)"),
            ("bf17", "(did you mean '*bf16*'?)"),
            ("", ": it is empty"),
            ("!", ": it is empty"),
            ("!!gemm", "(did you mean gemm?)"),
            ("!GEMM", "(did you mean gemm?)"),
            ("bf16", "('*bf16*' selects 1)"),
            ("stream/read", "(below stream: copy)"),
            ("stream/cpoy", "(did you mean stream/copy?)"),
            ("gemm/bf16/8x8x9", "(below gemm/bf16: 8x8x8)"),
            ("gemstone", "(nearest: gemm)"),
            ("gem/*", "(did you mean gemm?)"),
            ("stream/cpoy/1MB", "(did you mean stream/copy?)"),
            ("gemm/f16", "(below gemm: bf16, f32)"),
            ("matmul", "(did you mean gemm?)"),
            ("matmul/f32", "(did you mean gemm/f32?)"),
        ] {
            let error = selector(&[slip]).all_select(&ids).expect_err(slip).to_string();
            assert!(error.contains(words), "{slip}: {error}");
        }
        let far = selector(&["nothing-like-it"]).all_select(&ids).expect_err("it is far");
        assert!(!far.to_string().contains("mean"), "{far}");
    }

    #[test]
    fn nothing_selected_is_said_with_what_is_near() {
        let ids = ["gemm/f32/8x8x8/plain".to_owned(), "stream/copy/1MiB/1u/plain".to_owned()];
        let error = selector(&["f32"]).all_select(&ids).expect_err("selects nothing");
        assert!(error.to_string().contains("('*f32*' selects 1)"), "{error}");
        let error = selector(&["gemm/f16"]).all_select(&ids).expect_err("selects nothing");
        assert!(error.to_string().contains("(below gemm: f32)"), "{error}");
        assert!(selector(&["!*"]).all_select(&ids).is_err());
        let error = selector(&["!f32"]).all_select(&ids).expect_err("excludes nothing");
        assert!(error.to_string().contains("\"!f32\" excludes none of the cases"), "{error}");
        assert!(error.to_string().contains("('*f32*' selects 1)"), "{error}");
        let error = selector(&["gemm", "!stream"]).all_select(&ids).expect_err("excludes nothing");
        assert!(error.to_string().contains("\"!stream\" excludes none of the cases"), "{error}");
        assert_eq!(selector(&["!gemm"]).all_select(&ids), Ok(()));
        assert!(Selector::parse(&["[".to_owned()]).is_err());
        // More than an expression can hold, which globset alone answers with a panic.
        for large in
            ["?".repeat(4000), format!("{}{}", "{?,".repeat(20), "}".repeat(20)), "*".repeat(9999)]
        {
            if let Ok(selector) = Selector::parse(&[large]) {
                selector.selects("gemm/f32/8x8x8/plain");
            }
        }
    }

    proptest! {
        #[test]
        fn an_id_selects_itself_and_any_words_parse_or_refuse(
            id in "[a-z_]{1,8}(/[a-z0-9_]{1,8}){1,4}",
            words in prop::collection::vec(".{0,12}", 0..4),
        ) {
            prop_assert!(selector(&[&id]).selects(&id));
            if let Ok(selector) = Selector::parse(&words) {
                selector.selects(&id);
            }
        }
    }
}
