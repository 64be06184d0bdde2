//! A discovery from a synthetic record: what is found, the draft that it writes, and that no limit
//! follows from what was measured.

use crate::{
    data::{gpu_faults, host_faults},
    synthetic,
};
use fizeau::data::Catalogue;
use fizeau_domain::{
    dtype::Dtype,
    spec::{
        STUB,
        part::{GpuFile, HostFile},
    },
};
use fizeau_judge::discover::{
    Discovery,
    check::{self, Standing},
    draft::{self, Draft},
};
use fizeau_record::Record;
use std::fs;

/// The draft of a record, in a catalogue that it is overlaid on.
fn overlaid(draft: &Draft) -> Catalogue {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let folder = directory.path().join(draft.folder);
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join(format!("{}.toml", draft.name)), &draft.text).expect("it is written");
    Catalogue::load(Some(directory.path())).unwrap_or_else(|error| panic!("{error}: {draft:?}"))
}

fn drafted(record: &Record) -> Draft {
    draft::draft(record, &Discovery::of(record), None)
}

/// The same record of a GPU that no table has.
fn gpu() -> Record {
    let mut record = synthetic::record();
    let device = &mut record.header.device;
    (device.backend, device.name) = ("cuda".into(), "NVIDIA Z900".into());
    device.vendor = "NVIDIA".into();
    device.pci_id = Some("10de:ffff".into());
    (device.cpu, device.virtualised) = (None, None);
    record.header.part = None;
    record
}

#[test]
fn caches_and_rates_of_a_record_are_found() {
    let record = synthetic::record();
    let found = Discovery::of(&record);
    // Sizes that double: of the first cache, 48 KiB, two are level and no plateau; 1000 KiB and
    // 26 MiB lie above the largest ones in each cache.
    let holds: Vec<u64> = found.caches.iter().map(|cache| cache.size().0 >> 10).collect();
    assert_eq!(holds, [512, 16 << 10], "{found:?}");
    assert!(found.arithmetic.iter().any(|one| one.dtype == Dtype::F32));
    let compared = check::compare(&found, &record.header.device, None);
    assert_eq!(compared.len(), 3);
    let standing: Vec<Standing> = compared.iter().map(|one| one.standing).collect();
    assert_eq!(standing, [Standing::NotSeen, Standing::Agrees, Standing::Agrees]);
}

#[test]
fn a_draft_of_a_host_is_a_part_and_bounds_nothing() {
    let record = synthetic::record();
    let draft = drafted(&record);
    assert_eq!((draft.folder, draft.name.as_str()), ("hosts", "epyc-9005"));
    let file: HostFile = toml::from_str(&draft.text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(host_faults(&file), Vec::<String>::new(), "{}", draft.text);
    let catalogue = overlaid(&draft);
    let part = catalogue.part_of(&record.header.device).expect("it is recognised");
    assert_eq!((part.id.as_str(), part.memory_bandwidth), ("epyc-9005", None));
    assert!(part.flops_per_clock.is_empty(), "{part:?}");
    let whole = &catalogue.drafts["epyc-9005"];
    assert!(whole.memory_bandwidth.is_some() && whole.flops_per_clock.len() > 1, "{whole:?}");
    // A number that is taken out of the list is a vendor's.
    let confirmed = draft.text.replace("\"bandwidth_gb_per_s_per_socket\", ", "");
    assert_ne!(confirmed, draft.text);
    let catalogue = overlaid(&Draft { text: confirmed, ..draft });
    let part = catalogue.part_of(&record.header.device).expect("it is recognised");
    assert!(part.memory_bandwidth.is_some() && part.flops_per_clock.is_empty());
}

#[test]
fn a_draft_of_a_gpu_in_no_table_is_recognised_by_its_name_and_number() {
    let record = gpu();
    let known = Catalogue::load(None).expect("the data");
    assert!(known.part_of(&record.header.device).is_none());
    let draft = drafted(&record);
    assert_eq!((draft.folder, draft.name.as_str()), ("parts", "nvidia-z900"));
    let file: GpuFile = toml::from_str(&draft.text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(gpu_faults(&file), Vec::<String>::new(), "{}", draft.text);
    let catalogue = overlaid(&draft);
    let part = catalogue.part_of(&record.header.device).expect("it is recognised");
    assert_eq!(part.units, Some(record.header.device.units));
    assert!(part.peaks.is_empty() && part.memory_bandwidth.is_none() && part.cache.is_none());
    assert!(!catalogue.drafts["nvidia-z900"].peaks.is_empty());
}

#[test]
fn a_draft_of_a_stub_has_no_measured_number_and_a_mark_on_every_line() {
    let mut record = gpu();
    record.header.device.vendor = STUB.into();
    let draft = drafted(&record);
    let lines = || draft.text.lines().filter(|line| !line.is_empty());
    assert!(lines().all(|line| line.ends_with("# stub")), "{}", draft.text);
    let file: GpuFile = toml::from_str(&draft.text).unwrap_or_else(|e| panic!("{e}"));
    assert!(file.measured.is_empty() && file.peak.is_empty());
    assert_eq!(file.memory_bandwidth_gb_per_s, None);
    assert!(lines().any(|line| line.starts_with("# memory_bandwidth_gb_per_s: stub")));
}
