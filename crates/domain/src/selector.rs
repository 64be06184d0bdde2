//! Selectors: globs over case ids, such as `gemm/bf16/*`.

use crate::text::shorten;
use globset::{Glob, GlobSet};

/// Which cases a run is about. Several are joined by "or"; one that starts with `!` excludes.
#[derive(Clone, Debug)]
pub struct Selector {
    wanted: Vec<(String, GlobSet)>,
    unwanted: Vec<GlobSet>,
}

/// Longest selector, in bytes: some times as long as any id.
const LENGTH_MAX: usize = 4096;

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
    /// selector that names the first segments of ids selects all below them.
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
            if excludes {
                unwanted.push(matcher);
            } else {
                wanted.push((text.trim_end_matches('/').to_owned(), matcher));
            }
        }
        Ok(Selector { wanted, unwanted })
    }

    /// Whether it selects a case by its id.
    pub fn selects(&self, id: &str) -> bool {
        let wanted = self.wanted.is_empty() || self.wanted.iter().any(|one| matches(one, id));
        wanted && !self.unwanted.iter().any(|matcher| matcher.is_match(id))
    }

    /// Refuses where one of the selectors selects nothing: a typing error would else go unseen.
    pub fn all_select(&self, ids: &[String]) -> Result<(), SelectorError> {
        for one in &self.wanted {
            if !ids.iter().any(|id| matches(one, id)) {
                let (selector, count) = (one.0.clone(), ids.len());
                return Err(SelectorError::Nothing { near: near(&selector, ids), selector, count });
            }
        }
        if !ids.is_empty() && !ids.iter().any(|id| self.selects(id)) {
            return Err(SelectorError::AllExcluded { count: ids.len() });
        }
        Ok(())
    }
}

fn matches((text, matcher): &(String, GlobSet), id: &str) -> bool {
    let below = id.strip_prefix(text.as_str()).is_some_and(|rest| rest.starts_with('/'));
    below || matcher.is_match(id)
}

/// What a selector may have meant: a word within ids, else the ids that share most of their
/// beginning with it.
fn near(selector: &str, ids: &[String]) -> String {
    let within = format!("*{selector}*");
    let is_word = !selector.is_empty() && !selector.contains(['*', '?', '[', '{']);
    let count = ids.iter().filter(|id| is_word && id.contains(selector)).count();
    if count > 0 {
        return format!(" by the beginning of their ids ('{within}' selects {count})");
    }
    let shared = |id: &String| {
        selector.bytes().zip(id.bytes()).take_while(|(wanted, is)| wanted == is).count()
    };
    let best = ids.iter().map(shared).max().unwrap_or(0);
    if best < 2 {
        return String::new();
    }
    let nearest: Vec<&str> =
        ids.iter().filter(|id| shared(id) == best).take(3).map(String::as_str).collect();
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
        for word in ["gemm/bf16/*", "gemm", "gemm/", "gemm/bf16", "*avx512", "{gemm,stream}/*", id]
        {
            assert!(selector(&[word]).selects(id), "{word}");
        }
        for word in ["gemm/b", "bf16", "stream/*", "!gemm/*"] {
            assert!(!selector(&[word]).selects(id), "{word}");
        }
        assert!(selector(&[]).selects(id));
        assert!(selector(&["!stream/*"]).selects(id));
        assert!(!selector(&["gemm", "!*avx512"]).selects(id));
    }

    #[test]
    fn nothing_selected_is_said_with_what_is_near() {
        let ids = ["gemm/f32/8x8x8/plain".to_owned(), "stream/copy/1MiB/1u/plain".to_owned()];
        let error = selector(&["f32"]).all_select(&ids).expect_err("selects nothing");
        assert!(error.to_string().contains("('*f32*' selects 1)"), "{error}");
        let error = selector(&["gemm/f16"]).all_select(&ids).expect_err("selects nothing");
        assert!(error.to_string().contains("nearest: gemm/f32/8x8x8/plain"), "{error}");
        assert!(selector(&["!*"]).all_select(&ids).is_err());
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
