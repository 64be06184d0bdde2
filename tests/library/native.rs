//! Every peak that a part's file promises has kernels that use what the part's generation has for
//! it, or the file says why not: a part of the catalogue is never measured by older kernels alone
//! without a word.

use fizeau_domain::{
    dtype::Dtype,
    kernel::manifest::{File, KernelRow, Manifest},
    spec::part::{self, GpuFile, HostFile},
};
use std::{collections::BTreeMap, fs, path::Path};

/// The operations that measure an element type's rate.
const OPERATIONS: [&str; 2] = ["compute", "gemm"];

fn kernels() -> Vec<File> {
    let read = |list: &str| -> Manifest {
        let text = fs::read_to_string(Path::new("kernels").join(list)).expect("a list");
        toml::from_str(&text).expect("a list of kernels")
    };
    [read("kernels.toml").file, read("amd.toml").file].concat()
}

fn parts() -> BTreeMap<String, GpuFile> {
    crate::data::files("parts")
}

/// Targets whose binaries a part's devices run, their own first, as the backends tell them.
fn targets(file: &GpuFile) -> Vec<String> {
    let capability = file.compute_capability.as_deref().and_then(|one| one.split_once('.'));
    let Some((major, minor)) = capability else {
        return file.gfx_target.iter().cloned().collect();
    };
    let mut targets = vec![format!("sm_{major}{minor}a")];
    targets.extend((major == "12").then(|| "sm_120f".to_owned()));
    let minor: u32 = minor.parse().expect("a number");
    targets.extend((0..=minor).rev().map(|minor| format!("sm_{major}{minor}")));
    targets
}

/// Whether a kernel uses what the generation has for a key of `[peak]`: tensor memory on 10 and 11,
/// warpgroups on 9, fragments on 8 and 12 and of fp64 on all; matrix instructions of AMD's.
fn is_native(row: &KernelRow, file: &File, targets: &[String], key: &str) -> bool {
    if !key.ends_with("_matrix") {
        return !file.images(targets).is_empty();
    }
    let own = targets.first().map_or("", String::as_str);
    let has = |word: &str| row.name.contains(word);
    let is_of_generation = match own {
        _ if key == "fp64_matrix" => has("mma") || has("mfma"),
        _ if own.starts_with("sm_9") => has("wgmma"),
        _ if own.starts_with("sm_10") || own.starts_with("sm_11") => has("tcgen05"),
        _ => has("mma") || has("mfma"),
    };
    is_of_generation && file.is_made_for(targets)
}

/// The operations of the program that measure a key and have no native kernel on a part.
fn lacking(part: &GpuFile, key: &str, kernels: &[File]) -> Vec<String> {
    let targets = targets(part);
    let dtypes: Vec<Dtype> =
        Dtype::ALL.into_iter().filter(|dtype| part::keys(*dtype).contains(&key)).collect();
    let rows = |operation: &str| {
        let wanted: Vec<String> =
            dtypes.iter().map(|dtype| format!("{operation}/{dtype}")).collect();
        let all = kernels.iter().flat_map(|file| file.kernels.iter().map(move |row| (file, row)));
        all.filter(|(_, row)| wanted.contains(&row.operation.to_string())).collect::<Vec<_>>()
    };
    let lacks = |operation: &&str| {
        let rows = rows(operation);
        !rows.is_empty() && !rows.iter().any(|(file, row)| is_native(row, file, &targets, key))
    };
    OPERATIONS.iter().filter(|one| lacks(one)).map(|one| (*one).to_owned()).collect()
}

/// What is promised without a kernel and without a reason, and reasons that hold no more.
fn faults(parts: &BTreeMap<String, GpuFile>, kernels: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, part) in parts {
        // Peaks that no element type of the program is measured against are none of its promises.
        let is_measured = |key: &&String| {
            Dtype::ALL.into_iter().any(|dtype| part::keys(dtype).contains(&key.as_str()))
        };
        for key in part.peak.keys().filter(is_measured) {
            let lacking = lacking(part, key, kernels);
            match part.no_native_kernel.get(key) {
                None if !lacking.is_empty() => {
                    faults.push(format!("{name} {key}: no native kernel of {lacking:?}"));
                }
                Some(_) if lacking.is_empty() => {
                    faults.push(format!("{name} {key}: it has one: remove the reason"));
                }
                Some(reason) if reason.split(' ').count() < 4 => {
                    faults.push(format!("{name} {key}: {reason:?} is no reason"));
                }
                _ => {}
            }
        }
        for key in part.no_native_kernel.keys().filter(|key| !part.peak.contains_key(*key)) {
            faults.push(format!("{name} {key}: a reason for a peak that is not stated"));
        }
    }
    faults
}

