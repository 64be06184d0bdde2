//! Energy of tokens, as pages and posts state it: "0.4 J per token", "2.5 tokens per joule",
//! "3.1 tok/s/W", "1.2 million tokens/s per MW", "0.11 kWh per million tokens".
//!
//! A device that takes its power limit and makes a token with this energy has a rate, and the rate
//! is judged as any other: by L0 and L1. A device may take less than its limit, so that the same
//! energy needs a lower rate; how much less is what [`DECODE`] and [`LEAST`] say.

use super::{Answer, Claim, Named, Verdict, vocabulary::Number};
use fizeau_domain::{number::fixed, units::Watts};

/// The share of its power limit that a device takes where memory bounds it. Decode took 137 to
/// 300 W of the 700 of an H200, with four kinds of attention: a fifth at least (Ma et al., The
/// Illusion of Power Capping in LLM Decode, arXiv:2605.11999, 2026).
const DECODE: f64 = 0.2;

/// The share of its power limit that a device takes at least, which is about what a server GPU
/// takes idle: 74 and 80 W of the 700 of an H200 in two public measurements (conservemode.com and
/// serialalice.pt, 2026). No device that works was seen below it, and the limit is ours.
const LEAST: f64 = 0.1;

/// What a text states of the energy of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Joules of a token; of a range the least.
    joules: f64,
    /// Which tokens are counted, as a rate of tokens says it; empty where the text does not.
    counted: String,
    /// The rest of the text.
    rest: String,
}

/// A word, or a part of one, with the number of its word.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    text: String,
    lower: String,
    word: usize,
}

/// Signs and words that say that a number is a bound, or near: the number is judged as it stands.
const BEFORE_NUMBERS: [&str; 18] = [
    "<", "\u{2264}", "below", "under", "less", "than", "only", "just", "little", "down", "to",
    "of", "is", "=", "was", "at", "as", "about",
];

/// Words that say no more than that energy is meant.
const OF_ENERGY: [&str; 15] = [
    "energy",
    "efficiency",
    "consumption",
    "consumes",
    "consuming",
    "uses",
    "using",
    "needs",
    "takes",
    "draws",
    "spends",
    "costs",
    "cost",
    "power",
    "electricity",
];

/// A prefix of a unit in its own case, since "mW" and "MW" differ by a thousand million.
fn prefix(text: &str, name: &str) -> Option<f64> {
    let symbol = match text {
        "" => Some(1.0),
        // The sign of micro, the Greek letter, and the letter that stands for both.
        "\u{b5}" | "\u{3bc}" | "u" => Some(1e-6),
        "m" => Some(1e-3),
        "k" | "K" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    };
    symbol.or_else(|| {
        let named = [("micro", 1e-6), ("milli", 1e-3), ("kilo", 1e3), ("mega", 1e6), ("giga", 1e9)];
        let found = named.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
        found.filter(|_| name.len() > 2).map(|(_, factor)| *factor)
    })
}

/// What a word is of a unit that one of these names ends.
fn prefixed(text: &str, names: &[(&str, f64)]) -> Option<f64> {
    names.iter().find_map(|(name, factor)| {
        let at = text.len().checked_sub(name.len()).filter(|at| text.is_char_boundary(*at))?;
        let is_named = match name.len() {
            // Symbols keep to their case: "j" is a unit of nothing.
            1 | 2 => &text[at..] == *name,
            _ => text[at..].eq_ignore_ascii_case(name),
        };
        is_named.then(|| prefix(&text[..at], name)).flatten().map(|scale| scale * factor)
    })
}

/// Joules of a unit of energy.
fn joules(text: &str) -> Option<f64> {
    let hour = 3600.0;
    let names = [
        ("J", 1.0),
        ("joule", 1.0),
        ("joules", 1.0),
        ("Wh", hour),
        ("watt-hour", hour),
        ("watt-hours", hour),
        ("watthour", hour),
        ("watthours", hour),
    ];
    prefixed(text, &names)
}

/// Watts of a unit of power.
fn watts(text: &str) -> Option<f64> {
    prefixed(text, &[("W", 1.0), ("watt", 1.0), ("watts", 1.0)])
}

/// Tokens of a unit of tokens, and whether it is of a second already.
fn tokens(lower: &str) -> Option<(f64, bool)> {
    Some(match lower {
        "tok" | "toks" | "token" | "tokens" | "t" => (1.0, false),
        "ktok" | "ktokens" => (1e3, false),
        "mtok" | "mtokens" => (1e6, false),
        "tps" => (1.0, true),
        _ => return None,
    })
}

