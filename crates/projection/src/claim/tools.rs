//! Lines that programs print, in the words of a claim: llama.cpp, Ollama, vLLM, SGLang and
//! nccl-tests write several numbers in a line, of which one is the figure.

/// A line as a claim words it.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// The figure with its conditions.
    pub claim: String,
    /// Which program's line it is, and how it was read.
    pub said: String,
}

/// A number right before, or right after, some words.
fn number_before<'t>(text: &'t str, words: &str) -> Option<&'t str> {
    let at = text.find(words)?;
    let last = text[..at].split_whitespace().next_back()?;
    let last = last.trim_start_matches(['(', ',']);
    last.starts_with(|c: char| c.is_ascii_digit()).then_some(last)
}

fn number_after<'t>(text: &'t str, words: &str) -> Option<&'t str> {
    let at = text.find(words)? + words.len();
    let rest = text[at..].trim_start_matches([':', '=', ' ', '\t']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

fn line(claim: String, program: &str) -> Option<Line> {
    let said = format!("a line of {program}, read as: {claim}");
    Some(Line { claim, said })
}

/// `llama_print_timings: eval time = 2712.42 ms / 199 runs ( 13.63 ms per token, 73.37 tokens per
/// second)`, and Ollama's `eval rate: 62.1 tokens/s`.
fn eval(text: &str) -> Option<Line> {
    let lower = text.to_ascii_lowercase();
    let is_prompt = lower.contains("prompt eval");
    let (rate, program) = if lower.contains("eval rate") {
        (number_after(&lower, "eval rate"), "Ollama")
    } else if lower.contains("eval time") {
        (number_before(&lower, "tokens per second"), "llama.cpp")
    } else {
        (None, "")
    };
    let unit = if is_prompt { "input tok/s" } else { "output tok/s/user" };
    line(format!("{} {unit}", rate?), program)
}

/// A row of llama-bench: `| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | 99 | tg128 | 145.23
/// ± 0.25 |`.
fn llama_bench(text: &str) -> Option<Line> {
    let cells: Vec<&str> = text.split('|').map(str::trim).filter(|one| !one.is_empty()).collect();
    let is_test = |cell: &&&str| {
        let digits = cell.strip_prefix("tg").or_else(|| cell.strip_prefix("pp"));
        digits.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let test = cells.iter().find(is_test)?;
    let rate = cells.last()?.split_whitespace().next()?;
    rate.replace(',', "").parse::<f64>().ok()?;
    let tokens: String = test[2..].chars().take_while(char::is_ascii_digit).collect();
    // "pp512+tg128" counts the tokens of a prompt and of its answer, one after the other.
    let answer = test.split_once("tg").filter(|_| test.starts_with("pp"));
    let answered = answer.map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit));
    if let Some(answered) = answered.map(Iterator::collect::<String>) {
        let claim = format!("{rate} total tok/s isl {tokens} osl {answered} batch 1");
        return line(with_format(&claim, &cells), "llama-bench");
    }
    let claim = match test.starts_with("pp") {
        true => format!("{rate} input tok/s isl {tokens}"),
        false => format!("{rate} output tok/s/user osl {tokens}"),
    };
    line(with_format(&claim, &cells), "llama-bench")
}

/// A claim with the format of weights, which is a word of a row's first cell.
fn with_format(claim: &str, cells: &[&str]) -> String {
    let is_format = |word: &&str| word.starts_with(['Q', 'q']) && word.len() > 2;
    let format = cells.first().and_then(|cell| cell.split_whitespace().find(is_format));
    format!("{claim} {}", format.unwrap_or_default()).trim_end().to_owned()
}

/// vLLM's and SGLang's logs, and the throughput of vLLM's benchmark.
fn server(text: &str) -> Option<Line> {
    let running = |words: &str| {
        let batch = number_after(text, words).filter(|count| *count != "0");
        batch.map(|count| format!(" batch {count}")).unwrap_or_default()
    };
    if let Some(rate) = number_after(text, "Avg generation throughput") {
        return line(format!("{rate} output tok/s{}", running("Running")), "vLLM's log");
    }
    if let Some(rate) = number_after(text, "gen throughput (token/s)") {
        return line(format!("{rate} output tok/s{}", running("#running-req")), "SGLang's log");
    }
    if text.contains("requests/s") {
        let output = number_before(text, "output tokens/s").map(|rate| format!("{rate} output"));
        let total = || number_before(text, "total tokens/s").map(|rate| format!("{rate} total"));
        let rate = output.or_else(total)?;
        return line(format!("{rate} tok/s"), "vLLM's benchmark");
    }
    None
}

