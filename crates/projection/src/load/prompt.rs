//! Prompts of an exact number of tokens, each of its own words, so that no prefix cache knows it.

use super::random::{Purpose, Random};
use std::{collections::HashMap, mem};

/// Common words of English, which most tokenizers have as one token each.
const WORDS: &str = "\
    time year people way day man thing woman life child world school state family student \
    group country problem hand part place case week company system program question work \
    government number night point home water room mother area money story fact month lot right \
    study book eye job word business issue side kind head house service friend father power \
    hour game line end member law car city community name president team minute idea body \
    information back parent face level office door health person art war history party result \
    change morning reason research girl guy moment air teacher force education foot boy age \
    policy music market sense nation plan college interest death experience effect use class \
    control field development role effort rate heart drug show leader light voice wife police \
    mind price report decision son view relation town road arm difference value building \
    action season society tax director position player record paper space ground form event \
    matter center couple site project activity star table need court oil situation cost \
    industry figure street image phone data picture practice piece land product doctor wall \
    worker news test movie north love step source model range ball window truth";

/// What fills up the last tokens: short enough to be one token each.
const FILLERS: [&str; 6] = [" a", " the", ".", ",", " 1", "x"];

/// How often a prompt is counted at most. Where no text of the wanted length was found by then, the
/// nearest one is taken, with the count that it has.
const COUNTS_MAX: usize = 24;

/// Counts the tokens of a text.
pub type Count<'c, E> = &'c mut dyn FnMut(&str) -> Result<u32, E>;

/// Makes prompts.
#[derive(Clone, Debug)]
pub struct Composer {
    words: Vec<&'static str>,
    seed: u64,
    random: Random,
    /// Blocks of a trace that were made, by their names.
    blocks: HashMap<u64, String>,
    /// What all prompts begin with.
    shared: String,
    /// Tokens of a word, on average.
    each: f64,
    /// Tokens of a prompt beside its words: marks at its beginning, a template.
    extra: f64,
    filler: &'static str,
}

/// A prompt with its number of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its text.
    pub text: String,
    /// Its tokens, as the tokenizer counts them.
    pub tokens: u32,
}

impl Composer {
    /// Learns from a tokenizer how long words are. Without one, a word is taken for a token.
    ///
    /// # Errors
    /// As the tokenizer.
    pub fn new<E>(seed: u64, level: u64, mut count: Option<Count<'_, E>>) -> Result<Composer, E> {
        let words: Vec<&'static str> = WORDS.split_whitespace().collect();
        let random = Random::new(seed, level, Purpose::Words);
        let mut composer = Composer {
            words,
            seed,
            random,
            blocks: HashMap::new(),
            shared: String::new(),
            each: 1.0,
            extra: 0.0,
            filler: " a",
        };
        let Some(count) = &mut count else { return Ok(composer) };
        let all = composer.words.join(" ");
        let (one, whole) = (count(composer.words[0])?, count(&all)?);
        let others = (composer.words.len() - 1) as f64;
        composer.each = ((f64::from(whole) - f64::from(one)) / others).max(0.1);
        composer.extra = (f64::from(one) - composer.each).max(0.0);
        let base = "time year people";
        let with_base = count(base)?;
        for filler in FILLERS {
            let with_four = count(&format!("{base}{}", filler.repeat(4)))?;
            if with_base.checked_add(4) == Some(with_four) {
                composer.filler = filler;
                break;
            }
        }
        Ok(composer)
    }

    /// Lets all prompts from now on begin with this one.
    pub fn begin_with(&mut self, prompt: Prompt) {
        self.shared = prompt.text;
    }