#[test]
fn every_promised_peak_has_a_native_kernel_or_a_reason() {
    let parts = parts();
    assert!(parts.len() > 80, "{}", parts.len());
    let faults = faults(&parts, &kernels());
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Attention of heads of 128 and of latent keys, as models have it, with the key of the peak that
/// its products use.
const ATTENTION: [(&str, &str); 5] = [
    ("attention/prefill/bf16/128x128", "bf16_matrix"),
    ("attention/decode/bf16/128x128", "bf16_matrix"),
    ("attention/mla/bf16/576x512", "bf16_matrix"),
    ("attention/prefill/fp8/128x128", "fp8_matrix"),
    ("attention/decode/fp8/128x128", "fp8_matrix"),
];

/// What is left to portable.cu, by the start of a target's and an operation's name, and why.
const LEFT_TO_PORTABLE: [(&str, &str, &str); 2] = [
    ("gfx11", "attention/", "both halves of a wave hold the same operands, sums only one of them"),
    ("gfx12", "attention/mla/", "sums of 512 columns do not fit into 256 registers of 32 lanes"),
];

/// Attention that a part's generation multiplies by vector units alone, though its file promises
/// matrix units for the element type.
fn attention_lacking(parts: &BTreeMap<String, GpuFile>, kernels: &[File]) -> Vec<String> {
    let mut lacking = Vec::new();
    for (name, part) in parts {
        let targets = targets(part);
        let own = targets.first().map_or("", String::as_str);
        let is_left = |operation: &str| {
            LEFT_TO_PORTABLE.iter().any(|(target, start, why)| {
                assert!(why.split(' ').count() > 4, "{target}: {why:?} is no reason");
                let of_rdna = *target != "gfx12" || !own.starts_with("gfx125");
                own.starts_with(target) && of_rdna && operation.starts_with(start)
            })
        };
        for (operation, key) in ATTENTION {
            let has_own = kernels.iter().any(|file| {
                let rows = file.kernels.iter();
                let mut rows = rows.filter(|row| row.operation.to_string() == operation);
                file.is_made_for(&targets) && rows.any(|row| row.name != "portable")
            });
            // Where the file says why there is no native kernel, that holds for attention too.
            let is_promised =
                part.peak.contains_key(key) && !part.no_native_kernel.contains_key(key);
            if is_promised && has_own == is_left(operation) {
                lacking.push(format!("{name} ({own}) {operation}"));
            }
        }
    }
    lacking
}

#[test]
fn attention_has_kernels_by_matrix_units_wherever_it_is_not_left_to_portable_code() {
    let (parts, mut kernels) = (parts(), kernels());
    let lacking = attention_lacking(&parts, &kernels);
    assert!(lacking.is_empty(), "{lacking:#?}");
    kernels.retain(|file| file.path != "attention/cdna5_wmma.hip");
    let lacking = attention_lacking(&parts, &kernels);
    let wanted = "mi455x (gfx1250) attention/decode/fp8/128x128".to_owned();
    assert!(lacking.contains(&wanted), "a file that is removed is found: {lacking:#?}");
}

#[test]
fn a_target_that_is_removed_is_found() {
    let parts = parts();
    for (path, target, part, key) in [
        ("gemm/sm100_tcgen05.cu", "sm_107a", "rubin", "bf16_matrix"),
        ("compute/sm100_tcgen05.cu", "sm_107a", "rubin", "fp8_matrix"),
        ("compute/sm90_wgmma.cu", "sm_90a", "h200-sxm", "int8_matrix"),
        ("gemm/sm120_mma.cu", "sm_120a", "rtx-5090", "fp4_matrix"),
        ("gemm/cdna4_mfma.hip", "gfx950", "mi355x", "fp8_matrix"),
    ] {
        let mut kernels = kernels();
        // Files that make the same types go with it.
        let stem = |path: &str| path.rsplit_once('.').map(|(stem, _)| stem.to_owned());
        let start = stem(path).expect("an ending");
        let mut removed = 0;
        for file in kernels.iter_mut().filter(|file| file.path.starts_with(&start)) {
            let before = file.targets.len();
            file.targets.retain(|one| one != target);
            removed += before - file.targets.len();
        }
        assert!(removed > 0, "{path} {target}");
        let faults = faults(&parts, &kernels);
        let wanted = format!("{part} {key}: no native kernel of");
        assert!(faults.iter().any(|one| one.starts_with(&wanted)), "{path} {target}: {faults:#?}");
    }
}

#[test]
fn a_reason_that_holds_no_more_is_found() {
    let mut parts = parts();
    let rubin = parts.get_mut("rubin").expect("its file");
    rubin.no_native_kernel.insert("bf16_matrix".into(), "none is made for it yet".into());
    rubin.no_native_kernel.insert("fp16_vector".into(), "none is made for it yet".into());
    let faults = faults(&parts, &kernels());
    let has = |words: &str| faults.iter().any(|one| one.contains(words));
    assert!(
        has("rubin bf16_matrix: it has one") && has("rubin fp16_vector: a reason"),
        "{faults:?}"
    );
    assert_eq!(faults.len(), 2, "{faults:?}");
}

/// A set of kernels of the host: its name, the file of its products, and the flops that its
/// instructions make in a cycle at most of each element type (two pipes for vectors, one matrix
/// unit).
type Engine = (&'static str, &'static str, &'static [(Dtype, f64)]);

const ENGINES: [Engine; 4] = [
    ("amx", "amx.rs", &[(Dtype::Bf16, 1024.0), (Dtype::Int8, 2048.0)]),
    (
        "avx512",
        "avx512.rs",
        &[(Dtype::F64, 32.0), (Dtype::F32, 64.0), (Dtype::Bf16, 128.0), (Dtype::Int8, 256.0)],
    ),
    ("avxvnni", "avxvnni.rs", &[(Dtype::Int8, 128.0)]),
    ("avx2", "avx2.rs", &[(Dtype::F64, 16.0), (Dtype::F32, 32.0)]),
];

/// Types of hosts whose rate no kernel's instructions reach, where an engine is left out.
fn hosts_lacking(left_out: &str) -> Vec<String> {
    let folder = Path::new("crates/device/src/host/gemm");
    let mut lacking = Vec::new();
    for (id, host) in crate::data::files::<HostFile>("hosts") {
        // Arm's cores are measured by portable code alone, as docs/generations.md says.
        if !["AMD", "Intel"].contains(&&*host.vendor) {
            continue;
        }
        for (&dtype, &rate) in &host.flop_per_clk_per_core {
            let reaches = |&(name, file, rates): &Engine| {
                let text = fs::read_to_string(folder.join(file)).expect("a file");
                let made = format!("(Dtype::{dtype:?}, \"{name}\", ");
                let runs = match name {
                    "amx" => host.amx,
                    "avx512" => host.avx512,
                    _ => true,
                };
                let most = rates.iter().find(|(one, _)| *one == dtype);
                name != left_out
                    && runs
                    && text.contains(&made)
                    && most.is_some_and(|&(_, most)| most >= rate)
            };
            if !ENGINES.iter().any(reaches) {
                lacking.push(format!("{id} {dtype}"));
            }
        }
    }
    lacking
}

#[test]
fn every_rate_of_an_x86_host_has_a_kernel_of_its_instructions() {
    assert_eq!(hosts_lacking("none"), Vec::<String>::new());
    for (left_out, host) in
        [("amx", "xeon-emr bf16"), ("avxvnni", "core-12 int8"), ("avx512", "epyc-9005 bf16")]
    {
        assert!(hosts_lacking(left_out).iter().any(|one| one == host), "{left_out}");
    }
}
