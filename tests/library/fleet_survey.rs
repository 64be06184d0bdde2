//! `fizeau fleet survey` on rows of a store: who is who, what is compared, and what hostile input
//! comes to.

use fizeau_domain::{labels::Labels, verdict::Verdict};
use fizeau_judge::fleet::{
    component::Named,
    gather::{DEVICES_MAX, Gathered},
    row::{ACCEPTANCE, FORMAT, NODE, Row, SIGNED},
    site::Expected,
    survey::{Options, Report, Surveyed, survey},
    units::Window,
};
use fizeau_report::format;
use oorandom::Rand64;
use proptest::prelude::*;
use std::f64::consts::TAU;

struct Normal(Rand64);

impl Normal {
    fn next(&mut self) -> f64 {
        let (a, b) = (self.0.rand_float().max(f64::MIN_POSITIVE), self.0.rand_float());
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }
}

/// A row of a healthy GPU, but for what a test changes. It is signed, so that of two sessions the
/// later counts.
pub fn row(node: u32, gpu: u32, values: Vec<f64>) -> Row<'static> {
    Row {
        format: FORMAT,
        session: format!("s{node}").into(),
        sender: SIGNED.into(),
        time: "2026-11-20T10:00:00Z".into(),
        node: format!("n{node}").into(),
        device: format!("cuda:{gpu}").into(),
        uuid: format!("GPU-{node}-{gpu}").into(),
        part: "h100-sxm".into(),
        driver: "570".into(),
        metric: "memory read".into(),
        point: "stream/read/2GiB".into(),
        unit: "B/s".into(),
        values,
        least_effect: Some(0.02),
        ..Row::default()
    }
}

fn values(normal: &mut Normal, loss: f64) -> Vec<f64> {
    (0..5).map(|_| 3e12 * (1.0 - loss) * (0.004 * normal.next()).exp()).collect()
}

/// Nodes of eight GPUs, with these losses by node and GPU.
pub fn fleet(nodes: u32, losses: &[(u32, u32, f64)]) -> Vec<Row<'static>> {
    let mut normal = Normal(Rand64::new(7));
    let mut rows = Vec::new();
    for node in 0..nodes {
        for gpu in 0..8 {
            let its = losses.iter().find(|(n, g, _)| (*n, *g) == (node, gpu));
            rows.push(row(node, gpu, values(&mut normal, its.map_or(0.0, |one| one.2))));
        }
    }
    rows
}

