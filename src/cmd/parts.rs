//! Parts and hardware by what options call them.

use super::exit::Usage;
use crate::data::Catalogue;
use fizeau_domain::near;
use fizeau_projection::project::{Hardware, MediansFile, Public, joined::joined};
use fizeau_record::store;
use std::path::Path;

/// A part by its id, or by the beginning of it where that is one part; of several the one with an
/// SXM or HGX board is taken, which is said. `option` is what named it.
///
/// # Errors
/// Where there is none, or more than one.
pub fn part_called<'a>(
    catalogue: &'a Catalogue,
    option: &str,
    name: &str,
) -> Result<(&'a fizeau_domain::spec::Part, Option<String>), Usage> {
    let wanted = spelled(name);
    if let Some(part) = catalogue.parts.iter().find(|part| part.id == wanted) {
        return Ok((part, None));
    }
    let begins = |part: &&fizeau_domain::spec::Part| {
        part.id.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-'))
    };
    let found: Vec<_> = catalogue.parts.iter().filter(begins).collect();
    let is_board = |part: &&&fizeau_domain::spec::Part| {
        let rest = &part.id[wanted.len()..];
        rest.starts_with("-sxm") || rest.starts_with("-hgx")
    };
    let boards: Vec<_> = found.iter().filter(is_board).collect();
    let ids = found.iter().map(|part| part.id.as_str()).collect::<Vec<_>>().join(", ");
    match (found.as_slice(), boards.as_slice()) {
        ([part], _) => Ok((part, None)),
        (_, [part]) => Ok((part, Some(format!("{name} may be {ids}: {} is used", part.id)))),
        ([], _) => {
            if let Some(count) = count_before(catalogue, &wanted) {
                let part = &name[count.len() + 1..];
                return Err(Usage(format!(
                    "{option} {name}: {option} takes a part without a number: write {option} \
                     {part}, and the number of GPUs as --layout tp{count} (project) or --gpus \
                     {count} (claim)"
                )));
            }
            let near = near::hint(name, catalogue.parts.iter().map(|part| part.id.as_str()));
            Err(Usage(format!(
                "{option} {name:?}: no part has this name{near}, and there is no such record; \
                 `fizeau devices --parts` prints the catalogue"
            )))
        }
        _ => Err(Usage(format!("{option} {name}: which of {ids}?"))),
    }
}

/// The one part of the catalogue that a sentence names, as [`part_called`] takes names, with the
/// words that name it; `None` where it names none.
///
/// # Errors
/// In words, where it names several, or one name may be several parts.
pub fn part_in<'a>(
    catalogue: &'a Catalogue,
    text: &str,
) -> Option<Result<(&'a fizeau_domain::spec::Part, String), String>> {
    let is_sign = |c: char| !c.is_alphanumeric();
    let words: Vec<&str> = text
        .split([' ', '/', '(', ')', ':', ','])
        .map(|word| word.trim_matches(is_sign))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found: Vec<(&fizeau_domain::spec::Part, String)> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        // The longest name that begins here: "RTX 4090 D" is no RTX 4090.
        if without_count(words[at]).is_empty() {
            at += 1;
            continue;
        }
        let names = (1..=NAME_WORDS.min(words.len() - at)).rev();
        let named =
            names.map(|count| (count, words[at..at + count].join(" "))).find(|(_, name)| {
                let id = spelled(without_count(name));
                id.contains(|c: char| c.is_ascii_digit()) && is_begun(catalogue, &id)
            });
        let Some((count, name)) = named else {
            if let Some(ids) = longer_ids(catalogue, without_count(words[at])) {
                return Some(Err(format!("{} may be {}", words[at], ids.join(", "))));
            }
            at += 1;
            continue;
        };
        at += count;
        let name = without_count(&name).to_owned();
        match part_called(catalogue, "--on", &name) {
            Ok((part, _)) if found.iter().all(|(other, _)| other.id != part.id) => {
                found.push((part, name));
            }
            Ok(_) => {}
            Err(Usage(why)) => return Some(Err(why)),
        }
    }
    match found.len() {
        0 | 1 => found.pop().map(Ok),
        _ => {
            let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
            Some(Err(format!("the text names several parts ({})", names.join(", "))))
        }
    }
}

/// The words by which a sentence names another part than the one that is given; `None` where it
/// names none, the same one, or does not say which.
pub fn other_part_in(
    catalogue: &Catalogue,
    text: &str,
    given: &fizeau_domain::spec::Part,
) -> Option<String> {
    let (part, name) = part_in(catalogue, text)?.ok()?;
    let is_given = part.id == given.id || given.id.starts_with(&format!("{}-", spelled(&name)));
    (!is_given).then_some(name)
}

/// Words of the longest name of a part: "RTX PRO 6000 Max-Q".
const NAME_WORDS: usize = 4;

/// Whether a part has this id or one that it begins.
fn is_begun(catalogue: &Catalogue, id: &str) -> bool {
    let rest = |part: &fizeau_domain::spec::Part| part.id.strip_prefix(id).map(str::to_owned);
    let mut rests = catalogue.parts.iter().filter_map(rest);
    !id.is_empty() && rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The ids that a word begins without being one: "MI300" is mi300a or mi300x.
fn longer_ids<'a>(catalogue: &'a Catalogue, word: &str) -> Option<Vec<&'a str>> {
    /// Shorter words begin many ids by chance.
    const LETTERS_MIN: usize = 4;
    let id = spelled(word);
    let is_name = id.len() >= LETTERS_MIN
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.ends_with(|c: char| c.is_ascii_digit());
    let ids = catalogue.parts.iter().map(|part| part.id.as_str());
    let longer: Vec<&str> = ids.filter(|other| is_name && other.starts_with(&id)).collect();
    (!longer.is_empty()).then_some(longer)
}