fn thousands(lower: &str) -> Option<f64> {
    Some(match lower {
        "k" | "thousand" => 1e3,
        "m" | "million" | "mn" => 1e6,
        "b" | "bn" | "billion" => 1e9,
        _ => return None,
    })
}

/// Which tokens a word says are counted, as a rate of tokens has it.
fn counted(lower: &str) -> Option<&'static str> {
    Some(match lower {
        "output" | "generated" | "decoded" | "completion" | "decode" => "output",
        "input" | "prompt" | "prefill" => "input",
        "total" | "processed" => "total",
        _ => return None,
    })
}

/// The text in pieces: numbers apart from their units, "/" as "per".
fn pieces(text: &str) -> (Vec<String>, Vec<Piece>) {
    let spaced: String = text.replace("-per-", " per ").replace("watt hour", "watt-hour");
    let spaced: String = { spaced.chars() }
        .flat_map(|one| match one {
            '(' | ')' | '[' | ']' | '"' | ';' | '|' => vec![' '],
            '~' | '<' | '=' | '\u{2248}' | '\u{2264}' => vec![' ', one, ' '],
            '\u{2013}' | '\u{2014}' => vec!['-'],
            one => vec![one],
        })
        .collect();
    let trimmed = |word: &str| word.trim_end_matches([',', ':', '!', '?', '.']).to_owned();
    let words: Vec<String> =
        spaced.split_whitespace().map(trimmed).filter(|word| !word.is_empty()).collect();
    let mut all = Vec::new();
    for (word, text) in words.iter().enumerate() {
        let mut add = |text: &str| {
            all.push(Piece { text: text.into(), lower: text.to_ascii_lowercase(), word });
        };
        for (at, part) in text.split('/').enumerate() {
            if at > 0 {
                add("per");
            }
            numbers_apart(part).into_iter().filter(|one| !one.is_empty()).for_each(&mut add);
        }
    }
    (words, all)
}

/// "0.3-0.5J" in its numbers, the sign between them, and its unit.
fn numbers_apart(part: &str) -> Vec<&str> {
    let is_digit = |c: char| c.is_ascii_digit() || ".,".contains(c);
    if !part.starts_with(|c: char| c.is_ascii_digit()) {
        return vec![part];
    }
    let (number, rest) = part.split_at(part.find(|c| !is_digit(c)).unwrap_or(part.len()));
    let mut all = vec![number];
    match rest.strip_prefix('-') {
        Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => {
            all.push(&rest[..1]);
            all.extend(numbers_apart(after));
        }
        _ => all.push(rest),
    }
    all
}

/// Reads pieces from a place on.
struct Cursor<'p> {
    pieces: &'p [Piece],
    at: usize,
}

impl Cursor<'_> {
    fn lower(&self) -> &str {
        self.pieces.get(self.at).map_or("", |piece| &piece.lower)
    }

    fn take<T>(&mut self, of: impl Fn(&Piece) -> Option<T>) -> Option<T> {
        let found = of(self.pieces.get(self.at)?)?;
        self.at += 1;
        Some(found)
    }

    fn is(&mut self, words: &[&str]) -> bool {
        self.take(|piece| words.contains(&&*piece.lower).then_some(())).is_some()
    }

    /// A number with its thousands and millions; a range has two.
    fn number(&mut self) -> Option<f64> {
        let value = self.take(|piece| Number::of(&piece.lower).ok())?.value;
        let scale = self.take(|piece| thousands(&piece.lower)).unwrap_or(1.0);
        Some(value * scale)
    }

    fn range(&mut self) -> Option<[f64; 2]> {
        let first = self.number()?;
        let before = self.at;
        let other = if self.is(&["-", "to", "and"]) { self.number() } else { None };
        if other.is_none() {
            self.at = before;
        }
        let last = other.unwrap_or(first);
        (first <= last).then_some([first, last])
    }

    /// "J per token", "Wh per 1,000 output tokens": joules of a token, and which tokens.
    fn energy_of_token(&mut self) -> Option<(f64, &'static str)> {
        let energy = self.take(|piece| joules(&piece.text))?;
        if !self.is(&["per"]) {
            return None;
        }
        let (count, counted) = self.some_tokens()?;
        Some((energy / count, counted))
    }

    /// "token", "1,000 output tokens", "Mtok".
    fn some_tokens(&mut self) -> Option<(f64, &'static str)> {
        let count = match self.number() {
            Some(count) => count,
            None => self.take(|piece| thousands(&piece.lower)).unwrap_or(1.0),
        };
        let counted = self.take(|piece| counted(&piece.lower)).unwrap_or_default();
        let (scale, is_rate) = self.take(|piece| tokens(&piece.lower))?;
        (!is_rate).then_some((count * scale, counted))
    }

    /// "tokens per joule", "output tok/s/W": tokens of a joule, and which tokens.
    fn tokens_of_energy(&mut self) -> Option<(f64, &'static str)> {
        let counted = self.take(|piece| counted(&piece.lower)).unwrap_or_default();
        let (count, mut is_rate) = self.take(|piece| tokens(&piece.lower))?;
        self.is(&["per"]).then_some(())?;
        if !is_rate && self.is(&["s", "sec", "second"]) {
            is_rate = true;
            self.is(&["per"]).then_some(())?;
        }
        let energy = match is_rate {
            true => self.take(|piece| watts(&piece.text)),
            false => self.take(|piece| joules(&piece.text)),
        };
        Some((count / energy?, counted))
    }

    /// Words between the name of a unit and its number.
    fn pass_words(&mut self) {
        for _ in 0..4 {
            if !self.is(&BEFORE_NUMBERS) && !self.is(&["~", "\u{2248}", ":", "-"]) {
                return;
            }
        }
    }
}