/// Milliseconds from a token of an answer to the next, of a serving benchmark or in words: `Mean
/// TPOT (ms): 9.83`, `Inter-token latency: 7.1 ms`, `TPOT of 25 ms`. Of percentiles only the middle
/// one is a rate.
fn token_latency(text: &str) -> Option<Line> {
    const NAMES: [&str; 4] = ["tpot", "itl", "inter-token latency", "time per output token"];
    let lower = text.to_ascii_lowercase();
    let name = NAMES.iter().find(|name| lower.contains(**name))?;
    let (before, after) = lower.split_once(name)?;
    let is_middle = ["", "mean", "median", "average", "avg", "p50"].contains(&before.trim());
    let is_apart = |c: char| "(): =~|".contains(c);
    let words: Vec<&str> = after.split(is_apart).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &&&str| word.starts_with(|c: char| c.is_ascii_digit());
    let [number] = words.iter().filter(is_number).collect::<Vec<_>>()[..] else { return None };
    let known = |word: &&str| ["ms", "of", "is", "about"].contains(word) || is_number(&word);
    let is_whole = words.iter().all(known) && (words.contains(&"ms") || number.ends_with("ms"));
    let milliseconds: f64 = number.trim_end_matches("ms").replace(',', "").parse().ok()?;
    let rate = 1000.0 / milliseconds;
    let is_rate = is_middle && is_whole && rate.is_finite();
    is_rate.then(|| line(format!("{rate:.3} output tok/s/user"), "a serving benchmark"))?
}

/// llama-bench's tests as its users write them, and rates of mlx_lm: `pp512 = 4,100 t/s`, `98 t/s
/// tg128`, `Generation: 256 tokens, 98.4 tokens-per-sec`.
fn bench_words(text: &str) -> Option<Line> {
    let lower = text.to_ascii_lowercase();
    let is_apart = |c: char| c.is_whitespace() || ":=|@~".contains(c);
    let words = lower.split(is_apart).map(|word| word.trim_end_matches(','));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let units = ["t/s", "tok/s", "tokens/s", "tokens/sec", "tps", "tokens-per-sec"];
    let unit = words.iter().position(|word| units.contains(word))?;
    let rate = words[unit.checked_sub(1)?].replace(',', "");
    rate.parse::<f64>().ok()?;
    let mut rest = [&words[..unit - 1], &words[unit + 1..]].concat();
    let mut load = String::new();
    if let [.., "at", "batch", count] = rest[..] {
        load = format!(" batch {count}");
        rest.truncate(rest.len() - 3);
    }
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let claim = match rest[..] {
        [test] if test.starts_with("tg") && digits(&test[2..]) => {
            format!("{rate} output tok/s/user")
        }
        [test] if test.len() > 2 && test.starts_with("pp") && digits(&test[2..]) => {
            format!("{rate} input tok/s isl {}", &test[2..])
        }
        ["prompt", count, "tokens"] if digits(count) => format!("{rate} input tok/s isl {count}"),
        ["generation", count, "tokens"] if digits(count) => format!("{rate} output tok/s/user"),
        _ => return None,
    };
    line(claim + &load, "llama-bench or mlx_lm")
}

