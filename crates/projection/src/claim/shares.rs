//! Shares of a peak, as posts and profilers state them: "MFU of 38-43 %", "93 % of peak memory
//! bandwidth", "DRAM throughput 92.4 %", and beside a rate "430 TFLOPS at 43 % MFU".

use super::{
    Answer, Verdict,
    vocabulary::{MEASURED, WEIGHTLESS, dtype},
};
use fizeau_domain::number::brief;

/// A share of a peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// In percent; of a range its upper end.
    percent: f64,
    /// Whether it is of memory's bandwidth, where nothing computes a useful part of it.
    is_of_memory: bool,
}

/// From this share on a measured one is suspicious: streams reach 95 % of the pin rate.
const MEMORY_MOST: f64 = 97.0;

/// From this share of arithmetic on: kernels that are measured reach 95 % at the most, and models
/// in training 60 %.
const ARITHMETIC_MOST: f64 = 96.0;

/// Words that say of what a share is.
const OF: [&str; 9] =
    ["mfu", "hfu", "peak", "utilization", "utilisation", "util", "dram", "efficiency", "roofline"];

/// Words that may stand beside a share and change nothing.
const BESIDE: [&str; 12] = [
    "model",
    "hardware",
    "dram",
    "memory",
    "hbm",
    "device",
    "sm",
    "training",
    "reported",
    "or",
    "bf16/fp16",
    "%",
];

/// The number that a word begins with, of a range its upper end, and what follows it.
fn number(word: &str) -> Option<(f64, &str)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let end = word.find(|c| !is_digit(c)).unwrap_or(word.len());
    let value = word[..end].parse::<f64>().ok()?;
    match word[end..].strip_prefix(['-', '\u{2013}']).and_then(number) {
        Some((upper, rest)) => Some((value.max(upper), rest)),
        None => Some((value, &word[end..])),
    }
}

fn words(text: &str) -> Vec<String> {
    let is_sign = |c: char| "()[]|:;,=~".contains(c);
    let spaced: String = text.chars().map(|c| if is_sign(c) { ' ' } else { c }).collect();
    let lower = spaced.to_ascii_lowercase().replace('%', " % ");
    lower.split_whitespace().map(|word| word.trim_end_matches('.').to_owned()).collect()
}

/// The share that a text states alone; none where it says anything else.
pub fn of(text: &str) -> Option<Share> {
    let words = words(text);
    if !words.iter().any(|word| OF.contains(&word.as_str())) {
        return None;
    }
    let numbers: Vec<(usize, f64)> = { words.iter().enumerate() }
        .filter_map(|(at, word)| Some((at, number(word).filter(|(_, rest)| rest.is_empty())?.0)))
        .collect();
    let [(at, value)] = numbers[..] else { return None };
    let is_percent = words.get(at + 1).is_some_and(|word| word == "%" || word == "percent");
    let is_share = words.iter().any(|word| word == "mfu" || word == "hfu") && value <= 2.0;
    let is_known = |word: &String| {
        number(word).is_some()
            || dtype(word).is_some()
            || word == "percent"
            || OF.contains(&word.as_str())
            || BESIDE.contains(&word.as_str())
            || MEASURED.contains(&word.as_str())
            || WEIGHTLESS.split_whitespace().any(|one| one == word)
    };
    let percent = match (is_percent, is_share) {
        (true, _) => value,
        (false, true) => 100.0 * value,
        _ => return None,
    };
    let is_of_memory = words.iter().any(|word| matches!(&**word, "memory" | "dram" | "hbm"));
    words.iter().all(is_known).then_some(Share { percent, is_of_memory })
}

