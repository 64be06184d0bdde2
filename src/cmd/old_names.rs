//! Options under the names that they had before. They work for one release more, hidden from help,
//! with a note on standard error.

/// Commands with an option's old name and its name now. Clap knows the old one as a hidden alias.
const OLD: &[(&str, &str, &str)] = &[
    ("compare", "--with", "--vs"),
    ("report", "--against", "--vs"),
    ("ab", "--a-env", "--env-a"),
    ("ab", "--b-env", "--env-b"),
    ("accept", "--baseline", "--vs"),
    ("compare", "--threshold", "--least-effect"),
    ("discover", "--seconds", "--budget"),
    ("fleet", "--expect", "--expected"),
    ("fleet", "--prometheus", "--textfile"),
    ("fleet", "--signers", "--allowed-signers"),
    ("fleet", "--write-fleet", "--out"),
    ("load", "--devices", "--gpus"),
    ("load", "--input", "--isl"),
    ("load", "--output", "--osl"),
    ("shapes", "--tp", "--layout"),
];

/// A note for each old name among the words of a command line, the program's own name left out.
pub fn notes(words: &[String]) -> Vec<String> {
    let Some(verb) = words.iter().find(|word| OLD.iter().any(|(verb, _, _)| verb == word)) else {
        return Vec::new();
    };
    let options = words.iter().take_while(|word| *word != "--");
    let mut notes: Vec<String> = Vec::new();
    for word in options {
        let given = word.split('=').next().unwrap_or(word);
        let old = OLD.iter().find(|(of, old, _)| of == verb && *old == given);
        notes.extend(old.map(|(_, old, new)| {
            format!("{old} is called {new} now; {old} works for one release more")
        }));
    }
    notes.dedup();
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn each_old_name_is_a_hidden_alias_of_the_new_one_and_has_a_note() {
        let program = Cli::command();
        for (verb, old, new) in OLD {
            let command = program.find_subcommand(verb).expect(verb);
            let all = [command].into_iter().chain(command.get_subcommands());
            let named = all.flat_map(clap::Command::get_arguments);
            let has_name = |arg: &&clap::Arg| arg.get_long() == new.strip_prefix("--");
            let has_alias = |arg: &&clap::Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                aliases.iter().any(|alias| Some(*alias) == old.strip_prefix("--"))
            };
            let arg = named.filter(has_name).find(has_alias).expect(old);
            let shown = arg.get_visible_aliases().unwrap_or_default();
            assert!(shown.is_empty(), "{old} is shown");
            let words = [*verb, "a", old, "b", old].map(str::to_owned);
            assert_eq!(notes(&words).len(), 1, "{old}");
            assert!(notes(&words)[0].contains(new), "{new}");
            let with_value = [(*verb).to_owned(), format!("{old}=b")];
            assert_eq!(notes(&with_value).len(), 1, "{old}=b");
        }
        let none = ["compare", "a", "--vs", "b", "--", "--with"].map(str::to_owned);
        assert!(notes(&none).is_empty());
        assert!(notes(&["run".to_owned(), "--with".to_owned()]).is_empty());
    }
}