/// A row of nccl-tests: size, count, type, operation, root, and time, algorithm's and bus
/// bandwidth and errors, out of place and in place.
fn nccl_row(text: &str) -> Option<Line> {
    let cells: Vec<&str> = text.split_whitespace().collect();
    let types = ["float", "half", "bfloat16", "double", "int8", "uint8", "int32", "fp8_e4m3"];
    let is_row = cells.len() >= 12
        && types.contains(cells.get(2)?)
        && cells[..2].iter().all(|one| one.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_row {
        return None;
    }
    let at = |index: usize| cells.get(index).and_then(|one| one.parse::<f64>().ok());
    let best = f64::max(at(7)?, at(11)?);
    line(format!("busbw {best} GB/s"), "nccl-tests")
}

/// A rate of bytes with its unit at the beginning of a text: `1.573 TB/s`.
fn rate_of_bytes(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let (number, unit) = (words.next()?, words.next()?.trim_end_matches(','));
    let is_unit = ["MB/s", "GB/s", "TB/s"].contains(&unit);
    (is_unit && number.parse::<f64>().is_ok()).then(|| format!("{number} {unit}"))
}

/// A row of nvbench, whose last cells are a rate of memory and its share of the peak, and its
/// summary: `GlobalMem BW 1.573 TB/s, BWUtil 87.76%`.
fn nvbench(text: &str) -> Option<Line> {
    let summary = text.split_once("GlobalMem BW").map(|(_, rest)| rest);
    let cells: Vec<&str> = text.split('|').map(str::trim).filter(|one| !one.is_empty()).collect();
    let is_row = cells.len() > 2 && cells.last()?.ends_with('%');
    let cell = || is_row.then(|| cells.get(cells.len() - 2).copied()).flatten();
    let rate = rate_of_bytes(summary.or_else(cell)?)?;
    line(format!("{rate} measured memory bandwidth"), "nvbench")
}

/// The JSON of a test of nvbandwidth: its name and `bandwidth_gbs`.
fn nvbandwidth(text: &str) -> Option<Line> {
    let rate = number_after(text, "\"bandwidth_gbs\"")?;
    let test = text.split_once("\"test\"")?.1.split('"').nth(1)?;
    line(format!("{test} {rate} GB/s"), "nvbandwidth")
}

/// A metric of Nsight Compute: `dram__bytes_read.sum.per_second Tbyte/second 2.91`.
fn nsight(text: &str) -> Option<Line> {
    let of_rate = |word: &&str| word.starts_with("dram__bytes") && word.ends_with("per_second");
    let words: Vec<&str> = text.split_whitespace().filter(|word| !of_rate(word)).collect();
    let [one, other] = words[..] else { return None };
    let is_number = |word: &str| word.replace(',', "").parse::<f64>().is_ok();
    let (number, unit) = if is_number(one) { (one, other) } else { (other, one) };
    let is_whole = text.split_whitespace().any(|word| of_rate(&word)) && is_number(number);
    is_whole.then(|| line(format!("{number} {unit} measured memory bandwidth"), "ncu"))?
}

/// A share of a rate that the text states: `91.3 % of the theoretical 3.35 TB/s`.
fn share_of_rate(text: &str) -> Option<Line> {
    let (before, after) = text.split_once('%')?;
    let (head, percent) = before.trim_end().rsplit_once(' ').unwrap_or(("", before.trim()));
    let percent: f64 = percent.parse().ok()?;
    let mut words = after.split_whitespace().skip_while(|word| {
        let words = ["of", "the", "its", "a", "theoretical", "peak", "stated", "nominal"];
        words.contains(&word.to_ascii_lowercase().as_str())
    });
    let rate: f64 = words.next()?.replace(',', "").parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let is_of =
        after.trim_start().starts_with("of ") && !head.contains(|c: char| c.is_ascii_digit());
    let unit = rest.first().filter(|unit| is_of && unit.contains('/'))?;
    let rate = format!("{:.4}", rate * percent / 100.0);
    let rate = rate.trim_end_matches('0').trim_end_matches('.');
    line(format!("{head} measured {rate} {unit} {}", rest[1..].join(" ")).trim().into(), "a share")
}

/// What a product comes to: `4800 x 12 x 8 = 460,800 MB/s`.
fn product(text: &str) -> Option<Line> {
    let (factors, result) = text.rsplit_once('=')?;
    let is_factor = |c: char| c.is_ascii_digit() || " x*.,".contains(c);
    let is_product = factors.contains(['x', '*']) && factors.chars().all(is_factor);
    is_product.then(|| line(result.trim().into(), "a calculation"))?
}

/// The claim that a program's line makes; none where the text is no such line.
pub fn line_of(text: &str) -> Option<Line> {
    let of_benches = || llama_bench(text).or_else(|| bench_words(text));
    let of_tokens = eval(text).or_else(of_benches).or_else(|| server(text));
    let of_tokens = of_tokens.or_else(|| token_latency(text));
    let of_bytes = || nccl_row(text).or_else(|| nvbench(text)).or_else(|| nvbandwidth(text));
    let of_bytes = || of_bytes().or_else(|| nsight(text)).or_else(|| share_of_rate(text));
    of_tokens.or_else(of_bytes).or_else(|| product(text))
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn lines_of_programs_are_read_with_their_conditions() {
        for (text, claim) in [
            (
                "llama_print_timings:        eval time =    2712.42 ms /   199 runs   (   13.63 ms \
                 per token,    73.37 tokens per second)",
                "73.37 output tok/s/user",
            ),
            (
                "prompt eval time =     210.98 ms /   512 tokens (    0.41 ms per token,  2426.77 \
                 tokens per second)",
                "2426.77 input tok/s",
            ),
            ("eval rate:            62.1 tokens/s", "62.1 output tok/s/user"),
            ("prompt eval rate:     1234.5 tokens/s", "1234.5 input tok/s"),
            (
                "| llama 8B Q4_K - Medium | 4.58 GiB | 8 B | CUDA | 99 | tg128 | 145.23 ± 0.25 |",
                "145.23 output tok/s/user osl 128 Q4_K",
            ),
            (
                "| llama 8B Q4_K - Medium | 4.58 GiB | 8 B | CUDA | pp512+tg128 | 620.1 ± 3.1 |",
                "620.1 total tok/s isl 512 osl 128 batch 1 Q4_K",
            ),
            (
                "| llama 8B F16 | 14.96 GiB | 8.03 B | CUDA | 99 | pp512 | 9123.10 ± 10.2 |",
                "9123.10 input tok/s isl 512",
            ),
            (
                "Avg prompt throughput: 1234.5 tokens/s, Avg generation throughput: 567.8 \
                 tokens/s, Running: 64 reqs, Waiting: 0 reqs",
                "567.8 output tok/s batch 64",
            ),
            (
                "Throughput: 12.34 requests/s, 5678.90 total tokens/s, 2839.45 output tokens/s",
                "2839.45 output tok/s",
            ),
            (
                "Decode batch. #running-req: 32, #token: 9, gen throughput (token/s): 2345.67, \
                 #queue-req: 0",
                "2345.67 output tok/s batch 32",
            ),
            ("Mean TPOT (ms):                          12.50", "80.000 output tok/s/user"),
            ("Inter-token latency: 7.1 ms", "140.845 output tok/s/user"),
            ("TPOT of 25 ms", "40.000 output tok/s/user"),
            ("Mean TPOT (ms) | 12.50", "80.000 output tok/s/user"),
            (
                "dram__bytes_read.sum.per_second Tbyte/second 2.91",
                "2.91 Tbyte/second measured memory bandwidth",
            ),
            (
                "dram__bytes_write.sum.per_second 950.2 Gbyte/second",
                "950.2 Gbyte/second measured memory bandwidth",
            ),
            ("91.3 % of the theoretical 3.35 TB/s", "measured 3.0586 TB/s"),
            ("98 t/s tg", "98 output tok/s/user"),
            ("pp512 = 4,100 t/s", "4100 input tok/s isl 512"),
            ("Generation: 256 tokens, 98.4 tokens-per-sec", "98.4 output tok/s/user"),
            (
                "  8589934592    2147483648     float     sum      -1    33456   256.75  449.31  \
                 0    33449  256.81  449.41      0",
                "busbw 449.41 GB/s",
            ),
        ] {
            assert_eq!(line_of(text).map(|line| line.claim).as_deref(), Some(claim), "{text}");
        }
        for text in [
            "4.8 TB/s",
            "62 tokens/s",
            "P99 TPOT (ms): 12.5",
            "20 % faster than 3.35 TB/s",
            "93 % of peak memory bandwidth",
            "Output token throughput (tok/s): 2582.3",
        ] {
            assert_eq!(line_of(text), None, "{text}");
        }
    }
}
