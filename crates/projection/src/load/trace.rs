//! Traces: requests that others recorded, with their moments and lengths.

use super::lengths::TOKENS_MAX;
use serde_json::Value;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Seconds after the first one.
    pub moment: f64,
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens of the answer.
    pub output: u32,
}

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

/// Reads a trace: JSON Lines as Mooncake's (`timestamp` in milliseconds, `input_length`,
/// `output_length`), or CSV with columns as Azure's (`TIMESTAMP,ContextTokens,GeneratedTokens`) or
/// BurstGPT's (`Timestamp`, `Request tokens`, `Response tokens`; seconds). Requests are put in the
/// order of their moments; those without a prompt or an answer are left out.
///
/// # Errors
/// In words: which line is not understood.
pub fn read(text: &str) -> Result<Vec<Traced>, String> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut list = match first.trim_start().starts_with('{') {
        true => json_lines(text)?,
        false => table(text)?,
    };
    list.retain(|one| one.input > 0 && one.output > 0);
    list.sort_by(|one, other| one.moment.total_cmp(&other.moment));
    let start = list.first().ok_or("there is no request in it")?.moment;
    list.iter_mut().for_each(|one| one.moment -= start);
    match list.last().is_some_and(|last| last.moment > LONGEST) {
        true => Err("it lasts longer than 100 days: its moments are no seconds".into()),
        false => Ok(list),
    }
}

/// No trace lasts longer, in seconds.
const LONGEST: f64 = 100.0 * 86_400.0;

fn tokens(number: Option<f64>, line: usize) -> Result<u32, String> {
    let whole = number.filter(|tokens| (0.0..=f64::from(TOKENS_MAX)).contains(tokens));
    let whole = whole.filter(|tokens| tokens.fract() == 0.0);
    whole.map(|tokens| tokens as u32).ok_or_else(|| format!("line {line}: a length is no number"))
}

fn json_lines(text: &str) -> Result<Vec<Traced>, String> {
    let mut list = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line_number = at + 1;
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("line {line_number}: {error}"))?;
        let find = |names: &[&str]| names.iter().find_map(|name| value[*name].as_f64());
        let moment = find(&MOMENTS).filter(|moment| moment.is_finite());
        list.push(Traced {
            moment: moment.ok_or_else(|| format!("line {line_number}: it has no timestamp"))?
                * 1e-3,
            input: tokens(find(&INPUTS), line_number)?,
            output: tokens(find(&OUTPUTS), line_number)?,
        });
    }
    Ok(list)
}

fn table(text: &str) -> Result<Vec<Traced>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = |names: &[&str]| {
        let of = |name: &str| names.contains(&name.trim().to_lowercase().as_str());
        let at = header.iter().position(of);
        at.ok_or_else(|| format!("its first line has no column {}", names.join(" or ")))
    };
    let (moments, inputs, outputs) = (column(&MOMENTS)?, column(&INPUTS)?, column(&OUTPUTS)?);
    let mut list = Vec::new();
    for (at, row) in reader.records().enumerate() {
        let line = at + 2;
        let row = row.map_err(|error| format!("line {line}: {error}"))?;
        let cell = |at: usize| row.get(at).unwrap_or_default().trim();
        let number = |at: usize| cell(at).parse::<f64>().ok();
        let moment = number(moments).or_else(|| seconds(cell(moments)));
        let moment = moment.filter(|moment| moment.is_finite());
        list.push(Traced {
            moment: moment.ok_or_else(|| format!("line {line}: its timestamp is none"))?,
            input: tokens(number(inputs), line)?,
            output: tokens(number(outputs), line)?,
        });
    }
    Ok(list)
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
            Traced { moment: 0.0, input: 4_808, output: 10 },
            Traced { moment: 0.75, input: 3_180, output: 8 },
        ];
        for text in [azure, burst, mooncake] {
            assert_eq!(read(text).as_deref(), Ok(&wanted[..]), "{text}");
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
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, words) in [
            ("", "no column timestamp"),
            ("{\"timestamp\": 1}\n", "line 1: a length"),
            ("{\"a\": \n", "line 1"),
            ("timestamp,input_length,output_length\n1,2,3\nx,2,3\n", "line 3: its timestamp"),
            ("timestamp,input_length,output_length\n1,2.5,3\n", "line 2: a length"),
            ("timestamp,input_length,output_length\n", "no request"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