/// "8xH100" without the number before it.
fn without_count(name: &str) -> &str {
    match name.split_once(['x', 'X']) {
        Some((count, part)) if !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()) => {
            part
        }
        _ => name,
    }
}

/// Words of vendors before the names of parts.
const VENDORS: [&str; 6] = ["nvidia", "amd", "instinct", "tesla", "geforce", "radeon"];

/// A name as ids are written: "H100 SXM" is `h100-sxm`.
fn spelled(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split([' ', '_']).filter(|word| !word.is_empty() && !VENDORS.contains(word));
    words.collect::<Vec<_>>().join("-")
}

/// The number of GPUs that stands before a part's name, as in `8xh200`.
fn count_before<'n>(catalogue: &Catalogue, name: &'n str) -> Option<&'n str> {
    let (count, part) = name.split_once('x')?;
    let is_part = catalogue.parts.iter().any(|one| {
        one.id.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    (is_count && is_part).then_some(count)
}

/// Hardware by a part's name, or by the paths of one record or of several of one machine, with `+`
/// between them. Published rates of the part stand in for what is not measured, if they are wanted.
///
/// # Errors
/// Where there is none, or its record cannot be used.
pub fn hardware(catalogue: &Catalogue, name: &str, is_published: bool) -> anyhow::Result<Hardware> {
    let paths = match Path::new(name).exists() {
        true => vec![name],
        false => name.split('+').collect(),
    };
    let is_record = paths.iter().all(|path| Path::new(path).exists());
    let (part, mut hardware) = if is_record {
        let read = |path: &&str| Ok(((*path).to_owned(), store::read(Path::new(path))?));
        let records = paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        let record = joined(records).map_err(Usage)?;
        let part = catalogue.part_of(&record.header.device);
        (part, Hardware::of_record(name, &record, part).map_err(Usage)?)
    } else {
        if let [_, _, ..] = paths.as_slice() {
            let lacks = paths.iter().find(|path| !Path::new(path).exists()).unwrap_or(&name);
            return Err(Usage(format!("--on {name}: there is no record {lacks}")).into());
        }
        let (part, note) = part_called(catalogue, "--on", name)?;
        let mut hardware = Hardware::of_part(part).map_err(Usage)?;
        hardware.notes.extend(note);
        (Some(part), hardware)
    };
    let medians = part.filter(|_| is_published).and_then(|part| catalogue.medians(&part.id));
    if let Some((origin, text)) = medians {
        let refuse = |why: String| Usage(format!("{origin}: {why}"));
        let file: MediansFile = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        hardware.public = Some(Public::of(&file, &hardware).map_err(refuse)?);
        hardware.notes.push(match hardware.measured {
            Some(_) => format!(
                "{name}: where the record has no such shape, L2 takes rates that \
                                others published of this part; they do not count as covered"
            ),
            None => format!(
                "{name}: L2 takes rates that others published of this part, and says \
                             nothing of a machine of yours; --no-published leaves them out"
            ),
        });
    }
    Ok(hardware)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sentence names, by the part's id.
    fn named(catalogue: &Catalogue, text: &str) -> Result<Option<(String, String)>, String> {
        let found = part_in(catalogue, text).transpose()?;
        Ok(found.map(|(part, name)| (part.id.clone(), name)))
    }

    #[test]
    fn every_part_of_the_catalogue_is_found_in_a_sentence_by_its_whole_name() {
        let catalogue = Catalogue::load(None).expect("the embedded catalogue");
        for part in &catalogue.parts {
            if !part.id.contains(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let name = part.id.replace('-', " ").to_uppercase();
            for text in [format!("{name} has 1 TB/s"), format!("1 TB/s on 8x {name} (measured)")] {
                let found = named(&catalogue, &text).expect("one part");
                let found = found.map(|(id, _)| id);
                assert_eq!(found.as_deref(), Some(part.id.as_str()), "{text}");
            }
        }
    }

    #[test]
    fn a_sentence_that_names_another_part_than_the_one_that_is_given_is_noticed() {
        let catalogue = Catalogue::load(None).expect("the embedded catalogue");
        let other = |text: &str, on: &str| {
            let (given, _) = part_called(&catalogue, "--on", on).map_err(|_| on).expect("a part");
            other_part_in(&catalogue, text, given)
        };
        assert_eq!(other("4.8 TB/s on H200", "h100-sxm").as_deref(), Some("H200"));
        assert_eq!(other("4.8 TB/s on H200", "h200-sxm"), None);
        assert_eq!(other("3.9 TB/s on H100", "h100-nvl"), None);
        assert_eq!(other("4.8 TB/s", "h100-sxm"), None);
    }

    #[test]
    fn a_sentence_that_names_no_part_or_several_is_not_guessed() {
        let catalogue = Catalogue::load(None).expect("the embedded catalogue");
        for text in
            ["4.8 TB/s", "busbw 480 on 8 GPUs", "PCIe Gen5 x16 63 GB/s", "NVLink 5: 1.8 TB/s"]
        {
            assert_eq!(named(&catalogue, text), Ok(None), "{text}");
        }
        let h100 = named(&catalogue, "busbw 480 on 8xH100").expect("one part");
        assert_eq!(h100, Some(("h100-sxm".into(), "H100".into())));
        let two = named(&catalogue, "an H200 has 1.4x the bandwidth of H100").expect_err("two");
        assert!(two.contains("several parts (H200, H100)"), "{two}");
        let open = named(&catalogue, "MI300 has 5.3 TB/s").expect_err("one of two");
        assert!(open.contains("MI300 may be mi300a, mi300x"), "{open}");
    }
}
