//! The verdict on a node: as text for an operator, as JUnit XML, as Prometheus's text format.

use super::{clean, shorten};
use fizeau_domain::{
    text::{VERDICT_LINE_MAX, agreed, counted, xml},
    verdict::Verdict,
};
use fizeau_judge::accept::{Judged, Level, Report, profile::Kind, remedy};
use std::fmt::Write as _;

/// The text has at most this many lines.
pub const LINES_MAX: usize = 20;

/// Rows of failures, and of what could not be decided, that the text has at most.
const FAILURES_MAX: usize = 8;
const UNCLEAR_MAX: usize = 5;

/// Length of the verdict on one line, in characters, and how much of it a check's words have at
/// least.
const COLUMNS_MAX: usize = 160;
const WORDS_MIN: usize = 30;

/// The verdict at the start of the one line, and the count at its end.
const ENDS_MAX: usize = "INCONCLUSIVE ".len() + "; 999 inconclusive (stub)".len();

/// The mark on every line of a report in which a stub driver stands in for a device.
const STUB: &str = " (stub)";

/// What an operator reads: the verdict first, then what to do, then why. At most [`LINES_MAX`]
/// lines, each of them whole.
pub fn text(report: &Report) -> String {
    let count = |verdict| report.count(verdict);
    let node = report.node.as_deref().unwrap_or("this node");
    let mut lines = vec![format!(
        "{}  {node}: {} {}, {} {}, {} inconclusive",
        word(report.verdict),
        counted(count(Verdict::Pass), "check"),
        agreed(count(Verdict::Pass), "passes", "pass"),
        count(Verdict::Fail),
        agreed(count(Verdict::Fail), "fails", "fail"),
        count(Verdict::Inconclusive)
    )];
    if report.profile_kind == Kind::Derived && report.level > Level::Passive {
        lines.push(cannot_pass(&report.profile));
    }
    lines.push(match (report.verdict, report.action) {
        (Verdict::Pass, _) => {
            "do: nothing; the node is fit for work as far as this level sees".into()
        }
        (Verdict::Fail, Some(action)) => {
            format!("do: {action}; take the node out of service until then")
        }
        (Verdict::Fail, None) => "do: take the node out of service and look at what failed".into(),
        (_, _) if !report.complete => match remedy(report) {
            Some(remedy) => format!("do: {remedy} (it did not finish)"),
            None => "do: run it again; the acceptance did not finish".into(),
        },
        (_, _) => match remedy(report) {
            Some(remedy) => format!("do: {remedy}"),
            None => "do: nothing can be concluded yet; the lines below say what is missing".into(),
        },
    });
    for (verdict, most) in [(Verdict::Fail, FAILURES_MAX), (Verdict::Inconclusive, UNCLEAR_MAX)] {
        let rows: Vec<&Judged> =
            report.checks.iter().filter(|one| one.verdict == verdict).collect();
        lines.extend(rows.iter().take(most).map(|row| line(report, row)));
        if rows.len() > most {
            let rest = rows.len() - most;
            lines.push(format!("      and {rest} more: verdict.json has them"));
        }
    }
    let level = format!("{:?}", report.level).to_lowercase();
    let kind = format!("{:?}", report.profile_kind).to_lowercase();
    lines.push(format!("level {level}, profile {} ({kind})", report.profile));
    if !report.unread.is_empty() {
        lines.push(format!("not read, not judged: {}", report.unread.join("; ")));
    }
    let left = LINES_MAX.saturating_sub(lines.len());
    lines.extend(report.notes.iter().take(left).cloned());
    let mark = if report.stub { STUB } else { "" };
    let shown = |line: &String| format!("{}{mark}\n", shorten(&clean(line), VERDICT_LINE_MAX));
    lines.iter().map(shown).collect()
}

/// That a profile of floors from the speed of light passes no node, and how to get one that does.
pub fn cannot_pass(profile: &str) -> String {
    format!(
        "profile {profile} can fail a node and never pass it: its floors are shares of limits. \
         --profile takes one that can: a name from `fizeau profile show`, or a file that `fizeau \
         profile learn` makes of runs of good nodes"
    )
}

