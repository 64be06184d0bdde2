//! The list of GPU kernels, their files and their parameters belong together.

use fizeau_domain::kernel;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Size of a struct, and name and offset of each field.
type Layout = (usize, Vec<(String, usize)>);

#[test]
fn parameters_are_the_same_on_both_sides() {
    let header = fs::read_to_string("kernels/include/params.h").expect("a header");
    let in_rust: BTreeMap<String, Layout> = kernel::layouts()
        .into_iter()
        .map(|layout| {
            let offsets = layout.offsets.into_iter().map(|(name, at)| (name.to_owned(), at));
            (layout.name.to_owned(), (layout.size, offsets.collect()))
        })
        .collect();
    assert_eq!(structs(&header), in_rust);
}

#[test]
fn the_header_for_users_of_c_has_the_same_structs() {
    let header = fs::read_to_string("examples/your-kernel/fizeau.h").expect("a header");
    let of_users = structs(&header);
    let layouts = kernel::layouts().into_iter();
    let in_rust: BTreeMap<String, Layout> = layouts
        .filter(|layout| of_users.contains_key(layout.name))
        .map(|layout| {
            let offsets = layout.offsets.into_iter().map(|(name, at)| (name.to_owned(), at));
            (layout.name.to_owned(), (layout.size, offsets.collect()))
        })
        .collect();
    assert_eq!(of_users, in_rust);
    // One for each operation that users bring kernels of, and the two that attention points to.
    assert_eq!(of_users.len(), 8);
    // The page has one of them, for who has the program and no header.
    let page = fs::read_to_string("docs/your-kernel.md").expect("the page");
    let first = header.split("\nstruct ").nth(1).and_then(|rest| rest.split("\n};").next());
    let first = format!("struct {}\n}};", first.expect("a struct"));
    assert!(first.starts_with("struct StreamParams {") && page.contains(&first), "{first}");
}

#[test]
fn a_field_that_only_one_side_has_or_that_lies_elsewhere_shows() {
    let header = fs::read_to_string("kernels/include/params.h").expect("a header");
    for (now, planted) in [
        ("  u64 flops;", "  u64 flops;\n  u64 more;"),
        ("  u32 m;\n  u32 n;", "  u32 n;\n  u32 m;"),
        ("  u32 rows_max;", "  u64 rows_max;"),
    ] {
        assert!(header.contains(now), "{now}");
        let faulty = header.replacen(now, planted, 1);
        assert_ne!(structs(&faulty), structs(&header), "{planted}");
    }
}

/// Size and layout of each struct of a header, by the rules of C for these few types.
fn structs(header: &str) -> BTreeMap<String, Layout> {
    let mut found = BTreeMap::new();
    for body in header.split("\nstruct ").skip(1) {
        let (name, body) = body.split_once(" {").expect("a struct's name");
        let (body, _) = body.split_once("\n};").expect("a struct's end");
        let (mut end, mut offsets) = (0usize, Vec::new());
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
            offsets.push((name.to_owned(), end));
            end += size;
        }
        found.insert(name.to_owned(), (end.next_multiple_of(8), offsets));
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

/// The kernel that stands first of those that a list has on a target for a product: rows of whole
/// 16 bytes, no other limit but those of its row.
fn first_fit(list: &str, target: &str, dtype: &str, [rows, columns]: [i64; 2]) -> String {
    let list: toml::Table = list.parse().expect("TOML");
    let files = list["file"].as_array().expect("files").iter();
    let on_target = files.filter(|file| {
        let targets = file["targets"].as_array().expect("targets");
        targets.iter().any(|each| each.as_str() == Some(target))
    });
    let mut kernels = on_target.flat_map(|file| file["kernels"].as_array().expect("kernels"));
    let fits = |kernel: &&toml::Value| {
        let limit = |key: &str| kernel.get(key).and_then(toml::Value::as_integer);
        kernel["operation"].as_str() == Some(&format!("gemm/{dtype}"))
            && limit("rows_min").is_none_or(|least| rows >= least)
            && limit("rows_max").is_none_or(|most| rows <= most)
            && limit("columns_max").is_none_or(|most| columns <= most)
    };
    let found = kernels.find(fits).expect("a kernel for every product");
    found["name"].as_str().expect("a name").to_owned()
}

#[test]
fn the_kernel_that_fits_a_product_best_stands_first() {
    let list = fs::read_to_string("kernels/kernels.toml").expect("the list");
    for (shape, name) in [
        ([1, 4096], "sm100_tcgen05_split4_16"),
        ([16, 4096], "sm100_tcgen05_split4_16"),
        ([17, 4096], "sm100_tcgen05_split4_32"),
        ([64, 4096], "sm100_tcgen05_split4_64"),
        ([65, 4096], "sm100_tcgen05_split4_128"),
        ([256, 4096], "sm100_tcgen05_split4_256"),
        ([16, 4224], "sm100_tcgen05_split2_16"),
        ([129, 8192], "sm100_tcgen05_split2_256"),
        ([16, 28672], "sm100_tcgen05_few"),
        ([32, 28672], "sm100_tcgen05_few_32"),
        ([33, 9473], "sm100_tcgen05_few_64"),
        ([65, 28672], "sm100_tcgen05"),
        ([129, 28672], "sm100_tcgen05_pair"),
        ([257, 4096], "sm100_tcgen05_pair"),
        ([4096, 4096], "sm100_tcgen05_pair"),
    ] {
        for (target, dtypes) in [
            ("sm_100a", &["bf16", "f16", "tf32", "fp8", "int8"][..]),
            ("sm_103a", &["bf16", "fp8"]),
            ("sm_107a", &["bf16", "fp8"]),
        ] {
            for dtype in dtypes {
                let first = first_fit(&list, target, dtype, shape);
                assert_eq!(first, name, "{target} {dtype} {shape:?}");
            }
        }
    }
    for target in ["sm_100a", "sm_103a", "sm_107a"] {
        for dtype in ["mxfp8", "mxfp4", "nvfp4"] {
            let longer = target != "sm_100a" && dtype != "mxfp8";
            let pair = if longer { "sm103_tcgen05_pair" } else { "sm100_tcgen05_pair" };
            for (rows, name) in [(128, "sm100_tcgen05"), (129, pair)] {
                let first = first_fit(&list, target, dtype, [rows, 4096]);
                assert_eq!(first, name, "{target} {dtype} {rows}");
            }
        }
    }
}