/// Joules of a token, and which tokens, by pieces from a place on; and the first piece behind.
fn read(pieces: &[Piece], at: usize) -> Option<(f64, &'static str, usize)> {
    let from = |at: usize| Cursor { pieces, at };
    // "0.4 J per token", "2.5 tokens per joule"
    let mut cursor = from(at);
    if let Some([low, high]) = cursor.range() {
        let behind = cursor.at;
        if let Some((unit, counted)) = cursor.energy_of_token() {
            return Some((low * unit, counted, cursor.at));
        }
        cursor.at = behind;
        let (unit, counted) = cursor.tokens_of_energy()?;
        return Some((1.0 / (high * unit), counted, cursor.at));
    }
    // "energy per output token: 0.4 J"
    if cursor.is(&["energy", "electricity"]) && cursor.is(&["per"]) {
        let (count, counted) = cursor.some_tokens()?;
        cursor.pass_words();
        let [low, _] = cursor.range()?;
        let unit = cursor.take(|piece| joules(&piece.text))?;
        return (cursor.lower() != "per").then_some((low * unit / count, counted, cursor.at));
    }
    // "joules per token: 0.4", "tokens per joule = 2.5"
    let mut cursor = from(at);
    if let Some((unit, counted)) = cursor.energy_of_token() {
        cursor.pass_words();
        let [low, _] = cursor.range()?;
        return Some((low * unit, counted, cursor.at));
    }
    let mut cursor = from(at);
    let (unit, counted) = cursor.tokens_of_energy()?;
    cursor.pass_words();
    let [_, high] = cursor.range()?;
    Some((1.0 / (high * unit), counted, cursor.at))
}

/// The energy of a token that a text states; none where it says nothing of the kind, or says whose
/// tokens they are in a way that changes what the figure means.
pub fn of(text: &str) -> Option<Energy> {
    let (words, pieces) = pieces(text);
    let found = (0..pieces.len()).find_map(|at| Some((at, read(&pieces, at)?)));
    let (start, (joules, counted, end)) = found?;
    let is_rate_of_one = |at: usize| {
        let whose = pieces.get(at + 1).map_or("", |piece| &piece.lower);
        pieces[at].lower == "per" && matches!(whose, "gpu" | "user" | "device" | "card" | "chip")
    };
    if (0..pieces.len()).any(is_rate_of_one) || !(joules > 0.0 && joules.is_finite()) {
        return None;
    }
    let first = pieces[start].word;
    let last = pieces[end - 1].word;
    // Words right before the figure that bound it belong to it; "about" stays.
    let mut begin = first;
    let is_bound = |word: &str| word != "about" && BEFORE_NUMBERS.contains(&word);
    while begin > 0 && is_bound(&words[begin - 1].to_ascii_lowercase()) {
        begin -= 1;
    }
    let about = { words[first..=last].iter() }
        .filter(|word| matches!(&***word, "~" | "\u{2248}" | "about"))
        .map(String::as_str);
    let outside = words[..begin].iter().chain(&words[last + 1..]).map(String::as_str);
    let mut counted = counted.to_owned();
    let mut rest: Vec<&str> = Vec::new();
    for word in about.chain(outside) {
        let lower = word.to_ascii_lowercase();
        if !OF_ENERGY.contains(&lower.as_str()) {
            rest.push(word);
        }
    }
    if counted.is_empty()
        && let Some(at) = rest.iter().position(|word| self::counted(word).is_some())
    {
        rest.remove(at).clone_into(&mut counted);
    }
    Some(Energy { joules, counted, rest: rest.join(" ") })
}

