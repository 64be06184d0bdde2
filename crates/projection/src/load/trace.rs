//! Traces: requests that others recorded, with their moments and lengths.

use super::lengths::TOKENS_MAX;
use fizeau_domain::{
    number::{self, brief},
    python,
    text::counted,
    units::Seconds,
};
use serde_json::Value;
use std::collections::HashSet;

/// One request of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    /// Seconds after the first one.
    pub moment: f64,
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens of the answer.
    pub output: u32,
    /// The blocks of the prompt by their names (`hash_ids`), where the trace has them: what stands
    /// in a block and before it is the same in all prompts that have it.
    pub blocks: Vec<u64>,
}

/// Tokens of a block that traces have, the usual one first: Mooncake's, and those of others.
const BLOCKS: [u32; 7] = [512, 1_024, 256, 128, 64, 32, 16];

/// Columns by the names that public traces give them, in lower case.
const MOMENTS: [&str; 3] = ["timestamp", "arrived_at", "time"];
const INPUTS: [&str; 6] = [
    "input_length",
    "contexttokens",
    "request tokens",
    "num_prefill_tokens",
    "input_tokens",
    "prompt_tokens",
];
const OUTPUTS: [&str; 6] = [
    "output_length",
    "generatedtokens",
    "response tokens",
    "num_decode_tokens",
    "output_tokens",
    "completion_tokens",
];

/// In what a trace counts its moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Dates with times of day.
    Dates,
}

impl Unit {
    /// Seconds in one.
    const fn seconds(self) -> f64 {
        match self {
            Unit::Seconds | Unit::Dates => 1.0,
            Unit::Milliseconds => 1e-3,
            Unit::Microseconds => 1e-6,
            Unit::Nanoseconds => 1e-9,
        }
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Milliseconds => "milliseconds",
            Unit::Microseconds => "microseconds",
            Unit::Nanoseconds => "nanoseconds",
            Unit::Dates => "dates",
        }
    }
}

/// A trace as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Requests in the order of their moments.
    pub requests: Vec<Traced>,
    /// What moments were read as.
    pub unit: Unit,
    /// Whether the unit was stated: else it is the usual one of the trace's form.
    pub is_stated: bool,
    /// Requests without a prompt, which are left out.
    pub without_prompt: usize,
    /// Requests with a prompt and without an answer, which are left out.
    pub without_answer: usize,
    /// Whether it says which parts of prompts are the same (`hash_ids`).
    pub has_hashes: bool,
    /// Tokens of a block of these, by the lengths of all prompts; none where no number of tokens
    /// agrees with them.
    pub block: Option<u32>,
    /// Whether its last line is torn, and left out.
    pub is_torn: bool,
}

/// A unit that is not stated may give no more requests a second than this on average: nobody
/// recorded such a trace, and a trace in seconds that is read as milliseconds comes to it.
const RATE_MOST: f64 = 10_000.0;

/// Moments between these, in seconds since 1970, are dates: 2001 to 2100. A trace that counts from
/// its own beginning and whose moments look like dates of another unit is one of that unit.
const DATES: std::ops::Range<f64> = 978_307_200.0..4_102_444_800.0;

/// No trace lasts longer, in seconds.
const LONGEST: f64 = 100.0 * 86_400.0;

/// What a user can do who knows the unit.
const REMEDY: &str = "state the unit with --trace-unit s, ms, us or ns";

/// Lines of a trace before they are put in order.
#[derive(Default)]
struct Lines {
    list: Vec<Traced>,
    has_dates: bool,
    has_hashes: bool,
    is_torn: bool,
    /// The first line whose moment has a fraction.
    fraction: Option<usize>,
}

