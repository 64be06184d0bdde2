//! Streams of servers, as they are sent and as they are read.

use super::*;

fn row(pieces: &[(&str, f64)]) -> (Result<(), Ending>, Row) {
    let mut received = Received::new(true, 4);
    let mut taken = Ok(());
    for (piece, now) in pieces {
        taken = taken.and_then(|()| received.take(piece.as_bytes(), *now));
    }
    let mut row = Row { ending: received.ending(), ..Row::default() };
    received.into_row(&mut row);
    (taken, row)
}

#[test]
fn tokens_are_stamped_and_counted_by_the_server() {
    let (taken, row) = row(&[
        ("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", 0.5),
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n", 0.9),
        ("\n", 1.0),
        ("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\"}}]}\n\n", 1.5),
        ("data: {\"choices\":[{\"text\":\"c\",\"finish_reason\":\"length\"}]}\n\n", 1.75),
        ("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4},", 2.0),
        ("\"timings\":{\"prompt_ms\":125.0,\"predicted_ms\":750.0}}\n\ndata: [DONE]\n\n", 2.0),
    ]);
    assert_eq!((taken, row.ending), (Ok(()), Ending::Answered));
    assert_eq!((row.first, row.last, row.chunks), (Some(1.0), Some(1.75), 3));
    assert_eq!((row.gaps.as_slice(), row.is_chunked()), (&[0.5, 0.25][..], true));
    assert_eq!((row.input, row.output), (Some(7), Some(4)));
    assert_eq!((row.server_prompt, row.server_answer), (Some(0.125), Some(0.75)));
    assert_eq!(row.answer.as_deref(), Some("abc"));
}

#[test]
fn an_answer_ends_far_beyond_what_was_asked_for() {
    let token = b"data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    for (asked, most) in [(5, EVENTS_FREE), (10_000, 160_000)] {
        let mut received = Received::new(false, asked);
        for _ in 0..most {
            assert_eq!(received.take(token, 0.0), Ok(()));
        }
        assert_eq!(received.take(token, 0.0), Err(Ending::Endless), "{asked}");
    }
    let text = "a".repeat(1 << 19);
    let long = format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
    let mut received = Received::new(true, 8);
    let taken = (0..40).map(|_| received.take(long.as_bytes(), 0.0));
    let taken: Vec<_> = taken.collect();
    assert_eq!(taken.iter().position(Result::is_err), Some(31), "16 MiB, for 8 tokens");
}

#[test]
fn each_fault_of_a_stream_has_its_name() {
    let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let taken = |text: &str| row(&[(text, 0.0)]);
    assert_eq!(taken(token).1.ending, Ending::Cut);
    assert_eq!(taken("").1.ending, Ending::Empty);
    assert_eq!(taken("data: [DONE]\n\n").1.ending, Ending::Empty);
    for (text, ending) in [
        ("data: {\"choices\n\n", Ending::Malformed),
        ("data: x\n\n", Ending::Malformed),
        ("data: {\"error\": {\"message\": \"boom\", \"code\": 500}}\n\n", Ending::StreamError),
        ("error: {\"message\": \"boom\"}\n\n", Ending::StreamError),
        (
            "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"abort\"}]}\n\n",
            Ending::StreamError,
        ),
    ] {
        assert_eq!(taken(text).0, Err(ending), "{text}");
    }
    let unfinished = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"\"}]}\n\n";
    assert_eq!(taken(unfinished).1.ending, Ending::Cut);
    let empty = "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"tool_calls\":[]}}]}\n\n";
    assert_eq!(taken(empty).1.first, None, "an empty list of calls is no token");
    let after = row(&[(token, 1.0), ("data: [DONE]\n\n", 2.0), (token, 3.0)]).1;
    assert_eq!((after.last, after.chunks, after.ending), (Some(1.0), 1, Ending::Answered));
    let mut received = Received::new(false, 4);
    let told = received.take(b"data: {\"error\": {\"message\": \"bo\x1bom\"}}\n\n", 0.0);
    assert_eq!(told, Err(Ending::Malformed), "a control character within a string");
    let told = received.take(b"data: {\"error\": \"bo\\u001bom\"}\n\n", 0.0);
    assert_eq!((told, received.message()), (Err(Ending::StreamError), Some("bo\u{fffd}om")));
}
/// A stream of events, 10 ms apart from 50 ms on, and its end.
fn stream(events: &[&str]) -> Row {
    let mut received = Received::new(false, 16);
    let mut taken = Ok(());
    for (at, event) in events.iter().enumerate() {
        let text = format!("data: {event}\n\n");
        let now = 0.05 + 0.01 * at as f64;
        taken = taken.and_then(|()| received.take(text.as_bytes(), now));
    }
    taken = taken.and_then(|()| received.take(b"data: [DONE]\n\n", 1.0));
    assert_eq!(taken, Ok(()), "{events:?}: {:?}", received.message());
    let mut row = Row { ending: received.ending(), ..Row::default() };
    received.into_row(&mut row);
    row
}

