//! Numbers as people write them, where a comma means thousands to some and a fraction to others.
//!
//! A point always stands before a fraction, and commas always stand between groups of three digits
//! (`1,979`). Everything else is refused with the numbers that it may mean, and never guessed: read
//! as thousands, `4,8` would be ten times what was meant.

/// The number that a whole text is.
///
/// # Errors
/// In words: with every number that the text may mean.
pub fn number(text: &str) -> Result<f64, String> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let (whole, fraction) = match text.split_once('.') {
        None => (text, None),
        Some((whole, fraction)) => (whole, Some(fraction)),
    };
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let rest: Vec<&str> = groups.collect();
    let is_grouped = rest.is_empty()
        || (first.len() <= 3
            && !first.starts_with('0')
            && rest.iter().all(|group| group.len() == 3));
    let is_whole = is_digits(first) && is_grouped && rest.iter().all(|group| is_digits(group));
    let value = match is_whole && fraction.is_none_or(is_digits) {
        true => text.replace(',', "").parse::<f64>().ok(),
        false => None,
    };
    value.filter(|value| value.is_finite()).ok_or_else(|| refused(text))
}

/// A number above 0 that a whole text is.
///
/// # Errors
/// As [`number`], and where it is 0.
pub fn positive(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if value > 0.0 => Ok(value),
        _ => Err(format!("{text:?}: it is not above 0")),
    }
}

/// The number that a cell of a table is: digits with a point before a fraction, and an exponent
/// where there is one.
///
/// # Errors
/// In words: where it is none, with the numbers that it may mean.
pub fn cell(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    value.filter(|value| value.is_finite()).ok_or_else(|| refused(text.trim()))
}

/// What separates the columns of a table whose first line has no comma, in words.
pub fn other_separator(first_line: &str) -> Option<String> {
    let separators = [(';', "`;`"), ('\t', "tabs"), ('|', "`|`")];
    let is = |(one, _): &(char, &str)| first_line.contains(*one) && !first_line.contains(',');
    separators.into_iter().find(is).map(|(_, name)| {
        format!(
            "its columns are separated by {name}, and here by commas: write commas between them, \
             and a point before a fraction"
        )
    })
}

/// From here on, and below its reciprocal but 0, a number is written with an exponent.
const LONG: f64 = 1e9;

/// Whether a number has too many digits to be written without an exponent.
pub fn is_long(value: f64) -> bool {
    value.abs() >= LONG || value != 0.0 && value.abs() < 1.0 / LONG
}

/// Four significant digits at most, without zeros at the end: `9.876`, `98.5`, `9876`, `9.9e12`.
/// Never longer than eleven characters.
pub fn brief(value: f64) -> String {
    if !value.is_finite() {
        return "no number".into();
    }
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    // Four digits and more zeros than that before them are longer than with an exponent.
    let text = match is_long(value) || value != 0.0 && value.abs() < 1e-4 {
        true => format!("{value:.3e}"),
        false => format!("{value:.*}", (3 - magnitude).clamp(0, 12) as usize),
    };
    let (digits, exponent) = match text.split_once('e') {
        Some((digits, exponent)) => (digits, format!("e{exponent}")),
        None => (text.as_str(), String::new()),
    };
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{exponent}")
}

/// A number with `places` places after the point; one with too many digits as [`brief`] writes it.
pub fn fixed(value: f64, places: usize) -> String {
    let is_short = value.is_finite() && value.abs() < LONG;
    if is_short { format!("{value:.places$}") } else { brief(value) }
}

/// From here on a percentage is written as [`brief`] does it.
const LONG_PERCENT: f64 = 1e6;

/// A share as a percentage with `places` places after the point, and its sign: `64.2 %`. Absurd
/// figures stay readable: from a million on there are no places after the point, from a thousand
/// million on there is an exponent, and what would round to 0 has two digits. Never longer than 14
/// characters.
pub fn percent(share: f64, places: usize) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return brief(percent);
    }
    let least = 0.5 * 0.1_f64.powi(places as i32);
    match percent.abs() {
        0.0 => format!("{percent:.places$} %"),
        size if !(1e-4..LONG_PERCENT).contains(&size) => format!("{} %", brief(percent)),
        size if size < least => {
            let places = (1 - size.log10().floor() as i32) as usize;
            format!("{percent:.places$} %")
        }
        _ => format!("{percent:.places$} %"),
    }
}

/// Why a text is no number, with what it may mean.
fn refused(text: &str) -> String {
    let readings = readings(text);
    match readings.as_slice() {
        [] if text.is_empty() => "a number is missing; write digits, such as 4.8".into(),
        [] => format!("{text:?} is no number; write digits, with a point before a fraction: 4.8"),
        readings => format!(
            "{text:?} may mean {}: write it with a point before a fraction, and a comma only \
             between groups of three digits",
            readings.join(" or ")
        ),
    }
}