/// Reads a trace: JSON Lines as Mooncake's (`timestamp` in milliseconds, `input_length`,
/// `output_length`), or CSV with columns as Azure's (`TIMESTAMP,ContextTokens,GeneratedTokens`) or
/// BurstGPT's (`Timestamp`, `Request tokens`, `Response tokens`; seconds). A unit that is stated
/// takes the place of these. Requests are put in the order of their moments; those without a prompt
/// or an answer are left out.
///
/// # Errors
/// In words: which line is not understood, or why moments cannot be of the unit that is usual.
pub fn read(text: &str, stated: Option<Unit>) -> Result<Trace, String> {
    let first = text.lines().find(|line| !line.trim().is_empty()).ok_or("it is empty")?;
    if first.trim_start().starts_with('[') {
        return Err(
            "it is a JSON array, and traces are JSON Lines, an object on each line: `jq -c '.[]'` \
             makes these"
                .into(),
        );
    }
    let is_json = first.trim_start().starts_with('{');
    let mut lines = if is_json { json_lines(text)? } else { table(text)? };
    let unit = match stated {
        Some(_) if lines.has_dates => {
            return Err("its moments are dates: leave out --trace-unit".into());
        }
        Some(unit) => unit,
        None if lines.has_dates => Unit::Dates,
        None if is_json => Unit::Milliseconds,
        None => Unit::Seconds,
    };
    if let (Some(line), None, Unit::Milliseconds) = (lines.fraction, stated, unit) {
        return Err(format!(
            "line {line}: its timestamp has a fraction, and those of such traces are whole \
             milliseconds: {REMEDY}"
        ));
    }
    if let (None, Some(other)) = (stated, unit_of_dates(&lines, unit)) {
        return Err(format!(
            "its timestamps are dates if they count {} since 1970, and were to be read as {}: \
             {REMEDY}",
            other.name(),
            unit.name()
        ));
    }
    let list = &mut lines.list;
    let without_prompt = list.iter().filter(|one| one.input == 0).count();
    let without_answer = list.iter().filter(|one| one.input > 0 && one.output == 0).count();
    list.retain(|one| one.input > 0 && one.output > 0);
    list.sort_by(|one, other| one.moment.total_cmp(&other.moment));
    let start = list.first().ok_or("there is no request in it")?.moment;
    list.iter_mut().for_each(|one| one.moment = (one.moment - start) * unit.seconds());
    let (last, after) = (list.last().map_or(0.0, |one| one.moment), list.len() as f64 - 1.0);
    if last > LONGEST {
        return Err(format!("read as {}, it lasts longer than 100 days: {REMEDY}", unit.name()));
    }
    if stated.is_none() && after > last * RATE_MOST {
        return Err(format!(
            "its timestamps were read as {}, and then its {} requests come within {}, more than \
             10,000 a second: {REMEDY}",
            unit.name(),
            list.len(),
            Seconds(last)
        ));
    }
    Ok(Trace {
        block: block_of(&lines.list),
        requests: lines.list,
        unit,
        is_stated: stated.is_some(),
        without_prompt,
        without_answer,
        has_hashes: lines.has_hashes,
        is_torn: lines.is_torn,
    })
}

/// The unit by which moments are dates since 1970, where it is not the one that they are read in.
fn unit_of_dates(lines: &Lines, read_as: Unit) -> Option<Unit> {
    let first = lines.list.iter().map(|one| one.moment).reduce(f64::min)?;
    let units = [Unit::Seconds, Unit::Milliseconds, Unit::Microseconds, Unit::Nanoseconds];
    let of = units.into_iter().find(|unit| DATES.contains(&(first * unit.seconds())))?;
    (read_as != Unit::Dates && of != read_as).then_some(of)
}

impl Trace {
    /// What was read and what was left out, a sentence for each.
    pub fn words(&self) -> Vec<String> {
        let span = self.requests.last().map_or(0.0, |one| one.moment);
        let after = self.requests.len().saturating_sub(1) as f64;
        let rate = match span > 0.0 {
            true => format!(", {} requests/s on average", brief(after / span)),
            false => String::new(),
        };
        let how = match (self.is_stated, self.unit) {
            (true, _) => "as --trace-unit says",
            (false, Unit::Dates) => "as they are written",
            (false, _) => "as is usual for traces of this form; --trace-unit states another",
        };
        let mut words = vec![format!(
            "trace: {} in {}{rate}; timestamps read as {}, {how}",
            counted(self.requests.len(), "request"),
            Seconds(span).human(),
            self.unit.name()
        )];
        for (count, of) in [
            (self.without_prompt, "without a prompt"),
            (self.without_answer, "without an answer, as those that failed"),
        ] {
            if count > 0 {
                words.push(format!("left out of the trace: {} {of}", counted(count, "request")));
            }
        }
        if self.is_torn {
            words.push(format!("the trace: {}", super::read::TORN));
        }
        match self.block {
            Some(size) => words.push(format!(
                "prompts share blocks of {size} tokens as the trace's hash_ids say: a prefix cache \
                 that forgets nothing finds {:.1} % of their tokens",
                100.0 * self.shared_tokens(size)
            )),
            None if self.has_hashes => words.push(
                "the trace's hash_ids are not followed, since they do not agree with the lengths \
                 of its prompts: prompts have random words, and share no beginning that a prefix \
                 cache would know"
                    .into(),
            ),
            None => {}
        }
        words
    }

