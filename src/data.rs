//! The catalogue: parts, hosts, links, suites, models and profiles, embedded, or overlaid from a
//! directory.

mod checkpoint;

use fizeau_domain::{
    model::{Model, config, file::ModelFile},
    near,
    spec::{
        self, Match, Part, Properties, Yardstick, identify,
        part::{GpuFile, HostFile, LinkFile},
    },
    suite::{self, Suite},
};
use fizeau_record::file;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fs, io, path::Path};

/// Longest file of a part, a host, a link or a suite, in bytes.
const FILE_MAX: u64 = suite::TEXT_MAX;

/// Every (folder, name, text) of `data/`.
static EMBEDDED: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/data.rs"));

/// Parts, hosts, links, suites, models, published claims and profiles.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// GPUs and CPUs that a device can be, in the order of their ids. What was measured of drafts
    /// is left out: no limit follows from it.
    pub parts: Vec<Part>,
    /// Drafts by their ids, with what was measured.
    pub drafts: BTreeMap<String, Part>,
    /// Links, by their file's name.
    pub links: BTreeMap<String, LinkFile>,
    suites: BTreeMap<String, String>,
    models: BTreeMap<String, (String, String)>,
    /// Files of published claims: name and text.
    pub claims: BTreeMap<String, String>,
    /// Lists of published measurements, as CSV: name and text.
    pub published: BTreeMap<String, String>,
    profiles: BTreeMap<String, String>,
    medians: BTreeMap<String, (String, String)>,
}

/// What is wrong with the data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file cannot be read or parsed.
    #[error("{file}: {why}")]
    File {
        /// Which.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// No profile of that name.
    #[error(
        "no profile is called {name:?}{near}; there are: {known}, or a path that ends in .toml"
    )]
    NoProfile {
        /// The name.
        name: String,
        /// Those that are nearest to it, as words; empty where none is near.
        near: String,
        /// Those there are.
        known: String,
    },
    /// No model of that name.
    #[error(
        "no model is called {name:?}{near}; there are: {known}; or a path to a config.json, which \
         ends in .json, or to a folder that holds one, with a / in it"
    )]
    NoModel {
        /// The name.
        name: String,
        /// Those that are nearest to it, as words; empty where none is near.
        near: String,
        /// Those there are.
        known: String,
    },
    /// No suite of that name.
    #[error("no suite is called {name:?}{near}; there are: {known}, or a path that ends in .toml")]
    NoSuite {
        /// The name.
        name: String,
        /// Those that are nearest to it, as words; empty where none is near.
        near: String,
        /// Those there are.
        known: String,
    },
}

/// The texts of `data/`, by folder and name, with where each came from.
type Texts = BTreeMap<(String, String), (String, String)>;

impl Catalogue {
    /// The one in the program, overlaid by the files of `directory` (same folders) if given: a
    /// file there stands for the embedded one of the same name.
    pub fn load(directory: Option<&Path>) -> Result<Catalogue, DataError> {
        let mut texts: Texts = EMBEDDED
            .iter()
            .map(|&(folder, name, text)| {
                let origin = format!("data/{folder}/{name}.toml");
                ((folder.into(), name.into()), (origin, text.into()))
            })
            .collect();
        if let Some(directory) = directory {
            overlay(&mut texts, directory)?;
        }
        let links = parse::<LinkFile>(&texts, "links")?;
        let mut parts = Vec::new();
        for (name, file) in parse::<GpuFile>(&texts, "parts")? {
            let part = Part::of_gpu(&name, &file, &links);
            let file = format!("data/parts/{name}.toml");
            parts.push(part.map_err(|why| DataError::File { file, why })?);
        }
        for (name, file) in parse::<HostFile>(&texts, "hosts")? {
            let part = Part::of_host(&name, &file);
            let file = format!("data/hosts/{name}.toml");
            parts.push(part.map_err(|why| DataError::File { file, why })?);
        }
        let drafts = parts.iter().filter(|part| !part.measured.is_empty());
        let drafts = drafts.map(|part| (part.id.clone(), part.clone())).collect();
        let parts = parts.iter().map(Part::stated).collect();
        let of_folder = |its: &str| -> BTreeMap<String, (String, String)> {
            let files = texts.iter().filter(|((folder, _), _)| folder == its);
            files.map(|((_, name), file)| (name.clone(), file.clone())).collect()
        };
        let text_alone = |its: &str| -> BTreeMap<String, String> {
            of_folder(its).into_iter().map(|(name, (_, text))| (name, text)).collect()
        };
        Ok(Catalogue {
            parts,
            drafts,
            links,
            suites: text_alone("suites"),
            models: of_folder("models"),
            claims: text_alone("claims"),
            published: text_alone("published"),
            profiles: text_alone("profiles"),
            medians: rates_and_costs(of_folder("medians"), of_folder("costs")),
        })
    }