/// The time of one token more of a row, in milliseconds.
fn tpot(row: &Row) -> f64 {
    let span = row.last.expect("a last token") - row.first.expect("a first token");
    (1e5 * span / f64::from(row.tokens() - 1)).round() / 100.0
}

const TEXT: &str = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
const EMPTY: &str = r#"{"choices":[{"delta":{"content":""}}]}"#;
const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;

#[test]
fn the_span_and_the_divisor_of_tpot_count_the_same_tokens() {
    // Eleven tokens 10 ms apart: each server says so in another way.
    let usage = |tokens: u32, more: &str| {
        format!(r#"{{"choices":[],"usage":{{"completion_tokens":{tokens}{more}}}}}"#)
    };
    let reasoned =
        |tokens| format!(r#","completion_tokens_details":{{"reasoning_tokens":{tokens}}}"#);
    let details = r#"{"choices":[{"delta":{"content":null,"reasoning_details":[{"text":"a"}]}}]}"#;
    let parts = r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}"#;
    let call = r#"{"choices":[{"delta":{"function_call":{"arguments":"a"}}}]}"#;
    let refusal = r#"{"choices":[{"delta":{"refusal":"a"}}]}"#;
    let end = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    for (name, tokens, last) in [
        ("text", vec![TEXT; 11], usage(11, "")),
        ("hidden reasoning", vec![TEXT; 11], usage(51, &reasoned(40))),
        ("streamed reasoning", [vec![details; 6], vec![TEXT; 5]].concat(), usage(11, &reasoned(6))),
        ("reasoning as text", vec![TEXT; 11], usage(11, &reasoned(6))),
        ("empty pieces", [vec![EMPTY; 2], vec![TEXT; 7], vec![EMPTY; 2]].concat(), usage(11, "")),
        ("lists of parts", vec![parts; 11], usage(11, "")),
        ("calls", vec![call; 11], usage(11, "")),
        ("refusals", vec![refusal; 11], usage(11, "")),
        ("numbers with a point", vec![TEXT; 11], usage(11, "").replace("11", "11.0")),
        ("no usage", vec![TEXT; 11], usage(0, "").replace(":0", ":-1")),
    ] {
        let row = stream(&[&tokens[..], &[end, last.as_str()]].concat());
        assert_eq!((row.ending, row.tokens()), (Ending::Answered, 11), "{name}: {row:?}");
        assert_eq!((tpot(&row), row.first), (10.0, Some(0.05)), "{name}: {row:?}");
        assert_eq!((row.is_chunked(), row.gaps.len()), (false, 10), "{name}: {row:?}");
        assert_eq!(row.finish.as_deref(), Some("length"), "{name}");
    }
    // A role is no token, and an empty text is none where the server counts none.
    let row = stream(&[&[ROLE, EMPTY][..], &[TEXT; 11], &[usage(11, "").as_str()]].concat());
    assert_eq!((row.first.map(|at| (at * 1e3).round()), tpot(&row)), (Some(70.0), 10.0), "{row:?}");
}

#[test]
fn events_that_need_not_be_understood_are_counted() {
    let row = stream(&[
        r#"{"status":"queued"}"#,
        r#"{"prompt_filter_results":[{"index":0}]}"#,
        "",
        "7",
        r#"{"choices": 3}"#,
        r#"{"type":"ping"}"#,
        TEXT,
        r#"{"choices":[],"usage":{"completion_tokens":1}}"#,
    ]);
    assert_eq!((row.ending, row.tokens(), row.skipped), (Ending::Answered, 1, 6), "{row:?}");
    assert_eq!(row.skipped_kind.as_deref(), Some("queued"));
    let mut received = Received::new(false, 4);
    let told = received.take(b"data: <html>busy</html>\n\n", 0.0);
    assert_eq!(told, Err(Ending::Malformed));
    assert!(received.message().is_some_and(|text| text.contains("<html>busy</html>")));
}

#[test]
fn a_stream_that_was_held_back_is_told() {
    let mut received = Received::new(false, 16);
    for at in 0..10 {
        let now = if at < 4 { 0.1 * f64::from(at) } else { 0.9 };
        let text = format!("data: {TEXT}\n\n");
        received.take(text.as_bytes(), now).expect("taken");
    }
    let mut row = Row::default();
    received.into_row(&mut row);
    assert!(row.is_held_back, "{row:?}");
}