    /// The share of all prompts' tokens that stood at the beginning of earlier ones, in whole
    /// blocks.
    pub fn shared_tokens(&self, size: u32) -> f64 {
        let mut known = HashSet::new();
        let (mut shared, mut all) = (0.0, 0.0);
        for one in &self.requests {
            let found = one.blocks.iter().take_while(|id| known.contains(*id)).count();
            shared += (found as f64 * f64::from(size)).min(f64::from(one.input));
            all += f64::from(one.input);
            known.extend(one.blocks.iter().copied());
        }
        shared / f64::max(all, 1.0)
    }
}

/// Tokens of a block, where every prompt has as many blocks as its length takes.
fn block_of(requests: &[Traced]) -> Option<u32> {
    let agrees = |size: u32| {
        let takes = |one: &Traced| one.input.div_ceil(size) as usize;
        requests.iter().all(|one| !one.blocks.is_empty() && one.blocks.len() == takes(one))
    };
    BLOCKS.into_iter().find(|size| agrees(*size))
}

fn tokens(number: Option<f64>, line: usize) -> Result<u32, String> {
    let whole = number.filter(|tokens| (0.0..=f64::from(TOKENS_MAX)).contains(tokens));
    let whole = whole.filter(|tokens| tokens.fract() == 0.0);
    whole.map(|tokens| tokens as u32).ok_or_else(|| format!("line {line}: a length is no number"))
}

/// Whether a line is the last one of a text, and has no end.
fn is_last(text: &str, line: &str) -> bool {
    text.ends_with(line)
}

/// Why a line is no JSON.
fn why(line: &str, error: &serde_json::Error) -> String {
    match python::json(line) == line {
        true => error.to_string(),
        false => "it has NaN or Infinity, which are no moments and no lengths".into(),
    }
}

/// Of a line without a moment.
const NO_MOMENT: &str = "it has no timestamp: each line is a request, with its own moment";

/// Of a line without a length.
const NO_LENGTH: &str = "lengths in tokens are needed, and texts are not counted";

fn json_lines(text: &str) -> Result<Lines, String> {
    let mut lines = Lines::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line_number = at + 1;
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            // Its writer was killed, or the file was cut.
            Err(error) if error.is_eof() && is_last(text, line) && !lines.list.is_empty() => {
                lines.is_torn = true;
                break;
            }
            Err(error) => return Err(format!("line {line_number}: {}", why(line, &error))),
        };
        let find = |names: &[&str]| names.iter().find_map(|name| value.get(*name));
        let moment = find(&MOMENTS).ok_or_else(|| format!("line {line_number}: {NO_MOMENT}"))?;
        let date = moment.as_str().and_then(seconds);
        lines.has_dates |= date.is_some();
        let moment = date.or_else(|| moment.as_f64()).filter(|moment| moment.is_finite());
        let moment = moment.ok_or_else(|| {
            format!("line {line_number}: its timestamp is neither a number nor a date with a time")
        })?;
        if moment.fract() != 0.0 {
            lines.fraction.get_or_insert(line_number);
        }
        let length = |names: &[&str]| {
            let known = find(names).ok_or_else(|| {
                format!("line {line_number}: it has no {:?}: {NO_LENGTH}", names[0])
            })?;
            tokens(known.as_f64(), line_number)
        };
        let blocks = value.get("hash_ids");
        lines.has_hashes |= blocks.is_some();
        let names = blocks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        lines.list.push(Traced {
            blocks: names.iter().map(Value::as_u64).collect::<Option<_>>().unwrap_or_default(),
            moment,
            input: length(&INPUTS)?,
            output: length(&OUTPUTS)?,
        });
    }
    Ok(lines)
}

