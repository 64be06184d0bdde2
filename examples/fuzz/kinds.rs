//! The kinds of inputs that are fed, each with a generator, a reader and a corpus
//! (`tests/fuzz/KIND`): what once broke the reader, and inputs as people write them.

use super::{
    bundles, files, machine,
    mutate::{Chance, change_bytes},
    others, served, targets,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// What is fed.
pub struct Kind {
    /// Its name on the command line, and that of its corpus.
    pub name: &'static str,
    /// Makes an input.
    make: fn(&mut Chance) -> Vec<u8>,
    /// Reads an input as the program would; whether it was accepted. Panics where what is then
    /// shown of it could act upon a reader.
    pub read: fn(&[u8]) -> bool,
}

const fn kind(
    name: &'static str,
    make: fn(&mut Chance) -> Vec<u8>,
    read: fn(&[u8]) -> bool,
) -> Kind {
    Kind { name, make, read }
}

/// All kinds. `tests/library/fuzz.rs` fails where a reader has none.
pub static ALL: [Kind; 34] = [
    kind("record", targets::record, targets::read_record),
    kind("suite", targets::suite, targets::read_suite),
    kind("part", targets::part, targets::read_part),
    kind("selector", targets::selector, targets::read_selector),
    kind(RENDEZVOUS, targets::rendezvous, targets::read_rendezvous),
    kind("rates", served::rates, served::read_rates),
    // Results of other clients, and traces that others recorded.
    kind("served", served::served, served::read_served),
    kind("trace", served::traced, served::read_trace),
    kind("dcgm", served::diagnostic, served::read_diagnostic),
    kind("perftest", others::perftest, others::read_perftest),
    // What servers say of themselves, and their answers.
    kind("metrics", others::metrics, others::read_metrics),
    kind("answer", others::answer, others::read_answer),
    // A claim as people write it, and files of them.
    kind("claim", others::claimed, others::read_claim),
    kind("claims", files::claims, files::read_claims),
    kind("reproduction", files::reproduction, files::read_reproduction),
    kind("published", files::published, files::read_published),
    // Models: `config.json`, headers of safetensors files, and files of the catalogue.
    kind("config", files::config, files::read_config),
    kind("checkpoint", files::checkpoint, files::read_checkpoint),
    kind("model", files::model, files::read_model),
    kind("medians", files::medians, files::read_medians),
    kind("profile", files::profile, files::read_profile),
    kind("kernels", files::kernels, files::read_kernels),
    kind("frontier", files::frontier, files::read_frontier),
    // What an operator tells of a fleet.
    kind("expected", files::expected, files::read_expected),
    kind("signers", files::signers, files::read_signers),
    kind("labels", files::labels, files::read_labels),
    kind("recipe", files::recipe, files::read_recipe),
    kind("plan", files::plan, files::read_plan),
    // What nodes send.
    kind("manifest", bundles::manifest, bundles::read_manifest),
    kind("row", bundles::rows, bundles::read_rows),
    kind("bundle", bundles::bundle, bundles::read_bundle),
    kind("archive", bundles::archive, bundles::read_archive),
    // What the machine and its launcher say, and requests to `load serve`.
    kind("machine", machine::said, machine::read_said),
    kind("request", machine::requests, machine::read_requests),
];

/// Ranks that meet say where they are wrong in their first bytes: no byte of them is changed.
const RENDEZVOUS: &str = "rendezvous";

/// No reader: inputs 10, 20 and 30 are a crash, too large and too slow.
pub static PLANTED: Kind = kind("planted", |_| Vec::new(), targets::read_planted);

/// The names of all kinds.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|kind| kind.name).collect()
}

/// The kind of a name.
pub fn named(name: &str) -> Option<&'static Kind> {
    ALL.iter().chain([&PLANTED]).find(|kind| kind.name == name)
}

impl Kind {
    /// The input of a number: first the corpus as it is, then what comes about by chance.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        if self.name == PLANTED.name {
            return number.to_string().into();
        }
        if let Some(kept) = self.corpus().get(number as usize) {
            return kept.clone();
        }
        let chance = &mut Chance::new(seed, number);
        let mut bytes = (self.make)(chance);
        if self.name != RENDEZVOUS && chance.one_in(5) {
            change_bytes(&mut bytes, chance);
        }
        bytes
    }

    /// The committed inputs, in the order of their names.
    pub fn corpus(&self) -> &'static [Vec<u8>] {
        static CORPORA: LazyLock<Vec<Vec<Vec<u8>>>> =
            LazyLock::new(|| ALL.iter().map(|kind| files_of(&corpus_of(kind.name))).collect());
        let at = ALL.iter().position(|kind| kind.name == self.name);
        at.map_or(&[], |at| &CORPORA[at])
    }
}

fn corpus_of(name: &str) -> String {
    format!("tests/fuzz/{name}")
}

/// What the files of a folder of this repository hold, by their names.
pub fn files_of(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("it can be read")).collect()
}

/// The texts of folders of this repository.
pub fn texts(folders: &[&str]) -> Vec<String> {
    let all = folders.iter().flat_map(|folder| files_of(folder));
    all.map(|bytes| String::from_utf8(bytes).expect("UTF-8")).collect()
}

/// The texts of the corpus of a kind, of which its generator makes others.
pub fn corpus_texts(name: &str) -> Vec<String> {
    texts(&[&corpus_of(name)])
}