fn word(verdict: Verdict) -> String {
    verdict.to_string().to_uppercase()
}

/// The verdict on one line of at most `COLUMNS_MAX` characters, for the reason of a drained node,
/// a node's condition or a log: the verdict, the check that asks for the strongest action, and how
/// many share its verdict.
pub fn one_line(report: &Report) -> String {
    let count = report.count(report.verdict);
    let of_verdict = || report.checks.iter().filter(|one| one.verdict == report.verdict);
    let room = COLUMNS_MAX - ENDS_MAX;
    let strongest = of_verdict().find(|one| one.action == report.action);
    let (why, plural) = match (report.verdict, strongest.or_else(|| of_verdict().next())) {
        (Verdict::Fail, Some(row)) => (told(row, &row.device, room), "fail"),
        (Verdict::Inconclusive, Some(row)) => (told(row, &row.device, room), "inconclusive"),
        (Verdict::Inconclusive, None) => ("the acceptance did not finish".into(), "inconclusive"),
        (_, _) => ("no check fails".into(), "pass"),
    };
    let why = clean(&why).split_whitespace().collect::<Vec<_>>().join(" ");
    let mark = if report.stub { STUB } else { "" };
    let end = format!("; {count} {plural}{mark}");
    let start = format!("{} {why}", word(report.verdict));
    format!("{}{end}\n", shorten(&start, COLUMNS_MAX - end.chars().count()))
}

fn line(report: &Report, row: &Judged) -> String {
    let mark = match row.verdict {
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "?   ",
        Verdict::Pass | Verdict::Waived => "ok  ",
    };
    let told = told(row, &report.named(&row.device), VERDICT_LINE_MAX - mark.len() - 2);
    format!("{mark}  {told}")
}

/// A check in words, with its device, cause and action, in about `room` characters: a driver's long
/// words must not push the cause off the line.
fn told(row: &Judged, device: &str, room: usize) -> String {
    let mut start = format!("{device}  {}", row.check);
    if let Some(point) = &row.point {
        let _ = write!(start, " ({point})");
    }
    let mut end = String::new();
    if let Some(cause) = &row.cause {
        let _ = write!(end, "; cause: {cause}");
    }
    if let (Some(action), Verdict::Fail) = (row.action, row.verdict) {
        let _ = write!(end, " -> {action}");
    }
    let taken = start.chars().count() + 2 + end.chars().count();
    let words = shorten(&row.words, room.saturating_sub(taken).max(WORDS_MIN));
    format!("{start}: {words}{end}")
}