pub fn gathered(rows: &[Row<'_>]) -> Gathered {
    let mut gathered = Gathered::default();
    // As lines of a store, so that what is written is what is read.
    for (at, row) in rows.iter().enumerate() {
        let line = row.line();
        let parsed = Row::parse(line.as_bytes()).expect("a row");
        gathered.take(&parsed, &format!("line {at}"));
    }
    gathered
}

pub fn options() -> Options {
    let window = Window { latest: "2026-11-24".into(), ..Window::default() };
    Options { window, ..Options::default() }
}

fn surveyed(rows: &[Row<'_>], options: &Options) -> Surveyed {
    survey(gathered(rows), options, &Labels::default(), None)
}

fn report(rows: &[Row<'_>]) -> Report {
    surveyed(rows, &options()).report
}

fn has(report: &Report, words: &str) -> bool {
    report.notes.iter().any(|note| note.contains(words))
}

pub fn failed(report: &Report) -> Vec<String> {
    let failed = report.flagged.iter().filter(|one| one.verdict == Verdict::Fail);
    failed.map(|one| format!("{} {} {}", one.node, one.device, one.metric)).collect()
}

#[test]
fn a_slow_gpu_fails_with_its_node_and_the_text_says_so_first() {
    let report = report(&fleet(6, &[(3, 5, 0.08)]));
    assert_eq!(failed(&report), ["n3 cuda:5 memory read"]);
    assert_eq!(report.verdict, Verdict::Fail);
    assert_eq!((report.devices.fail, report.devices.pass), (1, 47));
    let node = report.by_node.iter().find(|one| one.node == "n3").expect("a node");
    assert_eq!((node.verdict, node.devices.fail), (Verdict::Fail, 1));
    let text = format::fleet::text(&report);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "FAIL  6 nodes, 48 GPUs, one session: 47 pass, 1 fail, 0 inconclusive");
    assert!(lines[1].starts_with("do: measure 1 device again, each in turn"), "{text}");
    assert!(lines[2].starts_with("FAIL  n3 cuda:5 (GPU-3-5)  memory read: "), "{text}");
    assert!(text.contains("5 repeats see a loss of 3."), "{text}");
    assert!(text.contains("at most 1.0 % lose no more than the least effect"), "{text}");
    assert!(text.contains("Benjamini-Hochberg, 48 tests"), "{text}");
}

#[test]
fn what_differs_in_identity_is_not_compared_unless_asked() {
    let mut rows = fleet(7, &[]);
    for row in rows.iter_mut().filter(|row| ["n0", "n1", "n2"].contains(&&*row.node)) {
        row.driver = "580".into();
        row.values.iter_mut().for_each(|value| *value *= 0.9);
    }
    let apart = report(&rows);
    assert_eq!(apart.verdict, Verdict::Pass, "{:?}", apart.flagged);
    assert!(has(&apart, "not compared with each other, by driver: 570 (32), 580 (24)"));
    assert_eq!(apart.strata.len(), 2);
    let mut options = options();
    options.rule.across = vec!["driver".into()];
    let together = surveyed(&rows, &options).report;
    assert_eq!(together.devices.fail, 24, "{:?}", together.notes);
    // The same by the code of the kernels, which is not the fault of a GPU.
    let mut rows = fleet(6, &[]);
    for row in rows.iter_mut().filter(|row| row.node == "n0") {
        row.code = "0123456789abcdef".into();
        row.values.iter_mut().for_each(|value| *value *= 0.9);
    }
    // Nobody else runs that code, so that nothing tells whether the node is slow.
    let alone = report(&rows);
    assert_eq!((alone.verdict, alone.devices.inconclusive), (Verdict::Inconclusive, 8));
    let hint = "memory read: 8 devices of n0 10.0 % below the 40 of h100-sxm: a hint, since they \
                differ in code 0123456789abcdef";
    assert!(has(&alone, hint), "{:?}", alone.notes);
    let few: Vec<Row<'_>> = rows.into_iter().filter(|row| row.device == "cuda:0").take(3).collect();
    let few = report(&few);
    assert_eq!(few.verdict, Verdict::Inconclusive);
    assert!(format::fleet::text(&few).contains("too few"), "{}", format::fleet::text(&few));
}

#[test]
fn a_label_sets_apart_and_a_slow_leaf_is_named_for_its_nodes() {
    let losses: Vec<(u32, u32, f64)> =
        (8..12).flat_map(|node| (0..8).map(move |gpu| (node, gpu, 0.06))).collect();
    let rows = fleet(32, &losses);
    let mut labels = String::from("# made up\nnode, leaf, cooling\n");
    for node in 0..32 {
        labels +=
            &format!("n{node}, leaf{}, {}\n", node / 4, if node < 16 { "air" } else { "water" });
    }
    let labels = Labels::parse(&labels).expect("labels");
    let found = survey(gathered(&rows), &options(), &labels, None).report;
    let [Named { kind, name, gpus, by_node: true, .. }] = &found.components[..] else {
        panic!("{:?}", found.components)
    };
    assert_eq!((kind.as_str(), name.as_str(), gpus.len()), ("leaf", "leaf2", 32));
    let failures = found.flagged.iter().filter(|one| one.verdict == Verdict::Fail);
    assert!(failures.clone().count() > 20);
    assert!({ failures }.all(|one| one.component.as_deref() == Some("leaf leaf2")));
    let text = format::fleet::text(&found);
    assert!(text.lines().nth(1).is_some_and(|line| line.contains("the components")), "{text}");
    assert!(text.contains("leaf leaf2: memory read slower by 5.9 %"), "{text}");
    let leaf = found.by_label.iter().find(|one| one.name == "leaf2").expect("a leaf");
    assert_eq!((leaf.label.as_str(), leaf.verdict), ("leaf", Verdict::Fail));
    let whole = found.by_label.iter().find(|one| one.name == "leaf3").expect("a leaf");
    assert_eq!((whole.verdict, whole.devices.pass), (Verdict::Pass, 32));
    let mut options = options();
    options.rule.labels = vec!["cooling".into()];
    assert_eq!(survey(gathered(&rows), &options, &labels, None).report.strata.len(), 2);
}

#[test]
fn planned_is_measured_and_missing_and_the_missing_are_named() {
    let expected =
        Expected::parse("node,gpus\nn0,8\nn1,9\nn2\n# a comment\nn77,8\n").expect("a list");
    let rows = fleet(4, &[]);
    let found = survey(gathered(&rows), &options(), &Labels::default(), Some(&expected)).report;
    assert_eq!(found.verdict, Verdict::Inconclusive, "everything that sent something passes");
    let presence = found.presence.as_ref().expect("a list");
    assert_eq!((presence.planned, presence.measured), (4, 3));
    assert_eq!(presence.missing, ["n77"]);
    assert_eq!(presence.unexpected, ["n3"]);
    assert_eq!(presence.short, ["n1: 8 of 9 GPUs"]);
    let text = format::fleet::text(&found);
    assert!(
        text.starts_with("INCONCLUSIVE  3 of 4 nodes, 24 GPUs")
            && text.contains("1 node sent nothing")
    );
    assert!(text.contains("4 nodes planned = 3 measured + 1 missing: n77"), "{text}");
    assert!(Expected::parse("n0,many\n").is_err() && Expected::parse("n0\nn0\n").is_err());
    assert!(Labels::parse("name,rack\nn0,r0\n").is_err() && Labels::parse("node\nn0\n").is_err());
}

/// The row of a node's acceptance, or of one of its checks.
fn said(node: u32, device: &str, check: &str, verdict: &str) -> Row<'static> {
    Row {
        metric: check.to_owned().into(),
        device: device.to_owned().into(),
        uuid: if device == NODE { "" } else { "GPU-1-2" }.into(),
        verdict: verdict.to_owned().into(),
        words: "1024 words differ".into(),
        action: "RESET_GPU".into(),
        values: Vec::new(),
        least_effect: None,
        point: "".into(),
        unit: "".into(),
        ..row(node, 2, Vec::new())
    }
}

#[test]
fn what_a_node_failed_by_itself_fails_here_until_its_next_acceptance() {
    let mut rows = fleet(4, &[]);
    rows.push(said(1, "cuda:2", "silent corruption", "fail"));
    rows.push(said(1, "mlx5_0/1", "port rate", "fail"));
    rows.push(said(1, NODE, ACCEPTANCE, "fail"));
    let report_of = |rows: &[Row<'_>]| report(rows);
    let first = report_of(&rows);
    assert_eq!(failed(&first), ["n1 cuda:2 silent corruption", "n1 mlx5_0/1 port rate"]);
    assert_eq!((first.devices.fail, first.devices.pass), (1, 31), "a port is no GPU");
    assert!(first.flagged.iter().all(|one| one.confirmed));
    let text = format::fleet::text(&first);
    assert!(text.contains("do: take out 2 devices that failed again when measured anew"), "{text}");
    assert!(text.contains("silent corruption: 1024 words differ -> RESET_GPU"), "{text}");
    // A day later the node is whole.
    let later = |mut row: Row<'static>| {
        (row.time, row.session) = ("2026-11-21T10:00:00Z".into(), "later".into());
        row
    };
    rows.push(later(said(1, NODE, ACCEPTANCE, "pass")));
    assert_eq!(report_of(&rows).verdict, Verdict::Pass, "{:?}", report_of(&rows).flagged);
    // And then one that was killed.
    let mut killed = later(said(1, NODE, ACCEPTANCE, "inconclusive"));
    (killed.incomplete, killed.time) = (true, "2026-11-22T10:00:00Z".into());
    rows.push(killed);
    let open = report_of(&rows);
    assert_eq!((open.verdict, open.nodes.inconclusive), (Verdict::Inconclusive, 1));
}

#[test]
fn the_latest_session_counts_and_combine_takes_all() {
    let mut rows = fleet(4, &[(2, 2, 0.08)]);
    let mut normal = Normal(Rand64::new(9));
    let mut again = row(2, 2, values(&mut normal, 0.0));
    (again.session, again.time) = ("again".into(), "2026-11-21T10:00:00Z".into());
    rows.insert(0, again);
    assert_eq!(report(&rows).verdict, Verdict::Pass, "it was repaired");
    let mut both = options();
    both.window.combine = true;
    let both = surveyed(&rows, &both);
    let repeats = both.survey.judged[0].iter().map(|one| one.repeats).max();
    assert_eq!(repeats, Some(10));
    let mut before = options();
    before.window.until = Some("2026-11-20".into());
    assert_eq!(failed(&surveyed(&rows, &before).report), ["n2 cuda:2 memory read"]);
}

#[test]
fn repeats_that_are_records_of_their_own_are_one_session() {
    let mut rows = Vec::new();
    for row in fleet(4, &[(1, 1, 0.08)]) {
        for (at, value) in row.values.iter().enumerate() {
            let values = vec![*value];
            let (session, run) = ("records of 2026-11-20".into(), format!("r{at}").into());
            rows.push(Row { session, run, values, ..row.clone() });
        }
    }
    let found = report(&rows);
    assert_eq!(failed(&found), ["n1 cuda:1 memory read"]);
    assert_eq!(found.reach[0].whole.repeats, 5);
    // The same records a second time are no more repeats.
    let twice = [rows.clone(), rows].concat();
    let found = report(&twice);
    assert_eq!(found.reach[0].whole.repeats, 5);
    assert!(has(&found, "160 rows are there twice (the same session): counted once"));
}

#[test]
fn hostile_rows_have_their_line_and_stop_nothing() {
    let good = fleet(4, &[(3, 3, 0.08)]);
    let refused = |change: &dyn Fn(&mut Row<'static>), words: &str| {
        let mut rows = good.clone();
        let mut bad = row(9, 0, vec![3e12; 5]);
        change(&mut bad);
        rows.push(bad);
        let found = report(&rows);
        assert!(has(&found, words), "{words}: {:?}", found.notes);
        assert_eq!(failed(&found), ["n3 cuda:3 memory read"], "{words}");
    };
    refused(&|row| row.node = " ".into(), "line 32: it has no node");
    refused(&|row| row.time = "yesterday".into(), "its time is \"yesterday\", which is none");
    refused(&|row| row.time = "2026-13-01T00:00:00Z".into(), "which is none");
    // Times are put in order as texts, and databases refuse dates that are none.
    refused(&|row| row.time = "2026-11-20T10:00:00+09:00".into(), "which is none in UTC");
    refused(&|row| row.time = "2026-11-20Tnoon".into(), "which is none in UTC");
    refused(&|row| row.time = "2026-11-20T25:00:00Z".into(), "which is none in UTC");
    refused(&|row| row.time = "2026-02-30T00:00:00Z".into(), "which is none in UTC");
    refused(&|row| row.time = "2038-01-19T03:14:07Z".into(), "n9: its session is dated 2038-01-19");
    refused(&|row| row.least_effect = None, "its least_effect is no share");
    refused(&|row| row.verdict = "splendid".into(), "none of pass, fail, inconclusive");
    refused(&|row| row.part = "x".repeat(1000).into(), "a text of 1000 bytes");
    refused(
        &|row| row.values = vec![f64::NAN, 3e12, -1.0, 0.0],
        "memory read: 3 of 4 values no rate",
    );
    refused(&|row| row.mark = "stub".into(), "figures marked stub are left out");
    for (line, words) in [
        ("{\"format\":1,\"values\":[NaN]}", "expected"),
        ("{\"format\":2}", "it has format 2, and this fizeau reads format 1"),
        ("{\"line\":\"footer\"}", "it has no format"),
        ("[]", "it has no format"),
        ("{\"format\":1,\"values\":[1e999]}", "out of range"),
    ] {
        let why = Row::parse(line.as_bytes()).expect_err(words);
        assert!(why.contains(words), "{line}: {why}");
    }
}

#[test]
fn a_node_with_a_million_gpus_is_cut_and_the_others_are_judged() {
    let mut all = gathered(&fleet(4, &[(3, 3, 0.08)]));
    let flood = |from: u32, to: u32| {
        let mut gathered = Gathered::default();
        for gpu in from..to {
            gathered.take(&row(8, gpu, vec![3e12]), &"flood");
        }
        gathered
    };
    // By two readers at once.
    all.merge(flood(0, 100_000));
    all.merge(flood(100_000, 200_000));
    let found = survey(all, &options(), &Labels::default(), None);
    let words = format!("n8 reports more than {DEVICES_MAX} devices, which no node has");
    assert!(has(&found.report, &words), "{:?}", found.report.notes);
    assert!(has(&found.report, &format!("the rest, {} rows", 200_000 - DEVICES_MAX)));
    assert_eq!(found.units.units.len(), 32 + DEVICES_MAX);
    assert_eq!(failed(&found.report), ["n3 cuda:3 memory read"]);
}

#[test]
fn two_nodes_of_one_name_are_judged_apart_and_a_replaced_board_is_left_out() {
    let mut rows = fleet(4, &[]);
    for row in &mut rows {
        row.machine = format!("serial {}", row.node).into();
    }
    // Another machine with the name of n1, whose sessions are between those of the first.
    let twin = |mut row: Row<'static>, time: &'static str| {
        row.machine = "serial of the twin".into();
        row.uuid = format!("{}-twin", row.uuid).into();
        (row.session, row.time) = (format!("twin {time}").into(), time.into());
        row
    };
    let of_n1: Vec<Row<'static>> = rows.iter().filter(|row| row.node == "n1").cloned().collect();
    let mut twins = rows.clone();
    for row in &of_n1 {
        twins.push(twin(row.clone(), "2026-11-19T10:00:00Z"));
        twins.push(twin(row.clone(), "2026-11-21T10:00:00Z"));
    }
    let found = report(&twins);
    assert!(has(&found, "n1: 2 machines have this name (serial n1, serial of the twin)"));
    assert_eq!((found.by_node.len(), found.devices.pass), (5, 40));
    assert!(found.by_node.iter().any(|one| one.node == "n1 (machine serial of the twin)"));
    // A board in the place of an earlier one.
    let mut replaced = rows.clone();
    let mut new = row(1, 2, vec![3e12; 5]);
    (new.machine, new.uuid) = ("serial n1".into(), "GPU-new".into());
    (new.session, new.time) = ("new".into(), "2026-11-22T10:00:00Z".into());
    replaced.push(new);
    let found = report(&replaced);
    assert!(has(&found, "n1 cuda:2: board GPU-1-2 was replaced, and is left out"));
    assert_eq!(found.devices.pass, 32);
    // A board that was moved to another node.
    let mut moved = rows;
    let mut there = row(7, 0, vec![3e12; 5]);
    (there.uuid, there.time) = ("GPU-1-2".into(), "2026-11-22T10:00:00Z".into());
    moved.push(there);
    let found = report(&moved);
    assert!(has(&found, "board GPU-1-2 was in n1 and is now in n7"), "{:?}", found.notes);
    assert_eq!(found.devices.pass, 32);
}

#[test]
fn machines_of_one_name_that_were_measured_once_each_are_both_judged() {
    // As an array of acceptances leaves them: a session of each, some minutes apart.
    let rows = fleet(4, &[(1, 2, 0.2)]);
    let mut twins = rows.clone();
    for row in rows.iter().filter(|row| row.node == "n1") {
        let mut twin = row.clone();
        (twin.session, twin.time) = ("twin".into(), "2026-11-20T12:30:00Z".into());
        twin.uuid = format!("{}-twin", row.uuid).into();
        twin.values = rows[0].values.clone();
        twins.push(twin);
    }
    let found = report(&twins);
    assert_eq!(failed(&found), ["n1 cuda:2 memory read"], "{:?}", found.notes);
    assert!(has(&found, "n1 cuda:2: 2 boards say that they are this one"), "{:?}", found.notes);
    for row in twins.iter_mut() {
        row.machine = if row.session == "twin" { "B" } else { "A" }.into();
    }
    let found = report(&twins);
    let failures = failed(&found);
    assert_eq!(failures, ["n1 (machine A) cuda:2 memory read"], "{:?}", found.notes);
    assert_eq!(found.devices.pass, 39);
    // A board cannot be in two nodes within a minute.
    let mut boards = fleet(4, &[(1, 2, 0.2)]);
    let mut other = row(7, 0, boards[0].values.clone());
    (other.uuid, other.time) = ("GPU-1-2".into(), "2026-11-20T10:00:40Z".into());
    boards.push(other);
    let found = report(&boards);
    assert_eq!(failed(&found), ["n1 cuda:2 memory read"], "{:?}", found.notes);
    assert!(has(&found, "board GPU-1-2 is said to be in n1 and n7 at once"), "{:?}", found.notes);
}

#[test]
fn a_verdict_beside_values_is_a_failure_where_it_says_so() {
    for (verdict, failures) in [("pass", 0), ("inconclusive", 0), ("fail", 1)] {
        let mut rows = fleet(4, &[]);
        rows[9].verdict = verdict.into();
        let found = report(&rows);
        assert_eq!(failed(&found).len(), failures, "{verdict}: {:?}", found.flagged);
    }
}

#[test]
fn one_node_with_other_numbers_does_not_blind_the_fleet() {
    let mut rows = fleet(6, &[(3, 5, 0.08)]);
    for row in &mut rows {
        row.floor = Some(2.9e12);
        if row.node == "n0" {
            (row.least_effect, row.floor) = (Some(0.5), Some(1.0));
        }
    }
    let found = report(&rows);
    assert_eq!(failed(&found), ["n3 cuda:5 memory read"], "{:?}", found.notes);
    assert!(has(&found, "least effects from 2.0 to 50.0 %: that of most devices is used, 2.0 %"));
    assert!(has(&found, "8 of 48 floors are more than 2 % from their median: the median is used"));
    // All are below the floor, and one in six has none to speak of.
    rows.iter_mut().for_each(|row| row.values.iter_mut().for_each(|value| *value *= 0.9));
    assert_eq!(report(&rows).devices.fail, 48);
}

#[test]
fn names_with_a_domain_are_those_of_the_list() {
    let mut rows = fleet(3, &[]);
    rows.iter_mut().for_each(|row| row.node = format!("{}.example", row.node).into());
    let expected = Expected::parse("Host,GPUs\r\n\r\nn0,8\r\nn1.example, 9\r\nn9\r\n");
    let expected = expected.expect("a list");
    let found = survey(gathered(&rows), &options(), &Labels::default(), Some(&expected)).report;
    let presence = found.presence.expect("a list");
    assert_eq!((presence.planned, presence.measured), (3, 2));
    assert_eq!(presence.missing, ["n9"]);
    assert_eq!(presence.unexpected, ["n2.example"]);
    assert_eq!(presence.short, ["n1.example: 8 of 9 GPUs"]);
}

#[test]
fn the_order_in_which_rows_are_read_changes_nothing() {
    let rows = fleet(6, &[(3, 5, 0.08)]);
    let whole = report(&rows);
    let (first, second) = rows.split_at(17);
    let mut other = gathered(second);
    other.merge(gathered(first));
    let other = survey(other, &options(), &Labels::default(), None).report;
    assert_eq!(whole.flagged, other.flagged);
    assert_eq!(whole.by_node, other.by_node);
    assert_eq!(whole.notes, other.notes);
}

#[test]
fn tables_have_every_verdict_and_marks_are_on_every_line() {
    let mut rows = fleet(6, &[(3, 5, 0.08)]);
    rows.iter_mut().for_each(|row| row.mark = "stub".into());
    (rows[0].node, rows[0].session) = ("=cmd()".into(), "another".into());
    let found = surveyed(&rows, &options());
    let text = format::fleet::text(&found.report);
    assert!(text.lines().all(|line| line.ends_with(" (stub)")), "{text}");
    let mut csv = Vec::new();
    format::fleet::csv(&found, &mut csv).expect("written");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 49);
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",stub")), "{csv}");
    assert!(csv.contains("'=cmd()"), "a formula is text");
    assert!(!csv.contains("e12"), "no rate of a stub is shown: {csv}");
    let metrics = format::fleet::prometheus(&found.report);
    let series: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &series {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        assert!(name.contains("mark=\"stub\"") && name.ends_with('}'), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(metrics.contains("fizeau_fleet_devices{mark=\"stub\",verdict=\"fail\"} 1"));
    let json = serde_json::to_string(&found.report).expect("JSON");
    assert!(!json.contains("\"median\""), "{json}");
}

#[test]
fn the_page_of_a_fleet_is_light_and_shows_who_fails_and_nothing_as_markup() {
    let mut rows = fleet(40, &[(3, 5, 0.08)]);
    rows.iter_mut().filter(|row| row.node == "n3").for_each(|row| row.part = "<b>".into());
    let mut earlier = rows[29].clone();
    assert_eq!((&*earlier.node, &*earlier.device), ("n3", "cuda:5"));
    (earlier.session, earlier.time) = ("before".into(), "2026-11-10T10:00:00Z".into());
    rows.push(earlier);
    rows.iter_mut().for_each(|row| row.part = row.part.replace("h100-sxm", "<b>").into());
    let labels: String =
        (0..40).map(|node| format!("n{node},r{}\n", node / 4)).collect::<Vec<_>>().concat();
    let labels = Labels::parse(&format!("node,rack\n{labels}")).expect("labels");
    let found = survey(gathered(&rows), &options(), &labels, None);
    let page = format::fleet_page::page(&found);
    let body = page.find("<h1").expect("a heading");
    assert!(
        page[body..].starts_with("<h1 class=fail>FAIL  40 nodes, 320 GPUs, one session: "),
        "{page}"
    );
    let place = |words: &str| page.find(words).expect(words);
    assert!(place("<p class=do>Do: ") < place("id=evidence"), "what to do comes first");
    assert!(place("id=evidence") < place("id=map"), "what fails comes before the map");
    assert!(place("id=map") < place("id=open"), "what is not decided comes after it");
    assert!(!page.contains("<b>") && page.contains("&lt;b&gt;"));
    assert!(page.contains("n3 cuda:5: memory read, loses 8."), "{page}");
    assert!(page.contains("History, beside today's median: 2026-11-20T10:00:00Z -8."), "{page}");
    assert!(page.contains("2026-11-10T10:00:00Z -8."), "{page}");
    assert!(page.contains(">r9</text>") && !page.contains("http:") && !page.contains("<script"));
    let squares = page.matches("h6v6h-6z").count();
    assert_eq!(squares, 320, "a square for each GPU");
    assert!(page.matches("<path").count() < 24, "and no element for each");
}

#[test]
fn the_page_names_every_column_of_a_row() {
    let page = include_str!("../../docs/fleet.md");
    let full = Row {
        mark: "m".into(),
        run: "r".into(),
        incomplete: true,
        machine: "m".into(),
        serial: "s".into(),
        pci: "p".into(),
        slot: "s".into(),
        vbios: "v".into(),
        host_type: "h".into(),
        fizeau: "f".into(),
        code: "c".into(),
        suite: "s".into(),
        kernel: "k".into(),
        key: "k".into(),
        disturbed: 1,
        floor: Some(1.0),
        verdict: "fail".into(),
        words: "w".into(),
        action: "a".into(),
        ..row(0, 0, vec![1.0])
    };
    let value = serde_json::to_value(&full).expect("JSON");
    let columns = value.as_object().expect("an object");
    assert_eq!(columns.len(), 33);
    for name in columns.keys() {
        assert!(page.contains(&format!("`{name}`")), "docs/fleet.md does not name {name}");
    }
    let line = full.line();
    assert_eq!(Row::parse(line.as_bytes()), Ok(full));
}

proptest! {
    #[test]
    fn any_bytes_in_a_row_are_read_to_their_end(
        place in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 0..6),
        length in 0usize..4,
    ) {
        let mut line = row(1, 1, vec![3e12; 5]).line().into_bytes();
        let at = place.index(line.len());
        let end = (at + length).min(line.len());
        line.splice(at..end, with);
        let mut gathered = gathered(&fleet(1, &[]));
        if let Ok(row) = Row::parse(&line) {
            gathered.take(&row, &"here");
        }
        let found = survey(gathered, &options(), &Labels::default(), None);
        prop_assert!(!format::fleet::text(&found.report).is_empty());
    }
}
