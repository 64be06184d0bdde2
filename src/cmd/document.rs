//! How documents are written: the formats, which of them is asked for, and the window.

use super::{disk::write_file, exit::Usage, global::Global, output};
use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fizeau_domain::text;
use fizeau_record::Record;
use fizeau_report::{
    self as report, About, Document,
    format::{
        csv, html, json, markdown,
        terminal::{self, Colour, Terminal},
    },
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text that fits the window.
    Terminal,
    /// For issues, wikis and READMEs.
    Markdown,
    /// Every case on a line, in SI units; docs/record-format.md says what each column is.
    Csv,
    /// All derived numbers, in SI units.
    Json,
    /// One page that needs nothing else, with charts.
    Html,
    /// Collectives alone, as nccl-tests prints them; with --json, as its JSON file.
    NcclTests,
    /// Transfers alone, as nvbandwidth prints them; with --json, as its JSON file.
    Nvbandwidth,
    /// A line for the results-summary.jsonl of SuperBench.
    Superbench,
}

impl ReportFormat {
    /// Whether it is the form of another program, which has the cases of one run.
    fn is_of_cases(self) -> bool {
        use ReportFormat::{
            Csv, Html, Json, Markdown, NcclTests, Nvbandwidth, Superbench, Terminal,
        };
        match self {
            NcclTests | Nvbandwidth | Superbench => true,
            Terminal | Markdown | Csv | Json | Html => false,
        }
    }
}

/// How the names of files end, and what is written to them.
const ENDINGS: [(&str, ReportFormat); 6] = [
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("md", ReportFormat::Markdown),
    ("csv", ReportFormat::Csv),
    ("json", ReportFormat::Json),
    ("txt", ReportFormat::Terminal),
];

/// The format asked for, by flag or by the end of the file's name.
///
/// # Errors
/// Where neither says one: a file would else hold something else than its name promises.
pub fn format_of(
    flag: Option<ReportFormat>,
    out: Option<&Path>,
    global: &Global,
) -> Result<ReportFormat, Usage> {
    let ending = out.and_then(Path::extension).and_then(|end| end.to_str());
    let by_name = ENDINGS.iter().find(|(name, _)| Some(*name) == ending).map(|(_, format)| *format);
    match (flag.or(by_name), out) {
        (Some(format), _) => Ok(format),
        (None, _) if global.json => Ok(ReportFormat::Json),
        (None, None) => Ok(ReportFormat::Terminal),
        (None, Some(path)) => {
            let known = ENDINGS.map(|(name, _)| format!(".{name}")).join(", ");
            let picture = match ending {
                Some("png" | "svg" | "pdf" | "jpg" | "jpeg") => {
                    "; `fizeau report RECORD --png DIR` writes the charts as pictures"
                }
                _ => "",
            };
            Err(Usage(format!(
                "--out {}: the name does not say how it is to be written; end it in one of \
                 {known}, or choose by --format{picture}",
                path.display()
            )))
        }
    }
}

/// As [`format_of`], for what is no record of cases, which other programs' forms are of: `what` in
/// words.
///
/// # Errors
/// As [`format_of`], and for forms of other programs.
pub fn format_without_cases(
    flag: Option<ReportFormat>,
    out: Option<&Path>,
    global: &Global,
    what: &str,
) -> Result<ReportFormat, Usage> {
    match format_of(flag, out, global)? {
        format if format.is_of_cases() => {
            let name = format.to_possible_value();
            let name = name.as_ref().map_or("this", |value| value.get_name());
            Err(Usage(format!("{name} has no form for {what}: choose --format json")))
        }
        format => Ok(format),
    }
}

/// The formats of a document that is not of one run: all but those of other programs, which have
/// the cases of a run alone. No other one is offered where it would be refused.
pub fn document_format() -> impl TypedValueParser<Value = ReportFormat> {
    let of_documents = ReportFormat::value_variants()
        .iter()
        .filter(|format| !format.is_of_cases())
        .filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(of_documents).map(|name| {
        // The parser lets through no other name.
        ReportFormat::from_str(&name, false).unwrap_or(ReportFormat::Terminal)
    })
}

/// Renders a document that is of no run.
///
/// # Errors
/// Where a chart cannot be drawn.
pub fn render(
    document: &Document,
    format: ReportFormat,
    terminal: Terminal,
) -> anyhow::Result<String> {
    render_about(document, &About::default(), format, terminal)
}

/// Renders a document; JSON has also what a program asks first.
///
/// # Errors
/// Where a chart cannot be drawn.
pub fn render_about(
    document: &Document,
    about: &About,
    format: ReportFormat,
    terminal: Terminal,
) -> anyhow::Result<String> {
    Ok(match format {
        ReportFormat::Terminal => terminal::render(document, terminal),
        ReportFormat::Markdown => markdown::render(document),
        ReportFormat::Csv => csv::render(document)?,
        ReportFormat::Json => json::render(document, about),
        ReportFormat::Html => html::render(document)?,
        ReportFormat::NcclTests | ReportFormat::Nvbandwidth | ReportFormat::Superbench => {
            anyhow::bail!("this form is of a record, and not of a whole document")
        }
    })
}

/// Text in a file: nothing is cut, nothing is coloured.
pub const FILE: Terminal = Terminal { width: None, colour: Colour::Never };

/// The window that standard output is shown in, where it is shown in one.
pub fn window(global: &Global) -> Terminal {
    let size = terminal_size::terminal_size_of(io::stdout());
    let width = size.map(|(width, _)| usize::from(width.0)).filter(|&width| width > 0);
    let colour = if global.colours() { Colour::Ansi } else { Colour::Never };
    Terminal { width, colour }
}

/// Lines of a verdict for standard output: in a window they are broken between words, and in a pipe
/// or a file each stays one line.
pub fn lines_in_window(lines: &str, global: &Global) -> String {
    let width = window(global).width;
    lines.lines().map(|line| text::wrap(line, width, HANGING) + "\n").collect()
}

/// Columns before what goes over to the next line.
const HANGING: usize = 6;

/// The terminal that a text is rendered for: none where it goes into the file `out`.
pub fn terminal(out: Option<&Path>, global: &Global) -> Terminal {
    if out.is_some() { FILE } else { window(global) }
}

/// Writes a rendered text to the file that `--out` names, or to standard output.
///
/// # Errors
/// Where it cannot be written.
pub fn deliver(text: &str, out: Option<&Path>) -> anyhow::Result<()> {
    match out {
        Some(path) => write_file(path, text.as_bytes(), "--out FILE"),
        None => output::write_out(text),
    }
}

/// Writes `report.html` and `report.md` of a record into a directory, and says where.
///
/// # Errors
/// Where a chart cannot be drawn or a file cannot be written.
pub fn write_all(dir: &Path, record: &Record) -> anyhow::Result<Vec<PathBuf>> {
    write_document(dir, &report::run(record))
}

/// Writes `report.html` and `report.md` of a document into a directory, and says where.
///
/// # Errors
/// Where a chart cannot be drawn or a file cannot be written.
pub fn write_document(dir: &Path, document: &Document) -> anyhow::Result<Vec<PathBuf>> {
    let files =
        [("report.html", html::render(document)?), ("report.md", markdown::render(document))];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = dir.join(name);
        write_file(&path, text.as_bytes(), "--out DIR")?;
        written.push(path);
    }
    Ok(written)
}
