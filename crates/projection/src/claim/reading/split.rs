//! A text in words.

use crate::claim::{
    unit::{Parts, Unit},
    vocabulary::dtype,
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
                let is_taken = Parts::default().take(&next.to_ascii_lowercase());
                match words.last_mut().filter(|last| is_taken && is_of_clock(last, next)) {
                    // "8,192 FLOPS per clock": a rate only by what follows.
                    Some(last) => *last = format!("{last}/{next}"),
                    None if is_taken => words.push(format!("/{next}")),
                    None => words.extend(["per".into(), next.to_owned()]),
                }
            }
            _ if is_group && is_begun && !is_generation(&words) => {
                let last = words.last_mut().expect("it was begun");
                last.push(',');
                last.push_str(word);
            }
            "context" | "ctx" if words.last().is_some_and(|last| is_length(last)) => {
                // The shortest one is taken, which is in the claim's favour.
                words.pop();
            }
            "module" | "modules" if words.last().is_some_and(|last| is_oam(last)) => {}
            lower if is_shape(lower) => {}
            _ => words.extend(apart(word)),
        }
    }
    in_digits(&mut words);
    copies_within_a_device(words)
}

/// "FLOPS" before "per clock".
fn is_of_clock(last: &str, next: &str) -> bool {
    let is_operations = ["flop", "flops", "op", "ops"].contains(&&*last.to_ascii_lowercase());
    is_operations && ["clock", "clk", "cycle"].contains(&&*next.to_ascii_lowercase())
}

/// "1K", "32k", "8192": how long a context is.
fn is_length(word: &str) -> bool {
    let digits = word.trim_end_matches(['k', 'K', 'm', 'M']);
    digits.len() + 1 >= word.len() && digits.replace(',', "").parse::<u32>().is_ok()
}

/// "per OAM", "8 OAMs".
fn is_oam(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    matches!(lower.trim_start_matches('/'), "oam" | "oams")
}

/// "8192x8192x8192": the shape of a product, and no rate.
fn is_shape(lower: &str) -> bool {
    let sides = lower.split('x').count();
    let is_side = |side: &str| !side.is_empty() && side.bytes().all(|b| b.is_ascii_digit());
    (sides == 3 || sides == 2 && lower.len() >= 9) && lower.split('x').all(is_side)
}

/// Words that are written as one: "NVLink-only", "dual-socket", "FP4-Sparse", "tput/GPU".
fn apart(word: &str) -> Vec<String> {
    let lower = word.to_ascii_lowercase();
    if let Some(rest) = lower.strip_suffix("-only") {
        return counted(&word[..rest.len()]);
    }
    if let Some((count, "socket")) = lower.rsplit_once('-') {
        return vec![count.to_owned(), "socket".into()];
    }
    if let Some((of, sparse)) = lower.split_once('-')
        && matches!(sparse, "sparse" | "dense" | "sparsity")
        && dtype(of).is_some()
    {
        return vec![of.to_owned(), sparse.to_owned()];
    }
    match lower.split_once('/') {
        Some(("tput" | "throughput", whose)) => vec!["throughput".into(), format!("/{whose}")],
        _ if lower == "tput" => vec!["throughput".into()],
        _ => counted(word),
    }
}

/// Small numbers as headlines write them before a unit: "five petaflops".
fn in_digits(words: &mut [String]) {
    const NUMBERS: [&str; 12] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    for at in 1..words.len() {
        let lower = words[at - 1].to_ascii_lowercase();
        let number = NUMBERS.iter().position(|name| *name == lower);
        if let Some(number) = number.filter(|_| Unit::of(&words[at]).is_some()) {
            words[at - 1] = (number + 1).to_string();
        }
    }
}

/// "Device to Device", where no link is named beside it, is what CUDA's bandwidthTest calls a copy
/// within the memory of one device.
fn copies_within_a_device(words: Vec<String>) -> Vec<String> {
    let is_phrase = |at: usize| {
        let three = words.get(at..at + 3).unwrap_or_default();
        let phrase = ["device", "to", "device"];
        three.len() == 3 && three.iter().zip(phrase).all(|(one, is)| one.eq_ignore_ascii_case(is))
    };
    let Some(start) = (0..words.len()).find(|at| is_phrase(*at)) else { return words };
    let (before, after) = (&words[..start], &words[start + 3..]);
    let names_link =
        |part: &[String]| (0..part.len()).any(|at| wire::fabric_at(&part[at..]).is_some());
    match names_link(before) || names_link(after) {
        true => words,
        false => [before, &["memory".to_owned()], after].concat(),
    }
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
