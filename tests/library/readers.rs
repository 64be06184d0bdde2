//! Every file of this program that reads what others wrote, with the kinds of strange inputs that
//! feed it (`examples/fuzz/kinds.rs`), or the reason for which none has to.

use super::fuzz::kinds;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// What its own process, or one that it started, wrote.
const OWN: &str = "words of a process of this program";

/// Files of the kernel, which root's word is behind.
const KERNEL: &str = "numbers of the kernel's own files, parsed as numbers alone";

/// Opens a file and hands its bytes over.
const HANDED: &str = "bytes that nothing is read from: kept, hashed or handed to a library";

/// Files of sources, by the end of their paths, with kinds (words without a space between commas)
/// or a reason (several words).
const READERS: [(&str, &str); 104] = [
    ("comm/src/preflight.rs", KERNEL),
    ("comm/src/rendezvous/mod.rs", "rendezvous"),
    ("comm/src/watchdog/neighbours.rs", KERNEL),
    ("device/src/bundle.rs", "kernels embedded by the build"),
    ("device/src/cuda/properties.rs", KERNEL),
    ("device/src/fake.rs", "scripts of tests"),
    ("device/src/gpu/cache.rs", "an image of this user, whose SHA-256 stands at its end"),
    ("device/src/gpu/kernels.rs", "kernels embedded by the build"),
    ("device/src/hip/metrics.rs", "machine"),
    ("device/src/hip/sensors.rs", "machine"),
    ("device/src/hip/topology.rs", KERNEL),
    ("device/src/host/cgroup.rs", KERNEL),
    ("device/src/host/cpuinfo.rs", "machine"),
    ("device/src/host/cpus.rs", "machine"),
    ("device/src/host/dmi.rs", "any bytes go through it in a test of its own"),
    ("device/src/host/environment.rs", KERNEL),
    ("device/src/host/memory.rs", KERNEL),
    ("device/src/host/properties.rs", KERNEL),
    ("device/src/host/rapl.rs", KERNEL),
    ("device/src/host/run_delay.rs", KERNEL),
    ("device/src/host/steal.rs", KERNEL),
    ("device/src/limits.rs", KERNEL),
    ("device/src/numa.rs", KERNEL),
    ("device/src/observe/domain.rs", "machine"),
    ("device/src/observe/identity.rs", "machine"),
    ("device/src/observe/log.rs", "machine"),
    ("device/src/observe/mod.rs", KERNEL),
    ("device/src/observe/pci.rs", KERNEL),
    ("device/src/pci.rs", KERNEL),
    ("device/src/user.rs", "kernels"),
    ("domain/src/kernel/user.rs", "kernels"),
    ("domain/src/labels.rs", "labels"),
    ("domain/src/model/checkpoint.rs", "checkpoint"),
    ("domain/src/model/config.rs", "config"),
    ("domain/src/model/family.rs", "a file embedded by the build"),
    ("domain/src/suite/mod.rs", "suite"),
    ("judge/src/accept/dcgm.rs", "dcgm"),
    ("judge/src/accept/network.rs", "perftest"),
    ("judge/src/accept/profile.rs", "profile"),
    ("judge/src/evidence/manifest.rs", "manifest"),
    ("judge/src/fleet/plan.rs", "plan"),
    ("judge/src/fleet/recipe.rs", "recipe"),
    ("judge/src/fleet/row.rs", "row"),
    ("judge/src/fleet/signers.rs", "signers"),
    ("judge/src/fleet/site.rs", "expected"),
    ("judge/src/localise/raw.rs", "rates"),
    ("projection/src/claim/mod.rs", "claims"),
    ("projection/src/claim/tools.rs", "claim"),
    ("projection/src/load/aiperf.rs", "served"),
    ("projection/src/load/metrics.rs", "metrics"),
    ("projection/src/load/read.rs", "served"),
    ("projection/src/load/received.rs", "answer"),
    ("projection/src/load/target.rs", "the URL that the user types"),
    ("projection/src/load/trace.rs", "trace"),
    ("projection/src/validate/entry.rs", "published"),
    ("record/src/file.rs", HANDED),
    ("record/src/store.rs", "record,bundle"),
    ("record/src/version.rs", "record"),
    ("client/http.rs", "metrics,answer"),
    ("client/known/request.rs", "request"),
    ("client/known/serve.rs", "request"),
    ("cmd/ab.rs", OWN),
    ("cmd/accept/between.rs", "rates"),
    ("cmd/accept/child.rs", OWN),
    ("cmd/accept/files.rs", HANDED),
    ("cmd/accept/mod.rs", "dcgm"),
    ("cmd/accept/perftest.rs", "perftest"),
    ("cmd/bundle/files.rs", "bundle"),
    ("cmd/bundle/mod.rs", HANDED),
    ("cmd/bundle/rows.rs", "bundle,archive"),
    ("cmd/bundle/ssh.rs", "the first bytes of the key that the user names"),
    ("cmd/child.rs", OWN),
    ("cmd/claim.rs", "claims"),
    ("cmd/contend.rs", "the process that started this one"),
    ("cmd/fleet/archive.rs", "archive"),
    ("cmd/fleet/find.rs", "bundle,archive"),
    ("cmd/fleet/left.rs", "row"),
    ("cmd/fleet/read.rs", "bundle,row,signers"),
    ("cmd/fleet/results.rs", "plan,row,record"),
    ("cmd/fleet/simulate.rs", "recipe"),
    ("cmd/fleet/store.rs", "row"),
    ("cmd/fleet/which.rs", "labels,expected"),
    ("cmd/keep_limits.rs", OWN),
    ("cmd/keeper.rs", OWN),
    ("cmd/load/prepare.rs", "trace"),
    ("cmd/load/ready.rs", HANDED),
    ("cmd/load/report.rs", "served"),
    ("cmd/load/self_test.rs", OWN),
    ("cmd/load/send_args.rs", "a header and values that the user types"),
    ("cmd/localise.rs", "rates,labels"),
    ("cmd/parent.rs", KERNEL),
    ("cmd/parts.rs", "medians"),
    ("cmd/profiles.rs", "profile"),
    ("cmd/project/validate.rs", "published"),
    ("cmd/records/frontier.rs", "frontier"),
    ("cmd/records/gpus.rs", HANDED),
    ("cmd/reproduce/bundle.rs", "reproduction"),
    ("cmd/reproduce/mod.rs", "claims"),
    ("cmd/signals.rs", KERNEL),
    ("cmd/user_kernels.rs", OWN),
    ("cmd/verify.rs", "bundle"),
    ("src/data/checkpoint.rs", "checkpoint"),
    ("src/data.rs", "part,suite,model,config,profile"),
    ("src/kernels.rs", "a folder of the developer's own"),
];

