//! A text in words.

use crate::claim::{
    unit::{Parts, Unit},
    wire,
};

/// The text in words: signs apart from words, "per x" as "/x", numbers in groups of three digits
/// together.
pub fn split(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for one in without_arrows(&without_ratios(text)).chars() {
        match one {
            '™' | '®' | '©' => {}
            '·' => spaced.push(' '),
            '×' => spaced.push('x'),
            '–' | '—' | '−' => spaced.push('-'),
            '’' => spaced.push('\''),
            '~' | '≈' | '∼' | '≥' | '>' | '=' => spaced.push_str(&format!(" {one} ")),
            '(' | ')' | '[' | ']' | '"' | '“' | '”' | ';' | '*' | '†' | '#' | '|' => {
                spaced.push(' ')
            }
            one => spaced.push(one),
        }
    }
    let spaced = spaced
        .replace("GBps", "GB/s")
        .replace("TBps", "TB/s")
        .replace("MBps", "MB/s")
        .replace(" GbE", "GbE")
        .replace('±', " ± ")
        .replace("w/ ", "with ")
        .replace(" / ", "/")
        .replace("/ ", "/")
        .replace("w/o ", "without ");
    let mut words: Vec<String> = Vec::new();
    let mut all = spaced.split_whitespace().map(|word| word.trim_end_matches([',', ':', '!', '?']));
    while let Some(word) = all.next() {
        let word = word.strip_suffix('.').unwrap_or(word);
        let is_group = word.len() >= 3
            && word.bytes().take(3).all(|one| one.is_ascii_digit())
            && word.as_bytes().get(3).is_none_or(|one| !one.is_ascii_digit());
        let is_begun = words.last().is_some_and(|last| {
            let first = last.split(',').next().unwrap_or_default();
            (1..=3).contains(&first.len())
                && !first.starts_with('0')
                && last.bytes().all(|one| one.is_ascii_digit() || one == b',')
        });
        match word.to_ascii_lowercase().as_str() {
            "" | "-" if words.is_empty() => {}
            "" => {}
            "per" => {
                let next = all.next().unwrap_or_default();
                match Parts::default().take(&next.to_ascii_lowercase()) {
                    true => words.push(format!("/{next}")),
                    false => words.extend(["per".into(), next.to_owned()]),
                }
            }
            _ if is_group && is_begun && !is_generation(&words) => {
                let last = words.last_mut().expect("it was begun");
                last.push(',');
                last.push_str(word);
            }
            _ => words.extend(counted(word)),
        }
    }
    words
}

/// "1x400Gb/s" in two words: how many, and of what.
fn counted(word: &str) -> Vec<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let glued = word.split_once(['x', 'X']).filter(|(count, rest)| {
        let unit = rest.trim_start_matches(|c: char| is_digit(c) || c == '.');
        let is_count = !count.is_empty() && count.len() <= 3 && count.chars().all(is_digit);
        let is_rate = Unit::of(unit).is_some() || unit.eq_ignore_ascii_case("gbe");
        is_count && rest.starts_with(is_digit) && is_rate
    });
    match glued {
        Some((count, rest)) => vec![format!("{count}x"), rest.to_owned()],
        None => vec![word.to_owned()],
    }
}

/// The text without arrows between two ends, and with "Device(s)" in one word.
fn without_arrows(text: &str) -> String {
    let mut left = text.replace("(s)", "s");
    for arrow in ["<->", "->", "<-", "→", "←", "↔"] {
        left = left.replace(arrow, " ");
    }
    left
}

/// The text without ratios in brackets, "(1:32)" as tables have it beside a rate, and with lanes as
/// "x16" where they are written as "*16".
fn without_ratios(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        let (inside, behind) = after.split_once(')').unwrap_or((after, ""));
        let numbers = inside.split_once(':');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        left.push_str(before);
        match numbers.is_some_and(|(one, other)| is_number(one) && is_number(other)) {
            true => rest = behind,
            false => {
                left.push('(');
                rest = after;
            }
        }
    }
    left.push_str(rest);
    for lanes in ["16", "8", "4"] {
        left = left.replace(&format!("*{lanes}"), &format!(" x{lanes}"));
    }
    left
}

/// Whether the last word is the generation of a link: "NVLink 3 300 GB/s" has no 3300. The first
/// generation is never written so.
fn is_generation(words: &[String]) -> bool {
    let [.., name, number] = words else { return false };
    let is_digit = number.len() == 1 && number != "1";
    let link = wire::fabric_at(&[name.clone(), number.clone()]);
    is_digit && link.is_some_and(|(fabric, taken)| taken == 2 && fabric.generation.is_some())
}