fn table(text: &str) -> Result<Lines, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let separator = number::other_separator(text.lines().next().unwrap_or_default());
    let column = |names: &[&str]| {
        let of = |name: &str| names.contains(&name.trim().to_lowercase().as_str());
        let none = || format!("its first line has no column {}", names.join(" or "));
        let why = || separator.clone().unwrap_or_else(none);
        header.iter().position(of).ok_or_else(why)
    };
    let (moments, inputs, outputs) = (column(&MOMENTS)?, column(&INPUTS)?, column(&OUTPUTS)?);
    let mut lines = Lines::default();
    for (at, row) in reader.records().enumerate() {
        let line = at + 2;
        let row = row.map_err(|error| format!("line {line}: {error}"))?;
        let cell = |at: usize| row.get(at).unwrap_or_default().trim();
        let length = |at: usize| tokens(number::cell(cell(at)).ok(), line);
        let moment = match (number::cell(cell(moments)), seconds(cell(moments))) {
            (Ok(moment), _) => moment,
            (Err(_), Some(moment)) => {
                lines.has_dates = true;
                moment
            }
            (Err(why), None) => return Err(format!("line {line}: its timestamp is none: {why}")),
        };
        let (input, output) = (length(inputs)?, length(outputs)?);
        lines.list.push(Traced { moment, input, output, blocks: Vec::new() });
    }
    Ok(lines)
}