    /// A prompt of a number of tokens, or of the nearest number that its tokenizer lets be.
    ///
    /// # Errors
    /// As the tokenizer.
    pub fn compose<E>(&mut self, tokens: u32, count: Option<Count<'_, E>>) -> Result<Prompt, E> {
        let wanted = f64::from(tokens) - self.extra;
        let shared_words = self.shared.split_whitespace().count() as f64;
        let first = (wanted / self.each - shared_words).max(1.0) as usize;
        // A tokenizer that counts next to nothing would take words without end.
        let most = (tokens as usize).saturating_mul(WORDS_PER_TOKEN).max(first);
        let mut words: Vec<&'static str> = (0..first).map(|_| self.word()).collect();
        let Some(count) = count else {
            return Ok(Prompt { text: self.text(&words, 0), tokens });
        };
        // Words up to a little below the wanted number, then fillers of one token each.
        let near = (2.0 * self.each.ceil() + 2.0) as u32;
        let mut best: Option<Prompt> = None;
        let mut fillers = 0_usize;
        for _ in 0..COUNTS_MAX {
            let text = self.text(&words, fillers);
            let has = count(&text)?;
            let off = |one: &Prompt| one.tokens.abs_diff(tokens);
            if best.as_ref().is_none_or(|best| has.abs_diff(tokens) < off(best)) {
                best = Some(Prompt { text, tokens: has });
            }
            if has == tokens {
                break;
            }
            let missing = f64::from(tokens) - f64::from(has);
            if has > tokens && fillers > 0 {
                fillers = fillers.saturating_sub((has - tokens) as usize);
            } else if has > tokens {
                let fewer = (-missing / self.each).ceil().max(1.0) as usize;
                if words.len() == 1 {
                    break;
                }
                words.truncate(words.len().saturating_sub(fewer).max(1));
            } else if words.len() >= most {
                break;
            } else if tokens - has > near {
                let more = (missing / self.each - 1.0).floor().max(1.0) as usize;
                let more = more.min(most - words.len());
                words.extend((0..more).map(|_| self.word()).collect::<Vec<_>>());
            } else {
                fillers += (tokens - has) as usize;
            }
        }
        Ok(best.unwrap_or_default())
    }

    /// A prompt of a number of tokens that begins as all others do whose blocks have the same
    /// names: each of `size` tokens but the last one.
    ///
    /// # Errors
    /// As the tokenizer.
    pub fn compose_blocks<E>(
        &mut self,
        tokens: u32,
        (names, size): (&[u64], u32),
        mut count: Option<Count<'_, E>>,
    ) -> Result<Prompt, E> {
        let Some((last, whole)) = names.split_last() else { return self.compose(tokens, count) };
        let mut shared = Vec::new();
        for (place, name) in whole.iter().enumerate() {
            // A mark or a template stands in the first one.
            let marks = if place == 0 { self.extra.round() as u32 } else { 0 };
            let size = size.saturating_sub(marks).max(1);
            shared.push(match &mut count {
                Some(count) => self.block(*name, size, Some(&mut |text: &str| count(text)))?,
                None => self.block::<E>(*name, size, None)?,
            });
        }
        self.within(&shared.join(" "), *last, |composer| composer.compose(tokens, count))
    }

    /// The text of a block, as it stands behind another text.
    fn block<E>(&mut self, name: u64, size: u32, count: Option<Count<'_, E>>) -> Result<String, E> {
        if let Some(text) = self.blocks.get(&name) {
            return Ok(text.clone());
        }
        let before = self.words[0];
        let extra = mem::take(&mut self.extra);
        let made = self.within("", name, |composer| match count {
            None => composer.compose::<E>(size, None),
            Some(count) => {
                let of_before = count(before)?;
                let mut beyond =
                    |text: &str| Ok(count(&format!("{before} {text}"))?.saturating_sub(of_before));
                composer.compose(size, Some(&mut beyond))
            }
        });
        self.extra = extra;
        let Prompt { text, .. } = made?;
        self.blocks.insert(name, text.clone());
        Ok(text)
    }

    /// Composes behind a text, with words by the name of a block.
    fn within<T>(&mut self, text: &str, name: u64, compose: impl FnOnce(&mut Composer) -> T) -> T {
        let random = Random::new(self.seed, name, Purpose::Blocks);
        let before = (mem::take(&mut self.shared), mem::replace(&mut self.random, random));
        self.shared = text.to_owned();
        let made = compose(self);
        (self.shared, self.random) = before;
        made
    }

    fn text(&self, words: &[&str], fillers: usize) -> String {
        let mut text = self.shared.clone();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&words.join(" "));
        text.push_str(&self.filler.repeat(fillers));
        text
    }

    fn word(&mut self) -> &'static str {
        self.words[self.random.below(self.words.len() as u64) as usize]
    }
}

/// Words of a prompt for each token that is asked for, at most: `each` is 0.1 tokens or more.
const WORDS_PER_TOKEN: usize = 12;

