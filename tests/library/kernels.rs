//! The list of GPU kernels, their files and their parameters belong together.

use fizeau::kernel;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, mem,
    path::Path,
};

/// Name and offset of each field.
type Layout = Vec<(String, usize)>;

macro_rules! layout {
    ($type:ident: $($field:ident)+) => {
        (
            stringify!($type).to_owned(),
            (
                mem::size_of::<kernel::$type>(),
                vec![$((
                    stringify!($field).to_owned(),
                    mem::offset_of!(kernel::$type, $field),
                )),+],
            ),
        )
    };
}

#[test]
fn parameters_are_the_same_on_both_sides() {
    let header = fs::read_to_string("kernels/include/params.h").expect("a header");
    let mirrored = BTreeMap::from([
        layout!(StreamParams: a b c partial length scale),
        layout!(LatencyParams: position),
        layout!(ProbeParams: cells lines taken unit),
        layout!(ComputeParams: partial flops),
        layout!(GemmParams: a b c m n k dtype scales_a scales_b),
        layout!(GroupedParams: a b c firsts m n k groups rows_max dtype),
        layout!(AttentionSequence: query_first queries key_first keys),
        layout!(AttentionPart: sequence kv_head row_first key_first key_end slot slot_first slots),
        layout!(AttentionParams: q k v o sequences pages parts part_firsts scratch scratch_bytes
            workers batch heads kv_heads queries keys dim_qk dim_v causal dtype page scale
            query_tokens key_tokens),
        layout!(CheckParams: values wrong error length slice before peer ranks grown tolerance),
        layout!(FillParams: target pattern length period),
        layout!(CompareParams: values pattern length period differing),
        layout!(ClockParams: counted cycles),
        layout!(HoldParams: released limit waited),
        layout!(AccessParams: a order partial rows row row_shift),
        layout!(TransferParams: to from length device lane),
        layout!(LaunchParams: count kernels),
    ]);
    assert_eq!(structs(&header), mirrored);
}

/// Size and layout of each struct of a header, by the rules of C for these few types.
fn structs(header: &str) -> BTreeMap<String, (usize, Layout)> {
    let mut found = BTreeMap::new();
    for body in header.split("\nstruct ").skip(1) {
        let (name, body) = body.split_once(" {").expect("a struct's name");
        let (body, _) = body.split_once("\n};").expect("a struct's end");
        let (mut end, mut layout) = (0usize, Vec::new());
        for line in body.lines().filter(|line| line.contains(';')) {
            let field = line.split(';').next().expect("a field").trim();
            let (kind, name) = field.rsplit_once(' ').expect("type and name");
            let size = if kind.ends_with('*') {
                8
            } else {
                match kind {
                    "u32" | "f32" => 4,
                    "u64" | "f64" => 8,
                    other => panic!("a type whose size is not known here: {other}"),
                }
            };
            end = end.next_multiple_of(size);
            layout.push((name.to_owned(), end));
            end += size;
        }
        found.insert(name.to_owned(), (end.next_multiple_of(8), layout));
    }
    found
}

#[test]
fn the_lists_and_the_files_agree() {
    for list in ["kernels/kernels.toml", "kernels/amd.toml"] {
        let seen = agrees(list);
        assert!(seen.contains("gemm/f32/portable"), "{list}: the reference of products is there");
    }
}

/// The kernels of a list, each of which stands in a file that is there.
fn agrees(list: &str) -> BTreeSet<String> {
    let list = fs::read_to_string(list).expect("the list");
    let list: toml::Table = list.parse().expect("TOML");
    let mut seen = BTreeSet::new();
    for file in list["file"].as_array().expect("files") {
        let path = file["path"].as_str().expect("a path");
        let text = fs::read_to_string(Path::new("kernels").join(path)).expect(path);
        assert!(!file["targets"].as_array().expect("targets").is_empty(), "{path}: no target");
        for kernel in file["kernels"].as_array().expect("kernels") {
            let word = |key: &str| kernel[key].as_str().unwrap_or_else(|| panic!("{path}: {key}"));
            let id = format!("{}/{}", word("operation"), word("name"));
            assert!(seen.insert(id.clone()), "{id} is listed twice");
            assert!(!kernel["claims"].as_array().expect("claims").is_empty(), "{id}: no claim");
            let threads = kernel["threads"].as_integer().expect("threads");
            assert!(threads > 0 && threads <= 1024 && threads % 32 == 0, "{id}: {threads} threads");
            let operation = word("operation").replace('/', "_");
            let prefix = operation.split('_').next().expect("a word");
            assert!(word("entry").starts_with(prefix), "{id}: {}", word("entry"));
            let macros = ["KERNEL(", "STREAM_ASSIGNMENTS(", "COUNT_PRODUCTS("];
            assert!(macros.iter().any(|name| text.contains(name)), "{path} has no entry");
        }
    }
    seen
}