/// A text with a rate and its share of a peak in other words: the text without the share, and the
/// share. "163 TFLOP/s per GPU (52% of theoretical peak)".
pub fn beside(text: &str) -> Option<(String, f64)> {
    let at = text.find('%')?;
    let before = text[..at].trim_end();
    let is_number = |c: char| c.is_ascii_digit() || ".-\u{2013}".contains(c);
    let start = before.char_indices().rev().take_while(|(_, c)| is_number(*c)).last()?.0;
    let (percent, _) = number(&before[start..])?;
    let mut behind = text[at + 1..].trim_start();
    let mut is_of_peak = false;
    for _ in 0..6 {
        let word = behind.split([' ', ')', ',']).next().unwrap_or_default().to_ascii_lowercase();
        let is_word = ["of", "the", "theoretical", "peak", "its"].contains(&word.as_str());
        if !is_word && !OF.contains(&word.as_str()) {
            break;
        }
        is_of_peak |= OF.contains(&word.as_str());
        behind = behind[word.len()..].trim_start();
    }
    let head = before[..start].trim_end();
    let head = ["(", ",", " at", " or", " i.e.", "="]
        .into_iter()
        .find_map(|sign| head.strip_suffix(sign))
        .filter(|_| is_of_peak)?;
    let behind = behind.trim_start_matches([')', ',', '.']);
    let rest = format!("{head} {behind}");
    rest.contains(|c: char| c.is_ascii_digit()).then(|| (rest.trim().to_owned(), percent))
}

/// A percentage as its author may have written it, however absurd.
fn said(percent: f64) -> String {
    format!("{} %", brief(percent))
}

/// A share alone: no part reaches more than its peak.
pub fn judge(share: Share) -> Verdict {
    let Share { percent, is_of_memory } = share;
    let said = said(percent);
    let what = if is_of_memory { "memory's bandwidth" } else { "arithmetic" };
    let most = if is_of_memory { MEMORY_MOST } else { ARITHMETIC_MOST };
    let (answer, why) = if percent > 100.0 {
        (Answer::Impossible, format!("{said} of a peak is more than the peak"))
    } else if percent > most {
        (Answer::Suspicious, format!("nothing that was measured has {said} of {what}'s peak"))
    } else {
        (Answer::Possible, format!("{said} of a peak of {what}"))
    };
    Verdict {
        answer,
        only: None,
        why,
        of_light: Some(percent / 100.0),
        of_serial: None,
        arithmetic: Vec::new(),
        missing: vec!["the rate itself: a share is of the peak that its author took".into()],
    }
}

/// What a share beside a rate says: the peak that its author took. Above 100 % nothing is true.
pub fn set_beside(mut verdict: Verdict, percent: f64, spelled: impl Fn(f64) -> String) -> Verdict {
    if percent > 100.0 {
        verdict.answer = Answer::Impossible;
        verdict.why = format!("{} of a peak is more than the peak", said(percent));
    } else if percent > 0.0 {
        let line = format!("{} of a peak: that of {}", said(percent), spelled(100.0 / percent));
        verdict.arithmetic.push(line);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_other_percentages_are_not() {
        for (text, percent) in [
            ("MFU of 38-43 % for BF16 training", 43.0),
            ("MFU 0.52", 52.0),
            ("model FLOPs utilization: 57.5%", 57.5),
            ("93% of peak memory bandwidth", 93.0),
            ("DRAM throughput 92.4 %", 92.4),
        ] {
            assert_eq!(of(text).map(|share| share.percent), Some(percent), "{text}");
        }
        for text in ["20 % faster than peak", "4.8 TB/s", "12 %", "peak 12", "0.3 W at peak"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_share_beside_a_rate_is_taken_apart() {
        for (text, rest, percent) in [
            ("430 TFLOPS/GPU at 43 % MFU", "430 TFLOPS/GPU", 43.0),
            ("163 TFLOP/s per GPU (52% of theoretical peak)", "163 TFLOP/s per GPU", 52.0),
            ("740 TFLOPS FP16, 75% utilization", "740 TFLOPS FP16", 75.0),
        ] {
            assert_eq!(beside(text), Some((rest.to_owned(), percent)), "{text}");
        }
        assert_eq!(beside("2.8 TB/s, 84 %"), None);
    }
}