    /// What a device is.
    pub fn identify(&self, properties: &Properties) -> Match<'_> {
        identify(&self.parts, properties)
    }

    /// The part a device is, where that is certain.
    pub fn part_of(&self, properties: &Properties) -> Option<&Part> {
        match self.identify(properties) {
            Match::One(part) => Some(part),
            Match::Ambiguous(_) | Match::None => None,
        }
    }

    /// What a device's times are set against: its part where that is certain; for the guard the
    /// most that it can be, also where it is one of several parts or a slice of one.
    pub fn yardstick(&self, properties: &Properties) -> Yardstick {
        let (part, most) = match self.identify(properties) {
            Match::One(part) => (Some(part.clone()), Some(part.clone())),
            Match::Ambiguous(parts) => (None, spec::most::of_several(&parts)),
            Match::None => (None, spec::most::of_slice(&self.parts, properties)),
        };
        Yardstick { part, most, ..Yardstick::default() }
    }

    /// The names of all suites, in order.
    pub fn suite_names(&self) -> impl Iterator<Item = &str> {
        self.suites.keys().map(String::as_str)
    }

    /// The text of an acceptance profile by its name, or by a path that ends in `.toml`.
    ///
    /// # Errors
    /// Where there is none, or the file cannot be read.
    pub fn profile(&self, name: &str) -> Result<String, DataError> {
        if name.ends_with(".toml") {
            let read = file::read_text(Path::new(name), FILE_MAX);
            let refuse = |why: String| DataError::File { file: name.into(), why };
            return read.map_err(|error| refuse(error.to_string()));
        }
        let known = || self.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
        let near = || near::hint(name, self.profiles());
        let none = || DataError::NoProfile { name: name.into(), near: near(), known: known() };
        self.profiles.get(name).cloned().ok_or_else(none)
    }

    /// The names of the profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// A suite by its name, or by a path that ends in `.toml`; with its text, which the record
    /// keeps.
    pub fn suite(&self, name: &str) -> Result<(Suite, String), DataError> {
        let refuse = |why: String| DataError::File { file: name.into(), why };
        let text = if name.ends_with(".toml") {
            let read = file::read_text(Path::new(name), suite::TEXT_MAX);
            read.map_err(|error| refuse(error.to_string()))?
        } else {
            let known = || self.suites.keys().cloned().collect::<Vec<_>>().join(", ");
            let near = || near::hint(name, self.suite_names());
            let none = || DataError::NoSuite { name: name.into(), near: near(), known: known() };
            self.suites.get(name).ok_or_else(none)?.clone()
        };
        Ok((Suite::parse(&text).map_err(refuse)?, text))
    }
}

impl Catalogue {
    /// Names of the models there are.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The file of a model by its own name, its publisher's or an alias.
    ///
    /// # Errors
    /// Where there is none, or one that is looked at cannot be parsed.
    pub fn model_file(&self, name: &str) -> Result<ModelFile, DataError> {
        let parse = |(origin, text): &(String, String)| {
            let refuse = |why: String| DataError::File { file: origin.clone(), why };
            toml::from_str::<ModelFile>(text).map_err(|error| refuse(error.to_string()))
        };
        if let Some(file) = self.models.get(&name.to_ascii_lowercase()) {
            return parse(file);
        }
        for file in self.models.values() {
            let file = parse(file)?;
            if file.is_called(name) {
                return Ok(file);
            }
        }
        let known = self.model_names().collect::<Vec<_>>().join(", ");
        let near = near::hint(name, self.model_names());
        Err(DataError::NoModel { name: name.into(), near, known })
    }

