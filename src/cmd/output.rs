//! What verbs say: results on standard output, all else on standard error.

use fizeau_domain::text;
use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

/// Prints a text and a line's end, as `write_out` does: for verbs that end well once it is said.
pub fn print(text: &str) -> anyhow::Result<ExitCode> {
    write_out(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a value as JSON, for machines, with nothing in it that a terminal acts upon.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
    print(&text::escaped(serde_json::to_string_pretty(value)?))
}

/// Writes to standard output, for whoever still reads it: what a verb found out, and its exit
/// code, do not depend on it. The only place that does, so that no verb can forget it.
///
/// # Errors
///
/// Where it cannot be written for another reason than that its reader went away.
pub fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    taken_up(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints what clap answers where no verb is asked for: help, or the version.
///
/// # Errors
/// As [`write_out`].
pub fn print_answer(answer: &clap::Error) -> anyhow::Result<()> {
    taken_up(answer.print().and_then(|()| io::stdout().flush()))
}

/// What became of a write to standard output. A reader that went away (`fizeau list | head`) is no
/// failure, whatever the verb found out.
fn taken_up(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes to standard error, cleaned: what a record, a driver, a path or another rank says may hold
/// anything. Where it is closed there is nobody to tell, and what the program does must not depend
/// on it: `eprintln!` would panic.
pub fn say(text: &str) {
    say_after("", text);
}

/// Whether standard error is a terminal.
pub fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The same where a terminal may show a line that is not ended, such as that of progress.
pub fn say_on_a_new_line(text: &str) {
    say_after(if has_terminal() { "\n" } else { "" }, text);
}

fn say_after(start: &str, text: &str) {
    let window = terminal_size::terminal_size_of(io::stderr());
    let width = window.map(|(width, _)| usize::from(width.0)).filter(|&width| width >= 40);
    let clean = text::clean_lines(&in_words(text));
    let lines = clean.split('\n').enumerate();
    let lines: Vec<String> =
        lines.map(|(at, line)| text::wrap(line, width, if at == 0 { 8 } else { 0 })).collect();
    let _ = writeln!(io::stderr(), "{start}fizeau: {}", lines.join("\n"));
}

/// What Linux says of a path to nothing.
pub const NO_SUCH_FILE: &str = "No such file or directory (os error 2)";

/// What Linux says of an error, by its number, in words that say what to look at.
const OS_ERRORS: [(&str, &str); 12] = [
    (NO_SUCH_FILE, "there is no such file or directory"),
    ("Permission denied (os error 13)", "permission denied: this user may not use it"),
    ("File exists (os error 17)", "there is something of this name already, which is no directory"),
    ("Not a directory (os error 20)", "it is, or lies below, a file that is no directory"),
    ("Is a directory (os error 21)", "it is a directory, and a file is needed"),
    ("Too many open files (os error 24)", "too many open files: raise `ulimit -n`"),
    ("Too many levels of symbolic links (os error 40)", "a symbolic link that leads to itself"),
    ("File name too long (os error 36)", "a name of a file that is too long"),
    (
        "Read-only file system (os error 30)",
        "the file system can only be read: choose another --out",
    ),
    ("No space left on device (os error 28)", "the disk is full"),
    ("Disk quota exceeded (os error 122)", "the disk quota of this user is used up"),
    ("Exec format error (os error 8)", "it is no program of this machine"),
];

/// The same without the numbers of the operating system's errors.
fn in_words(text: &str) -> String {
    let known = OS_ERRORS;
    let mut rest =
        &*known.iter().fold(text.to_owned(), |text, (is, words)| text.replace(is, words));
    let mut all = String::new();
    while let Some((before, after)) = rest.split_once(" (os error ") {
        let number = after.split_once(')').filter(|(digits, _)| digits.parse::<u32>().is_ok());
        all += before;
        match number {
            Some((_, after)) => rest = after,
            None => (all, rest) = (all + " (os error ", after),
        }
    }
    all + rest
}

/// A path as messages show it.
pub fn shown(path: &Path) -> String {
    text::clean(&path.display().to_string())
}