impl Default for Prompt {
    fn default() -> Prompt {
        Prompt { text: WORDS.split(' ').next().unwrap_or_default().into(), tokens: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Tokenizers of several kinds: a mark at the beginning, words in pieces of a length, bytes.
    fn tokens(text: &str, piece: usize, marks: u32) -> u32 {
        let words = text.split_inclusive([' ', '.', ',']);
        marks + words.map(|word| word.trim().len().div_ceil(piece) as u32).sum::<u32>()
    }

    #[test]
    fn prompts_have_the_number_of_tokens_that_is_asked_for() {
        for (piece, marks) in [(100, 0), (100, 1), (4, 0), (3, 27), (1, 1)] {
            let counts = std::cell::Cell::new(0);
            let mut count = |text: &str| {
                counts.set(counts.get() + 1);
                Ok::<u32, ()>(tokens(text, piece, marks))
            };
            let mut composer = Composer::new(1, 0, Some(&mut count)).expect("it counts");
            let before = counts.get();
            let lengths = [40, 41, 42, 63, 128, 500, 1_001, 4_096];
            for length in lengths {
                let prompt = composer.compose(length, Some(&mut count)).expect("it counts");
                assert_eq!(prompt.tokens, length, "pieces of {piece}, {marks} marks");
                assert_eq!(tokens(&prompt.text, piece, marks), length);
            }
            let each = (counts.get() - before) as f64 / lengths.len() as f64;
            assert!(each < 10.0, "{each} counts a prompt");
        }
    }

    #[test]
    fn prompts_differ_and_the_same_seed_gives_the_same() {
        let all = |seed: u64| {
            let none: Option<Count<'_, ()>> = None;
            let mut composer = Composer::new(seed, 0, none).expect("nothing to fail");
            let mut one = |_| composer.compose::<()>(20, None).expect("nothing to fail").text;
            (0..200).map(&mut one).collect::<BTreeSet<_>>()
        };
        assert_eq!((all(1).len(), all(1) == all(1), all(1) == all(2)), (200, true, false));
        let starts: BTreeSet<String> =
            all(1).iter().map(|text| text.split(' ').take(3).collect()).collect();
        assert!(starts.len() > 195, "{}", starts.len());
    }

    #[test]
    fn a_shared_prefix_is_shared_and_counted() {
        let mut count = |text: &str| Ok::<u32, ()>(tokens(text, 4, 1));
        let mut composer = Composer::new(1, 0, Some(&mut count)).expect("it counts");
        let shared = composer.compose(30, Some(&mut count)).expect("it counts");
        assert_eq!(shared.tokens, 30);
        composer.begin_with(shared);
        let one = composer.compose(80, Some(&mut count)).expect("it counts");
        let two = composer.compose(80, Some(&mut count)).expect("it counts");
        let same = one.text.bytes().zip(two.text.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!((one.tokens, two.tokens, one == two), (80, 80, false));
        assert!(tokens(&one.text[..same], 4, 1) >= 30);
    }

    #[test]
    fn blocks_of_one_name_are_the_same_and_no_others() {
        for (piece, marks) in [(100, 0), (4, 1), (3, 27)] {
            let mut count = |text: &str| Ok::<u32, ()>(tokens(text, piece, marks));
            let mut composer = Composer::new(1, 0, Some(&mut count)).expect("it counts");
            let mut made = |length: u32, names: &[u64]| {
                let count: Count<'_, ()> = &mut |text| Ok(tokens(text, piece, marks));
                composer.compose_blocks(length, (names, 64), Some(count)).expect("it counts")
            };
            let all = [
                made(150, &[1, 2, 3]),
                made(160, &[1, 2, 4]),
                made(150, &[1, 5, 3]),
                made(150, &[1, 2, 3]),
            ];
            let lengths = [150, 160, 150, 150];
            for (one, length) in all.iter().zip(lengths) {
                assert_eq!((one.tokens, tokens(&one.text, piece, marks)), (length, length));
            }
            let shared = |one: usize, other: usize| {
                let (one, other) = (&all[one].text, &all[other].text);
                let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                tokens(&one[..same], piece, marks)
            };
            assert_eq!(all[0], all[3]);
            assert!((127..=131).contains(&shared(0, 1)), "{} of two blocks", shared(0, 1));
            assert!((63..=67).contains(&shared(0, 2)), "{} of one block", shared(0, 2));
        }
    }

    #[test]
    fn what_cannot_be_met_comes_near() {
        let mut count = |text: &str| Ok::<u32, ()>(tokens(text, 4, 27));
        let mut composer = Composer::new(1, 0, Some(&mut count)).expect("it counts");
        let prompt = composer.compose(3, Some(&mut count)).expect("it counts");
        assert!(prompt.tokens >= 28 && !prompt.text.is_empty());
    }
}