    /// A model by its name, by a path that ends in `.json` (a `config.json` of the Hugging Face
    /// hub), or by a folder that holds one beside the files of a checkpoint.
    ///
    /// # Errors
    /// Where there is none, it cannot be read, or its configuration is not understood.
    pub fn model(&self, name: &str) -> Result<Model, DataError> {
        let refuse = |why: String| DataError::File { file: name.into(), why };
        if name.contains('/') && Path::new(name).is_dir() {
            return checkpoint::model(Path::new(name)).map_err(refuse);
        }
        if !name.ends_with(".json") {
            return self.model_file(name)?.model().map_err(|error| refuse(error.to_string()));
        }
        let text = file::read_text(Path::new(name), config::TEXT_MAX);
        let text = text.map_err(|error| refuse(error.to_string()))?;
        config::parse(name, &text).map_err(|error| refuse(error.to_string()))
    }
}

impl Catalogue {
    /// The text of a part's published rates and fixed costs, and where it is from, where there are
    /// some.
    pub fn medians(&self, part: &str) -> Option<(&str, &str)> {
        self.medians.get(part).map(|(origin, text)| (origin.as_str(), text.as_str()))
    }
}

/// Published rates and fixed costs of each part as one text, which two files of tables make.
fn rates_and_costs(
    medians: BTreeMap<String, (String, String)>,
    costs: BTreeMap<String, (String, String)>,
) -> BTreeMap<String, (String, String)> {
    let mut all = medians;
    for (part, (origin, text)) in costs {
        match all.get_mut(&part) {
            None => {
                all.insert(part, (origin, text));
            }
            Some((first, its)) => {
                *first += &format!(" and {origin}");
                *its += &format!("\n{text}");
            }
        }
    }
    all
}

/// The folders of a catalogue.
const FOLDERS: [&str; 9] =
    ["parts", "hosts", "links", "suites", "models", "claims", "profiles", "medians", "costs"];

/// Puts the TOML files of a directory's folders over the embedded ones.
fn overlay(texts: &mut Texts, directory: &Path) -> Result<(), DataError> {
    let known = || FOLDERS.map(|folder| format!("{folder}/")).join(", ");
    let refuse =
        |path: &Path, why: String| Err(DataError::File { file: path.display().to_string(), why });
    if let Err(error) = directory.metadata() {
        return refuse(directory, error.to_string());
    }
    if !directory.is_dir() {
        return refuse(
            directory,
            format!("not a directory; --data takes one with {} in it", known()),
        );
    }
    let mut found = 0;
    for folder in FOLDERS {
        let below = directory.join(folder);
        let entries = match fs::read_dir(&below) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return refuse(&below, error.to_string()),
        };
        found += 1;
        for entry in entries {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) => return refuse(&below, error.to_string()),
            };
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            let Some(name) = name.filter(|_| path.extension().is_some_and(|end| end == "toml"))
            else {
                continue;
            };
            match file::read_text(&path, FILE_MAX) {
                Ok(text) => {
                    texts.insert((folder.into(), name), (path.display().to_string(), text));
                }
                Err(error) => return refuse(&path, error.to_string()),
            }
        }
    }
    match found {
        0 => refuse(
            directory,
            format!("none of the folders that --data reads is in it: {}", known()),
        ),
        _ => Ok(()),
    }
}

/// Parses all files of a folder.
fn parse<F: DeserializeOwned>(
    texts: &Texts,
    folder: &str,
) -> Result<BTreeMap<String, F>, DataError> {
    let of_folder = texts.iter().filter(|((its, _), _)| its == folder);
    of_folder
        .map(|((_, name), (origin, text))| match toml::from_str(text) {
            Ok(file) => Ok((name.clone(), file)),
            Err(error) => Err(DataError::File { file: origin.clone(), why: error.to_string() }),
        })
        .collect()
}