/// Judges the energy of a token: as the rate of a device that takes its power limit, and where that
/// is too much, of one that takes less.
///
/// # Errors
/// As [`super::judge`].
pub fn judge(claim: &Claim, named: &Named<'_>, energy: &Energy) -> Result<Verdict, String> {
    let Energy { joules, counted, rest } = energy;
    let at = |power: f64| {
        let value = format!("{} {counted} tok/s/GPU {rest}", power / joules);
        let as_rate = Claim { value: value.clone(), ..claim.clone() };
        super::judge(&as_rate, named)
            .map_err(|why| why.replace(&format!("{value:?}"), &format!("{:?}", claim.value)))
    };
    let Some(part) = named.part else { return at(1.0) };
    let Some(Watts(limit)) = part.power else {
        return Ok(Verdict::cannot_tell(
            format!("the power limit of {} is not known", part.name),
            "a part whose power limit the catalogue states",
        ));
    };
    let said = |share: f64, verdict: Verdict| {
        let of_limit = match share < 1.0 {
            true => format!("{} % of its power limit", fixed(100.0 * share, 0)),
            false => "its power limit".to_owned(),
        };
        let watts = Watts(share * limit);
        let line = format!(
            "{joules} J a token of a device that takes {watts}, {of_limit}: {} tok/s/GPU",
            fixed(share * limit / joules, 1)
        );
        let mut arithmetic = vec![line];
        arithmetic.extend(verdict.arithmetic);
        Verdict { why: format!("at {of_limit} {}", verdict.why), arithmetic, ..verdict }
    };
    let mut open = None;
    for share in [1.0, DECODE] {
        let verdict = at(share * limit)?;
        match verdict.answer {
            Answer::Possible => return Ok(said(share, verdict)),
            Answer::CannotTell => open = open.or(Some(said(share, verdict))),
            _ => {}
        }
    }
    let least = said(LEAST, at(LEAST * limit)?);
    Ok(match (least.answer, open) {
        (Answer::Impossible, _) => least,
        (_, Some(open)) => open,
        (Answer::CannotTell, None) => least,
        _ => Verdict {
            answer: Answer::Suspicious,
            why: format!(
                "it needs devices that take less than {} % of their power limit: {}",
                fixed(100.0 * DECODE, 0),
                least.why
            ),
            ..least
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joules_of(text: &str) -> Option<f64> {
        of(text).map(|energy| energy.joules)
    }

    #[test]
    fn one_energy_is_read_in_each_way_that_people_write_it() {
        for text in [
            "0.4 J per token",
            "0.4J/token",
            "~0.4 joules per token",
            "400 mJ per output token",
            "energy per token: 0.4 J",
            "energy per output token of 0.4 joules",
            "joules per token = 0.4",
            "0.4-0.6 J/tok",
            "between 0.4 and 0.6 J per token",
            "less than 0.4 J per token of llama-3.1-70b on 8 H200",
            "2.5 tokens per joule",
            "2.5 tok/J",
            "2.5 tok/s/W",
            "2.5 tokens per second per watt",
            "2.5 TPS per watt",
            "2.5 million tokens per second per MW",
            "2.5M tokens/s/MW",
            "2,500 tokens/s per kW",
            "9,000 tokens per Wh",
            "9 million tokens per kWh",
            "tokens per joule: 2.5",
            "0.111111111111 Wh per 1,000 tokens",
            "0.111111111111 kWh per million output tokens",
            "0.111111111111 kWh/1M tokens",
            "111.111111111 \u{b5}Wh/tok",
            "111.111111111 \u{3bc}Wh per token",
            "400,000 uJ per token",
            "400,000 microjoules per token",
        ] {
            let found = joules_of(text).unwrap_or_else(|| panic!("{text}"));
            assert!((found - 0.4).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn what_is_no_energy_of_tokens_is_left_alone() {
        for text in [
            "154 tok/s/user",
            "6200 tok/s on 8 GPUs",
            "TDP 700 W",
            "4.8 TB/s",
            "0.24 Wh per query",
            "0.4 J per token per user",
            "0.4 J/token/GPU",
            "2.6 TB/s per watt",
            "0 J per token",
        ] {
            assert_eq!(joules_of(text), None, "{text}");
        }
    }

    #[test]
    fn what_stands_beside_an_energy_is_kept() {
        let found = of("energy efficiency of 0.4 J per output token on 8 H200 at batch 64");
        let found = found.expect("an energy");
        assert_eq!((&*found.counted, &*found.rest), ("output", "on 8 H200 at batch 64"));
    }
}
