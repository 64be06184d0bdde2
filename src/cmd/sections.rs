//! The commands in sections, by what they are for, in the program's help.

use clap::Command;
use std::fmt::Write as _;

/// Sections and their commands, in the order of the help.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Measure this machine",
        &[
            "run", "list", "explain", "suites", "devices", "discover", "doctor", "launch",
            "localise",
        ],
    ),
    ("Read and compare records", &["report", "compare", "ab"]),
    ("Accept nodes, watch a fleet", &["accept", "verify", "profile", "fleet"]),
    ("Check figures of others", &["claim", "reproduce"]),
    ("Language models and their servers", &["project", "shapes", "load"]),
    ("Help", &["help", "completions", "man"]),
];

/// The help without clap's own list of commands.
const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}
{before-help}Options:
{options}{after-help}";

/// The same program, whose help lists the commands in sections.
pub fn in_sections(program: Command) -> Command {
    let text = text(&program);
    program.before_help(text).help_template(TEMPLATE)
}

fn text(program: &Command) -> String {
    let mut text = String::new();
    for (section, names) in SECTIONS {
        let _ = writeln!(text, "\n{section}:");
        for name in *names {
            let command = program.find_subcommand(name);
            let about = match command.and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print the help of a command".to_owned(),
            };
            let aliases = command.into_iter().flat_map(Command::get_visible_aliases);
            let aliases: String = aliases.map(|alias| format!(" [alias: {alias}]")).collect();
            let _ = writeln!(text, "  {name:<12} {about}{aliases}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    #[test]
    fn each_command_that_is_shown_stands_in_one_section() {
        let program = crate::cmd::Cli::command();
        let shown = program.get_subcommands().filter(|one| !one.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).chain(["help"]).collect();
        let named: Vec<&str> = SECTIONS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(named.len(), shown.len(), "each once");
    }
}