/// Seconds since 1970 of `2023-11-16 18:17:03.9799600`, with a T instead of the space, or with a Z
/// or an offset at its end, which is ignored: moments of one file have one offset.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let is_date = (1..=9_999).contains(&year) && (1..=12).contains(&month);
    (is_date && (1..=31).contains(&day)).then_some(())?;
    let time = time.split(['Z', '+', '-']).next()?;
    let mut time = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_time = (0.0..24.0).contains(&hour) && (0.0..60.0).contains(&minute);
    (is_time && (0.0..61.0).contains(&second)).then_some(())?;
    // Days from civil (Howard Hinnant, 2013).
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9).rem_euclid(12);
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_three_kinds_are_read() {
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 18:17:03.5,4808,10\n2023-11-16 18:17:04.25,3180,8\n";
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     45.25,ChatGPT,3180,8,3188,x\n44.5,GPT-4,4808,10,4818,x\n46,GPT-4,5,0,5,x\n";
        let mooncake = "{\"timestamp\": 500, \"input_length\": 4808, \"output_length\": 10}\n\
                        {\"timestamp\": 1250, \"input_length\": 3180, \"output_length\": 8}\n";
        let wanted = [
            Traced { moment: 0.0, input: 4_808, output: 10, blocks: Vec::new() },
            Traced { moment: 0.75, input: 3_180, output: 8, blocks: Vec::new() },
        ];
        for (text, unit, without_answer) in
            [(azure, Unit::Dates, 0), (burst, Unit::Seconds, 1), (mooncake, Unit::Milliseconds, 0)]
        {
            let trace = read(text, None).expect(text);
            assert_eq!(trace.requests, wanted, "{text}");
            assert_eq!((trace.unit, trace.without_answer), (unit, without_answer), "{text}");
        }
        let midnight = seconds("2024-02-29T23:59:59Z").zip(seconds("2024-03-01 00:00:00"));
        assert_eq!(midnight.map(|(before, after)| after - before), Some(1.0));
        assert_eq!(seconds("1970-01-02 00:00:00"), Some(86_400.0));
        for none in [
            "2024-9223372036854775807-1 1:1:1",
            "9999-99-99 99:99:99",
            "2024-1-1 24:0:0",
            "-1-1-1 0:0:0",
        ] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }

    #[test]
    fn a_unit_is_stated_or_refused() {
        let seconds = include_str!("../../../../tests/served/trace-seconds.jsonl");
        let why = read(seconds, None).expect_err("fractions of milliseconds");
        assert!(why.contains("line 1") && why.contains("--trace-unit s"), "{why}");
        let trace = read(seconds, Some(Unit::Seconds)).expect("stated");
        assert!((trace.requests[1].moment - 1.0).abs() < 1e-9, "{trace:?}");
        let words = trace.words().join("\n");
        assert!(words.contains("2 requests in 1"), "{words}");
        assert!(words.contains("read as seconds, as --trace-unit says"), "{words}");
        assert!(words.contains("hash_ids are not followed"), "{words}");
        // Whole seconds that are read as milliseconds: 500 requests a second are 500,000.
        let dense: String = (0..1_000)
            .map(|at| {
                format!(
                    "{{\"timestamp\": {}, \"input_length\": 5, \"output_length\": 5}}\n",
                    at / 500
                )
            })
            .collect();
        let why = read(&dense, None).expect_err("500,000 a second");
        assert!(why.contains("more than 10,000 a second") && why.contains("--trace-unit"), "{why}");
        let last = |unit| read(&dense, Some(unit)).map(|trace| trace.requests[999].moment);
        assert_eq!(last(Unit::Milliseconds), Ok(0.001), "stated, it is taken");
        assert_eq!((last(Unit::Seconds), last(Unit::Microseconds)), (Ok(1.0), Ok(1e-6)));
        // Nanoseconds since 1970 that are read as seconds.
        let long = "timestamp,input_length,output_length\n1700000000000000000,2,3\n\
                    1700000090000000000,2,3\n";
        assert!(read(long, None).expect_err("too long").contains("--trace-unit"));
        let trace = read(long, Some(Unit::Nanoseconds)).expect("stated");
        assert!((trace.requests[1].moment - 90.0).abs() < 1e-6, "{trace:?}");
        let dates = "timestamp,input_length,output_length\n2024-01-01 00:00:00,2,3\n";
        assert!(read(dates, Some(Unit::Seconds)).expect_err("dates").contains("are dates"));
        assert!(read(dates, None).is_ok_and(|trace| trace.words()[0].contains("read as dates")));
    }

    #[test]
    fn moments_that_are_dates_of_another_unit_are_refused() {
        let json = |first: f64, step: f64| -> String {
            let line = |at: u32| {
                let moment = first + step * f64::from(at);
                format!("{{\"timestamp\": {moment}, \"input_length\": 5, \"output_length\": 5}}\n")
            };
            (0..20).map(line).collect()
        };
        // Each is 2024-11-14, a request every quarter of a second or second.
        for (first, step, words) in [
            (1_731_600_000.0, 1.0, "count seconds since 1970, and were to be read as milliseconds"),
            (1_731_600_000e6, 250_000.0, "count microseconds since 1970"),
            (1_731_600_000e9, 250_000_000.0, "count nanoseconds since 1970"),
        ] {
            let why = read(&json(first, step), None).expect_err("another unit");
            assert!(why.contains(words) && why.contains("--trace-unit"), "{why}");
        }
        let usual = read(&json(1_731_600_000e3, 250.0), None).expect("milliseconds");
        assert!((usual.requests[19].moment - 4.75).abs() < 1e-9, "{usual:?}");
        let stated = read(&json(1_731_600_000.0, 1.0), Some(Unit::Seconds)).expect("stated");
        assert!((stated.requests[19].moment - 19.0).abs() < 1e-9, "{stated:?}");
        // A table's moments are read as seconds.
        let table = "timestamp,input_length,output_length\n1731600000000,2,3\n1731600000300,2,3\n";
        assert!(read(table, None).expect_err("ms").contains("count milliseconds since 1970"));
        let table = "timestamp,input_length,output_length\n1731600000,2,3\n1731600003,2,3\n";
        assert!(read(table, None).is_ok_and(|trace| trace.requests[1].moment == 3.0));
    }

    #[test]
    fn json_lines_may_have_dates() {
        let line = |at: &str| {
            format!("{{\"timestamp\": \"{at}\", \"input_length\": 5, \"output_length\": 5}}\n")
        };
        let text = line("2024-05-10T00:00:00.5Z") + &line("2024-05-10T00:00:02.75Z");
        let trace = read(&text, None).expect("dates");
        assert_eq!((trace.requests[1].moment, trace.unit), (2.25, Unit::Dates));
        assert!(read(&text, Some(Unit::Seconds)).expect_err("dates").contains("are dates"));
    }

    #[test]
    fn blocks_have_the_size_that_lengths_say() {
        let line = |at: u32, input: u32, ids: &str| {
            format!(
                "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": 5, \
                 \"hash_ids\": [{ids}]}}\n"
            )
        };
        let of = |lines: &[String]| read(&lines.concat(), None).expect("a trace");
        let trace = of(&[line(0, 1_000, "1, 2"), line(1, 1_500, "1, 2, 3"), line(2, 10, "4")]);
        assert_eq!(trace.block, Some(512));
        // 1,000 of 2,510: whole blocks, as far as the prompt has tokens.
        assert!((trace.shared_tokens(512) - 1_024.0 / 2_510.0).abs() < 1e-12);
        assert!(trace.words().join("\n").contains("finds 40.8 % of their tokens"));
        assert_eq!(of(&[line(0, 40, "1, 2, 3"), line(1, 16, "1")]).block, Some(16));
        let odd = of(&[line(0, 1_000, "1, 2, 3")]);
        assert_eq!((odd.block, odd.has_hashes), (None, true));
        assert!(odd.words().join("\n").contains("hash_ids are not followed"));
        assert_eq!(of(&[line(0, 1_000, "\"a\", \"b\"")]).block, None, "no numbers");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let zero = include_str!("../../../../tests/served/trace-zero-output.jsonl");
        let trace = read(zero, None).expect("one request");
        assert_eq!((trace.requests.len(), trace.without_answer, trace.without_prompt), (1, 1, 0));
        let words = trace.words().join("\n");
        assert!(words.contains("1 request without an answer"), "{words}");
        let empty = "timestamp,input_length,output_length\n0,0,3\n1,0,0\n2,5,5\n";
        let trace = read(empty, None).expect("one request");
        assert_eq!((trace.requests.len(), trace.without_answer, trace.without_prompt), (1, 0, 2));
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_said() {
        let whole = "{\"timestamp\": 0, \"input_length\": 2, \"output_length\": 3}\n";
        let trace = read(&format!("{whole}{{\"timestamp\": 9, \"inp"), None).expect("one line");
        assert_eq!((trace.requests.len(), trace.is_torn), (1, true));
        assert!(trace.words().join("\n").contains("its last line is torn"), "{trace:?}");
        // A line that is torn and not the last one is another fault.
        let why = read(&format!("{whole}{{\"timestamp\": 9, \"inp\n{whole}"), None);
        assert!(why.expect_err("torn").contains("line 2"));
        let why = read(&format!("{whole}{{\"timestamp\": 9, \"inp\n"), None);
        assert!(why.expect_err("it has an end").contains("line 2"));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, words) in [
            ("", "it is empty"),
            ("a,b\n1,2\n", "no column timestamp"),
            ("{\"timestamp\": 1}\n", "line 1: it has no \"input_length\""),
            ("{\"timestamp\": 1, \"input_length\": \"2\"}\n", "line 1: a length is no number"),
            ("{\"timestamp\": \"7\", \"input_length\": 2}\n", "neither a number nor a date"),
            ("{\"delay\": 7, \"input_length\": 2}\n", "line 1: it has no timestamp"),
            ("{\"a\": \n", "line 1"),
            ("[{\"timestamp\": 1}]", "a JSON array"),
            ("{\"timestamp\": NaN, \"input_length\": 2}\n", "line 1: it has NaN"),
            ("timestamp,input_length,output_length\n1,2,3\nx,2,3\n", "line 3: its timestamp"),
            ("timestamp,input_length,output_length\n1,2.5,3\n", "line 2: a length"),
            ("timestamp,input_length,output_length\n", "no request"),
            ("timestamp;input_length;output_length\n1;2;3\n", "separated by `;`"),
            ("timestamp,input_length,output_length\n\"1,25\",2,3\n", "1.25"),
            ("timestamp,input_length,output_length\nnan,2,3\n", "line 2"),
            ("timestamp,input_length,output_length\n1,nan,3\n", "line 2"),
        ] {
            let why = read(text, None).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