/// What a text with commas or several points may mean: with a comma before its fraction, and with
/// commas between thousands.
fn readings(text: &str) -> Vec<String> {
    let points_are_thousands = text.contains(',') || text.matches('.').count() > 1;
    let fraction = points_are_thousands.then(|| text.replace('.', "").replace(',', "."));
    let thousands = Some(text.replace(',', ""));
    let mut found = Vec::new();
    for reading in [fraction, thousands].into_iter().flatten() {
        let is_plain = reading.bytes().all(|one| one.is_ascii_digit() || one == b'.');
        let Some(value) = reading.parse::<f64>().ok().filter(|_| is_plain) else { continue };
        let value = value.to_string();
        if text != value && !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Whether two numbers with a comma between them may have been meant as one, `most` at most: by a
/// comma before its fraction (`2,5`), or between thousands (`1,200`).
pub fn may_be_one(text: &str, most: f64) -> Option<f64> {
    let (first, second) = text.split_once(',')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    if !is_digits(first) || !is_digits(second) {
        return None;
    }
    let one = match second.len() {
        1 | 2 => format!("{first}.{second}"),
        3 if first.len() <= 3 && !first.starts_with('0') => format!("{first}{second}"),
        _ => return None,
    };
    one.parse().ok().filter(|one| *one <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_numbers_of_any_size_are_short() {
        for exponent in -330..=304 {
            for digits in [1.0, -1.0, 9.999_96, 4.321] {
                let share = digits * 10f64.powi(exponent);
                for places in 0..=2 {
                    let words = percent(share, places);
                    assert!(words.chars().count() <= 14, "{share:e}: {words:?}");
                    let is_zero = !words.chars().any(|c| ('1'..='9').contains(&c));
                    assert_eq!(is_zero, share == 0.0, "{share:e}: {words:?}");
                    assert!(fixed(share, places).chars().count() <= 13, "{share:e}");
                }
            }
        }
        let said = [0.642, 1.0, 0.000_42, 1.6e-7, 12_345.678, 1e-9, 0.0].map(|one| percent(one, 1));
        let wanted = ["64.2 %", "100.0 %", "0.042 %", "1.6e-5 %", "1234568 %", "1e-7 %", "0.0 %"];
        assert_eq!(said, wanted);
        assert_eq!(
            (percent(f64::INFINITY, 1), percent(0.4, 0)),
            ("no number".into(), "40 %".into())
        );
    }

    #[test]
    fn cells_and_separators_that_are_none_are_named() {
        assert_eq!((cell(" 1e9 "), cell("-3.5")), (Ok(1e9), Ok(-3.5)));
        assert!(cell("").is_err_and(|why| why.contains("a number is missing")));
        for none in ["nan", "inf", "1e400", "x"] {
            assert!(cell(none).is_err_and(|why| why.contains("is no number")), "{none}");
        }
        assert!(cell("3,36").is_err_and(|why| why.contains("3.36")), "{:?}", cell("3,36"));
        assert!(other_separator("a;b").is_some_and(|words| words.contains("`;`")));
        assert_eq!((other_separator("a,b;c"), other_separator("a")), (None, None));
    }

    #[test]
    fn brief_numbers_are_short_whatever_they_are() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (98.5, "98.5"),
            (0.1 + 0.2, "0.3"),
            (123_456.0, "123456"),
            (0.000_123_456, "0.0001235"),
            (6.6e305, "6.6e305"),
            (-1.5e-300, "-1.5e-300"),
            (f64::NAN, "no number"),
        ] {
            assert_eq!(brief(value), text);
        }
        for exponent in -320..308 {
            let text = brief(-1.234_567 * 10f64.powi(exponent));
            assert!(text.len() <= 14, "{text}");
        }
    }

    #[test]
    fn points_stand_before_fractions_and_commas_between_thousands() {
        for (text, value) in [
            ("4.8", 4.8),
            ("480", 480.0),
            ("1,979", 1979.0),
            ("4,800", 4800.0),
            ("94,100", 94_100.0),
            ("1,234,567.25", 1_234_567.25),
            ("0.5", 0.5),
            ("0", 0.0),
        ] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
    }

    /// A decimal comma that is read as a separator of thousands is wrong by a power of ten.
    #[test]
    fn what_may_mean_two_numbers_is_refused_with_both() {
        for (text, readings) in [
            ("4,8", "4.8 or 48:"),
            ("1,9790", "1.979 or 19790:"),
            ("0,979", "0.979 or 979:"),
            ("1.234,5", "1234.5 or 1.2345:"),
            ("1.979.000", "1979000:"),
            ("12,34,567", "1234567:"),
            ("1,5", "1.5 or 15:"),
        ] {
            let why = number(text).expect_err(text);
            assert!(why.contains(&format!("may mean {readings}")), "{text}: {why}");
        }
        for text in ["", ".", ",", "-5", "+5", "1e3", "inf", "NaN", "1 979", "4.8x", "0x10", ".5"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(number(&"9".repeat(400)).is_err(), "it is no finite number");
        assert!(positive("0").is_err() && positive("0.0").is_err());
    }

    #[test]
    fn two_numbers_that_may_be_one_are_told_from_a_list() {
        assert_eq!(may_be_one("2,5", 1e4), Some(2.5));
        assert_eq!(may_be_one("1,200", 1e4), Some(1200.0));
        for list in ["700,750", "2.5,2.2", "700,1000", "2", "1,2,3", "2,", "0,200"] {
            assert_eq!(may_be_one(list, 1e4), None, "{list}");
        }
    }
}
