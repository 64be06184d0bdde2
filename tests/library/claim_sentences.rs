//! Sentences as datasheets, posts and tools word them: none that is true is called impossible, and
//! none that is false possible. They stand in `claim_sentences.toml`, each with its source or its
//! reason.

use super::claims::judged;
use fizeau::data::Catalogue;
use fizeau_projection::claim::{Answer, Claim};

/// The sentences of a table of the file, as claims.
fn sentences(table: &str) -> Vec<Claim> {
    sentences_of(include_str!("claim_sentences.toml"), table)
}

fn sentences_of(text: &str, table: &str) -> Vec<Claim> {
    let file: toml::Table = toml::from_str(text).expect("a file of sentences");
    let all = file[table].as_array().expect("an array");
    let claim = |one: &toml::Value| {
        let mut one = one.as_table().expect("a table").clone();
        for (name, field) in [("say", "value"), ("why", "source")] {
            let text = one.remove(name).unwrap_or_else(|| panic!("{name} of {one:?}"));
            one.insert(field.into(), text);
        }
        one.try_into::<Claim>().expect("a claim")
    };
    all.iter().map(claim).collect()
}

/// What is said of each sentence, and a line for each that is not `allowed`.
fn wrong(table: &str, least: usize, allowed: &[Answer]) -> Vec<String> {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let all = sentences(table);
    assert!(all.len() >= least, "{}", all.len());
    let mut wrong = Vec::new();
    for claim in &all {
        let on = claim.on.as_deref().unwrap_or_default();
        let line = match judged(&catalogue, claim) {
            Ok(verdict) if allowed.contains(&verdict.answer) => continue,
            Ok(verdict) => format!("{}: {}", verdict.answer, verdict.why),
            Err(why) => format!("refused: {why}"),
        };
        wrong.push(format!("{:?} on {on}: {line}", claim.value));
    }
    wrong
}

/// Sentences that the program refuses, with the words that it does not know: a mend moves them to
/// the true or the false ones. A refusal says what to write.
#[test]
fn sentences_that_are_still_refused_are_listed() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    for claim in sentences("refused") {
        let why = judged(&catalogue, &claim).err().unwrap_or_default();
        assert!(why.contains("write \"154 tok/s/user\""), "{:?}: {why}", claim.value);
    }
}

#[test]
fn no_true_sentence_is_called_impossible_or_is_refused() {
    let allowed = [Answer::Possible, Answer::Suspicious, Answer::CannotTell];
    let wrong = wrong("true", 120, &allowed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The largest share of the true sentences that is not called possible: those that leave out what
/// decides them, as a rate of tokens without its load, one of arithmetic without its type, or a
/// format that no text states of the part. Each of those is "cannot tell", which is right of them.
const TRUE_OPEN: f64 = 1.0 / 9.0;

/// The same of false sentences and impossible: what is left out may make them true (another number
/// of devices, sparsity, a second socket), or a measured figure just equals a peak.
const FALSE_OPEN: f64 = 0.16;

/// The sentences that are not called so, where they are more than a share of all.
fn too_many(table: &str, allowed: Answer, share: f64) -> Option<String> {
    let others = wrong(table, 0, &[allowed]);
    let most = share * sentences(table).len() as f64;
    (others.len() as f64 > most).then(|| format!("{}: {}", others.len(), others.join("\n")))
}

/// Most of them need no condition more to be true.
#[test]
fn most_true_sentences_are_called_possible() {
    assert_eq!(too_many("true", Answer::Possible, TRUE_OPEN), None);
    // "Suspicious" is no answer to what is true, but for a stated peak that no vendor confirms.
    let doubted = wrong("true", 300, &[Answer::Possible, Answer::CannotTell]);
    assert!(doubted.len() <= 1, "{}", doubted.join("\n"));
}

#[test]
fn no_false_sentence_is_called_possible() {
    let allowed = [Answer::Impossible, Answer::Suspicious, Answer::CannotTell];
    let wrong = wrong("false", 60, &allowed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn most_false_sentences_are_called_impossible() {
    assert_eq!(too_many("false", Answer::Impossible, FALSE_OPEN), None);
}

/// Wordings of links as pages, posts and tools have them, each with the verdict that it must get.
#[test]
fn each_wording_of_a_link_gets_its_verdict() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let all = sentences_of(include_str!("claim_wordings.toml"), "wording");
    let mut wrong = Vec::new();
    for claim in &all {
        let expected = claim.verdict.expect("a verdict");
        let found = match judged(&catalogue, claim) {
            Ok(verdict) if verdict.answer == expected => continue,
            Ok(verdict) => format!("{}: {}", verdict.answer, verdict.why),
            Err(why) => format!("refused: {why}"),
        };
        wrong.push(format!("{:?} on {:?} is {expected}, not {found}", claim.value, claim.on));
    }
    assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), all.len(), wrong.join("\n"));
    let are = |answer: Answer| all.iter().filter(|one| one.verdict == Some(answer)).count();
    assert!(are(Answer::Possible) >= 40 && are(Answer::Impossible) >= 40);
}

/// The sentence with another number in place of its `at`-th one; none where it has no such one.
fn with_number(sentence: &str, at: usize, number: &str) -> Option<String> {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let starts = sentence.char_indices().filter(|(place, c)| {
        c.is_ascii_digit() && !sentence[..*place].ends_with(|c: char| is_of_number(c))
    });
    let (start, _) = { starts }.nth(at)?;
    let length = sentence[start..].find(|c: char| !is_of_number(c));
    let end = length.map_or(sentence.len(), |length| start + length);
    Some(format!("{}{number}{}", &sentence[..start], &sentence[end..]))
}

/// Whatever is claimed, each percentage of the answer has 14 characters at most.
#[test]
fn answers_to_absurd_figures_have_short_percentages() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let (mut judged_all, mut percentages, mut long) = (0, 0, Vec::new());
    let absurd = ["0.000000000000123", "987654321098765432109876", "4e300"];
    for claim in sentences("true").into_iter().chain(sentences("false")) {
        let changed = |(at, number): (usize, &&str)| with_number(&claim.value, at, number);
        let all = (0..3).flat_map(|at| absurd.iter().map(move |number| (at, number)));
        for value in all.filter_map(changed) {
            let changed = Claim { value, ..claim.clone() };
            let Ok(verdict) = judged(&catalogue, &changed) else { continue };
            judged_all += 1;
            for line in verdict.arithmetic.iter().chain([&verdict.why]).chain(&verdict.missing) {
                for (at, _) in line.match_indices(" %") {
                    percentages += 1;
                    let number = line[..at].rsplit([' ', '(']).next().unwrap_or_default();
                    if number.len() > 12 {
                        long.push(format!("{:?}: {line}", changed.value));
                    }
                }
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
    assert!(judged_all > 300 && percentages > 300, "{judged_all}, {percentages}");
}
