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