/// Files that only ranks of one run say something in, which have proved that they know its token.
const OF_RANKS: [&str; 2] = ["src/world/exchanges.rs", "src/world/meet.rs"];

/// Calls that take in bytes from outside of the program, or make values of a text.
const CALLS: [&str; 15] = [
    "toml::from_str",
    "toml::de::",
    "serde_json::from_",
    "serde_json::Deserializer",
    "csv::Reader",
    "httparse::",
    "Archive::new",
    "read_to_end(",
    "file::read(",
    "file::read_text(",
    "file::open(",
    "file::contents(",
    "fs::read(",
    "fs::read_to_string(",
    "pub fn line_of(",
];

/// Functions that are called as readers are and take a text.
const NAMES: [&str; 7] = ["read", "parse", "records", "lines", "message", "parse_date", "section"];

/// Whether a line of source takes in what others wrote.
fn takes_in(line: &str) -> bool {
    let is_named = line.trim().strip_prefix("pub fn ").is_some_and(|rest| {
        let Some((name, rest)) = rest.split_once('(') else { return false };
        let takes_text = rest.contains(": &str") || rest.contains("[u8]");
        NAMES.contains(&name) && takes_text && !rest.starts_with('&') && !rest.starts_with("self")
    });
    // `profile::read(` is no `file::read(`.
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_called =
        |call: &&str| line.match_indices(*call).any(|(at, _)| !line[..at].ends_with(is_word));
    !line.trim_start().starts_with("//") && (is_named || CALLS.iter().any(is_called))
}

/// The files of sources that take in what others wrote, without their tests.
fn readers() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::from("crates"), PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            // Stand-ins for libraries, and what is built for tests.
            let is_test = ["tests", "stub-driver", "stub-nccl", "signatures", "hip-sys", "benches"];
            if path.is_dir() {
                folders.extend((!is_test.iter().any(|one| name == *one)).then_some(path));
                continue;
            }
            let is_source = path.extension().is_some_and(|ending| ending == "rs");
            let is_test = ["tests.rs", "quoted.rs", "grammar.rs"].iter().any(|one| name == *one);
            if !is_source || is_test {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a file");
            let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            if own.lines().any(takes_in) {
                found.insert(path.to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[test]
fn every_reader_of_what_others_wrote_is_fed() {
    let found = readers();
    let mut unknown = Vec::new();
    for place in &found {
        let is_known = READERS.iter().any(|(end, _)| place.ends_with(end));
        if !is_known && !OF_RANKS.contains(&place.as_str()) {
            unknown.push(place.as_str());
        }
    }
    let words =
        "read what others wrote, and no kind of examples/fuzz feeds them: add them to READERS";
    assert!(unknown.is_empty(), "{unknown:?} {words}");
    let mut fed = BTreeSet::new();
    for (end, by) in READERS {
        assert!(found.iter().any(|place| place.ends_with(end)), "{end} reads nothing any more");
        if !by.contains(' ') {
            for name in by.split(',') {
                assert!(kinds::named(name).is_some(), "{end}: {name} is no kind");
                fed.insert(name);
            }
        }
    }
    for place in OF_RANKS {
        assert!(found.contains(place), "{place} reads nothing any more");
    }
    // These have readers in files whose calls have other names.
    for kind in kinds::ALL.iter().filter(|kind| kind.name != "selector") {
        assert!(fed.contains(kind.name), "{} feeds no reader", kind.name);
    }
}

#[test]
fn a_line_that_reads_is_known_as_one() {
    for line in [
        "    let text = file::read_text(&path, FILE_MAX)?;",
        "    serde_json::from_slice(&bytes)",
        "pub fn parse(text: &str) -> Result<Profile, String> {",
        "let bytes = !fs::read(path).is_ok();",
    ] {
        assert!(takes_in(line), "{line}");
    }
    for line in
        ["// serde_json::from_str of it", "pub fn parse(&self, text: &str)", "profile::read(x)"]
    {
        assert!(!takes_in(line), "{line}");
    }
}