/// JUnit's XML, as CI systems read it. What could not be decided is an `error`, and not `skipped`,
/// which looks as if it had passed.
pub fn junit(report: &Report) -> String {
    let (failures, errors) = (report.count(Verdict::Fail), report.count(Verdict::Inconclusive));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let stub = if report.stub { " stub" } else { "" };
    let head =
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", report.checks.len());
    let _ = writeln!(out, "<testsuites name=\"fizeau accept{stub}\" {head}>");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}{stub}\" {head} skipped=\"0\" timestamp=\"{}\">",
        xml(report.node.as_deref().unwrap_or("node")),
        xml(report.started.trim_end_matches('Z'))
    );
    for one in &report.checks {
        let stub = if one.stub { STUB } else { "" };
        let point = one.point.as_ref().map(|point| format!(" {point}")).unwrap_or_default();
        let name = xml(&format!("{}{point}{stub}", one.check));
        let _ = write!(out, "    <testcase classname=\"{}\" name=\"{name}\"", xml(&one.device));
        let message = xml(&format!("{}{stub}", one.words));
        let cause = one.cause.map_or("unknown".to_owned(), |cause| cause.to_string());
        let _ = match one.verdict {
            Verdict::Pass | Verdict::Waived => writeln!(out, "/>"),
            Verdict::Fail => writeln!(
                out,
                ">\n      <failure type=\"{}\" message=\"{message}\"/>\n    </testcase>",
                xml(&cause)
            ),
            Verdict::Inconclusive => writeln!(
                out,
                ">\n      <error type=\"inconclusive\" message=\"{message}\"/>\n    </testcase>"
            ),
        };
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Prometheus's text format, for the textfile collector of its node exporter.
pub fn prometheus(report: &Report) -> String {
    let mut out = String::new();
    let level = format!("{:?}", report.level).to_lowercase();
    let common = |stub: bool| format!("level=\"{level}\",stub=\"{stub}\"");
    family(
        &mut out,
        "fizeau_accept_verdict",
        "Verdict on the node: 0 pass, 1 fail, 4 inconclusive",
    );
    let _ = writeln!(
        out,
        "fizeau_accept_verdict{{{},profile=\"{}\"}} {}",
        common(report.stub),
        label(&report.profile),
        report.verdict.exit_code()
    );
    family(&mut out, "fizeau_accept_complete", "Whether all that was planned was judged");
    let complete = u8::from(report.complete);
    let _ = writeln!(out, "fizeau_accept_complete{{{}}} {complete}", common(report.stub));
    let of = |one: &Judged| {
        let point = one.point.as_deref().unwrap_or_default();
        format!(
            "{},check=\"{}\",device=\"{}\",point=\"{}\"",
            common(one.stub),
            label(&one.check),
            label(&one.device),
            label(point)
        )
    };
    family(&mut out, "fizeau_accept_check", "Verdict on a check: 0 pass, 1 fail, 4 inconclusive");
    for one in &report.checks {
        let _ = writeln!(out, "fizeau_accept_check{{{}}} {}", of(one), one.verdict.exit_code());
    }
    family(&mut out, "fizeau_accept_above_floor_ratio", "Median over its floor, less 1");
    for one in &report.checks {
        if let Some(above) = one.above_floor {
            let _ = writeln!(out, "fizeau_accept_above_floor_ratio{{{}}} {above}", of(one));
        }
    }
    out
}

fn family(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// A label's value.
fn label(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::node_state::Board;
    use fizeau_judge::accept::{FORMAT, cause::Cause};
    use std::collections::BTreeMap;

    fn report(verdicts: &[Verdict]) -> Report {
        let one = |(at, verdict): (usize, &Verdict)| {
            let words = "2.0 % below its \"floor\" <&>".to_owned();
            let judged = Judged::of_state("memory", &format!("cuda:{at}"), *verdict, words);
            let judged = Judged { above_floor: Some(-0.02), ..judged };
            match verdict {
                Verdict::Fail => judged.because(Cause::MemoryStack),
                _ => judged,
            }
        };
        Report {
            format: FORMAT,
            fizeau: "0".into(),
            node: Some("n\u{1b}[1m1".into()),
            started: "2026-01-01T00:00:00Z".into(),
            ended: None,
            level: Level::Quick,
            profile: "own".into(),
            profile_kind: Kind::Learnt,
            stub: false,
            verdict: Verdict::Inconclusive,
            action: None,
            complete: true,
            machine: Vec::new(),
            boards: BTreeMap::new(),
            checks: verdicts.iter().enumerate().map(one).collect(),
            unread: vec!["faults: permission denied".into()],
            notes: vec!["a note".into(); 30],
        }
        .concluded()
    }

    #[test]
    fn an_operator_reads_the_verdict_first_and_no_more_than_a_screen() {
        use Verdict::{Fail, Inconclusive, Pass};
        let many = [vec![Fail; 40], vec![Inconclusive; 40], vec![Pass; 3]].concat();
        let text = text(&report(&many));
        assert!(text.starts_with("FAIL  n"), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("RESET_GPU")), "{text}");
        assert_eq!(text.lines().count(), LINES_MAX);
        assert!(text.contains("and 32 more"), "{text}");
        assert!(!text.contains('\u{1b}'));
        let fine = super::text(&report(&[Pass]));
        assert!(fine.starts_with("PASS"), "{fine}");
        // Who has to find the board reads where it is, and neither cause nor action is lost by it.
        let board = Board::of(Some("GPU-8f1c2d3e-0a1b".into()), Some("0000:1a:00.0".into()));
        let boards = BTreeMap::from([("cuda:1".to_owned(), board.expect("one"))]);
        let mut found = Report { boards, ..report(&[Pass, Fail]) };
        found.checks[1].words = "a long story ".repeat(20) + "with an end";
        let found = super::text(&found);
        let line = found.lines().find(|line| line.starts_with("FAIL  cuda:1")).expect("a line");
        assert!(
            line.starts_with("FAIL  cuda:1 (GPU-8f1c2d3e, 0000:1a:00.0)  memory: a long story")
        );
        assert!(line.ends_with("; cause: a memory stack -> RESET_GPU"), "{line}");
        assert!(line.contains("with an end; cause"), "nothing is cut: {line}");
        // Who measures with floors that pass nothing reads so before what to do.
        let derived = Report { profile_kind: Kind::Derived, ..report(&[Pass, Inconclusive]) };
        let lines: Vec<String> = super::text(&derived).lines().map(str::to_owned).collect();
        assert!(lines[1].contains("never pass it") && lines[1].contains("profile learn"));
        assert!(lines[2].starts_with("do: "), "{lines:?}");
        let at_rest = super::text(&Report { level: Level::Passive, ..derived });
        assert!(!at_rest.contains("never pass"), "{at_rest}");
        let open = super::text(&Report { complete: false, ..report(&[Pass]) }.concluded());
        assert!(open.starts_with("INCONCLUSIVE") && open.contains("run it again"), "{open}");
    }

    #[test]
    fn one_line_says_what_asks_for_most_and_is_short() {
        use Verdict::{Fail, Inconclusive, Pass};
        let mut failed = report(&[Pass, Fail, Fail, Inconclusive]);
        failed.checks[2].action = Some(fizeau_judge::accept::Action::ContactSupport);
        failed.checks[2].words = "a long\u{1b}[1m story\nof ".repeat(50);
        failed.checks[1].stub = true;
        let text = one_line(&failed.concluded());
        assert!(text.starts_with("FAIL cuda:2 memory: a long"), "{text}");
        assert!(text.ends_with("; 2 fail (stub)\n") && text.lines().count() == 1, "{text}");
        assert!(text.chars().count() <= COLUMNS_MAX + 1 && !text.contains('\u{1b}'), "{text}");
        let one = one_line(&report(&[Pass, Fail]));
        assert!(one.contains("-> RESET_GPU; 1 fail"), "{one}");
        assert_eq!(one_line(&report(&[Pass, Pass])), "PASS no check fails; 2 pass\n");
        let open = Report { complete: false, ..report(&[Pass]) }.concluded();
        assert!(one_line(&open).starts_with("INCONCLUSIVE the acceptance did not finish"));
        assert!(one_line(&report(&[Inconclusive])).starts_with("INCONCLUSIVE cuda:0 memory"));
    }

    #[test]
    fn every_line_of_a_stub_says_so() {
        let mut report = report(&[Verdict::Pass, Verdict::Fail]);
        report.checks[1].stub = true;
        let report = report.concluded();
        assert!(text(&report).lines().all(|line| line.ends_with(STUB)));
        let metrics = prometheus(&report);
        let is_marked = |line: &str| line.contains("stub=\"true\"") || line.contains("cuda:0");
        assert!(metrics.lines().filter(|line| !line.starts_with('#')).all(is_marked), "{metrics}");
        assert!(junit(&report).contains("name=\"memory (stub)\""));
    }

    #[test]
    fn machines_read_what_they_expect() {
        let report = report(&[Verdict::Pass, Verdict::Fail, Verdict::Inconclusive]);
        let junit = junit(&report);
        assert!(junit.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{junit}");
        assert!(junit.contains("below its &quot;floor&quot; &lt;&amp;&gt;"), "{junit}");
        assert_eq!(junit.matches("<testcase").count(), 3);
        let metrics = prometheus(&report);
        for line in metrics.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            assert!(name.starts_with("fizeau_accept_") && name.ends_with('}'), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        let types = metrics.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!((types, metrics.matches("# HELP").count()), (4, 4));
    }
}
