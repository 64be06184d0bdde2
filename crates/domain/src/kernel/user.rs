//! What stands beside a user's kernel: one section of the list of kernels, checked as a whole
//! before anything is measured. docs/your-kernel.md explains it to users.

use super::{
    Operation,
    manifest::{File, Grid, KernelRow, Operand},
};
use crate::case::{KernelName, StreamOperation};

/// What a user's file is, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `.cu`, `.hip`: a text for NVRTC or hipRTC.
    Text,
    /// `.cubin`, `.fatbin`, `.ptx`, `.hsaco`: what a driver loads.
    Image,
    /// `.so`: a library of the host.
    Library,
}

/// The endings of files that hold kernels.
pub const ENDINGS: [(&str, Form); 7] = [
    ("cu", Form::Text),
    ("hip", Form::Text),
    ("cubin", Form::Image),
    ("fatbin", Form::Image),
    ("ptx", Form::Image),
    ("hsaco", Form::Image),
    ("so", Form::Library),
];

/// The most threads of a block, by the limits of both vendors' GPUs.
const THREADS_MAX: u32 = 1024;

/// More blocks than that for each unit none has use for.
const PER_UNIT_MAX: u32 = 1024;

/// The most blocks of a cluster that a launch may ask for, on Hopper.
const CLUSTER_MAX: u32 = 16;

/// The longest name; case ids stay readable.
const NAME_MAX: usize = 40;

/// Reads the section that stands beside a user's file, whose path is `path`.
///
/// # Errors
/// Which field is wrong, and what may stand there.
pub fn section(text: &str, path: &str, form: Form) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    if !file.path.is_empty() {
        return Err("path: leave it out; the kernel is the file beside this one".into());
    }
    file.path = path.to_owned();
    if file.kernels.is_empty() {
        return Err("kernels: it lists none".into());
    }
    let has_target = !file.targets.is_empty() || file.ptx.is_some();
    match form {
        Form::Library if has_target => {
            return Err("targets, ptx: only of kernels for GPUs; leave them out".into());
        }
        Form::Text | Form::Image if !has_target => {
            return Err("targets: name what it is compiled for, such as [\"sm_90a\"]".into());
        }
        _ => {}
    }
    for (at, row) in file.kernels.iter().enumerate() {
        let wrong = |why: String| Err(format!("kernel {:?} of {}: {why}", row.name, row.operation));
        checked(row, form).or_else(wrong)?;
        let same = |other: &KernelRow| other.name == row.name && other.operation == row.operation;
        if file.kernels[..at].iter().any(same) {
            wrong("it is listed twice".into())?;
        }
    }
    Ok(file)
}

fn checked(row: &KernelRow, form: Form) -> Result<(), String> {
    name(&row.name)?;
    if !is_open(row.operation) {
        return Err(
            "operation: users' kernels are of stream, latency, access, gemm, grouped and attention"
                .into(),
        );
    }
    if row.entry.is_empty() || row.entry.contains('\0') {
        return Err("entry: name the symbol".into());
    }
    if form == Form::Library {
        let set = fields_of_gpus(row);
        return match set.is_empty() {
            true => Ok(()),
            false => Err(format!("{}: only of kernels for GPUs; leave it out", set.join(", "))),
        };
    }
    if !(1..=THREADS_MAX).contains(&row.threads) {
        return Err(format!("threads: {} is not between 1 and {THREADS_MAX}", row.threads));
    }
    if !(1..=CLUSTER_MAX).contains(&row.cluster) {
        return Err(format!("cluster: {} is not between 1 and {CLUSTER_MAX}", row.cluster));
    }
    let is_none = row.elements == Some(0) || row.tile == Some(0);
    if row.per_unit == 0
        || row.alignment == 0
        || is_none
        || row.tiles.unwrap_or([1; 2]).contains(&0)
    {
        return Err("per_unit, alignment, elements, tile and tiles are at least 1".into());
    }
    if row.per_unit > PER_UNIT_MAX {
        return Err(format!("per_unit: {} is more than {PER_UNIT_MAX}", row.per_unit));
    }
    limits(row)?;
    if row.grid == Grid::One && row.cluster > 1 {
        return Err("grid = \"one\" is a single block, which has no cluster".into());
    }
    if row.elements.is_some() && !matches!(row.operation, Operation::Stream(_)) {
        return Err(format!("elements: only of streams, and not of {}", row.operation));
    }
    if let Some(most) = places_of(row.operation)
        && (row.per_unit > most || row.elements.is_some())
    {
        return Err(format!(
            "per_unit, elements: {} has room for the results of {most} blocks a unit: per_unit is \
             at most {most}, and elements is left out",
            row.operation
        ));
    }
    if let Some(map) = row.maps.iter().find(|map| !operands(row.operation).contains(&map.operand)) {
        let name = format!("{:?}", map.operand).to_lowercase();
        return Err(format!("maps: {} has no operand {name}", row.operation));
    }
    if row.maps.iter().flat_map(|map| map.size).any(|size| size == 0 || size > 256) {
        return Err("maps: each side of a box has 1 to 256 elements".into());
    }
    if row.maps.iter().any(|map| ![0, 32, 64, 128].contains(&map.swizzle)) {
        return Err("maps: swizzle is 0, 32, 64 or 128".into());
    }
    if row.maps.iter().any(|map| map.atom != 16 && (map.atom, map.swizzle) != (32, 128)) {
        return Err("maps: atom is 16, or 32 where swizzle is 128".into());
    }
    Ok(())
}

/// Operands of an operation that tensor maps can describe.
fn operands(operation: Operation) -> &'static [Operand] {
    match operation {
        Operation::Gemm(..) | Operation::Grouped(_) => &[Operand::A, Operand::B, Operand::C],
        Operation::Attention { .. } => &[Operand::Q, Operand::K, Operand::V],
        _ => &[],
    }
}

/// Blocks for each unit that have a place for their result, where each block leaves one.
fn places_of(operation: Operation) -> Option<u32> {
    match operation {
        Operation::Stream(StreamOperation::Read | StreamOperation::Dot) => Some(4),
        Operation::Access(_) => Some(2),
        Operation::Latency => Some(1),
        _ => None,
    }
}

/// What is wrong in the shapes that a row says it is made for.
fn limits(row: &KernelRow) -> Result<(), String> {
    if row.rows_min.zip(row.rows_max).is_some_and(|(least, most)| least > most) {
        return Err("rows_min is more than rows_max: no product has such rows".into());
    }
    let is_share = |share: f64| share > 0.0 && share <= 1.0;
    if row.rounds.is_some_and(|of| of.tile.contains(&0) || !is_share(of.filled_max)) {
        return Err(
            "rounds: a tile has rows and columns, filled_max is above 0 and at most 1".into()
        );
    }
    if row.columns_max == Some(0) {
        return Err("columns_max: 0 columns are no product".into());
    }
    let is_product = matches!(row.operation, Operation::Gemm(..));
    if !is_product && (row.rounds.is_some() || row.columns_max.is_some()) {
        return Err(format!("rounds, columns_max: only of gemm, and not of {}", row.operation));
    }
    Ok(())
}

/// Fields of a row that say nothing to the host, as far as they are set.
fn fields_of_gpus(row: &KernelRow) -> Vec<&'static str> {
    let fields = [
        ("threads", row.threads != 0),
        ("grid", row.grid != Default::default()),
        ("per_unit", row.per_unit != 1),
        ("elements", row.elements.is_some()),
        ("shared", row.shared != 0),
        ("scratch", row.scratch != 0),
        ("repeat", row.repeat != Default::default()),
        ("cluster", row.cluster != 1),
        ("alignment", row.alignment != 1),
        ("tile", row.tile.is_some()),
        ("dims_max", row.dims_max.is_some()),
        ("tiles", row.tiles.is_some()),
        ("rows_min", row.rows_min.is_some()),
        ("rows_max", row.rows_max.is_some()),
        ("rounds", row.rounds.is_some()),
        ("columns_max", row.columns_max.is_some()),
        ("maps", !row.maps.is_empty()),
    ];
    fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// Whether a name can be the last part of a case's id and is nobody else's on any device.
fn name(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(is_word) || name.len() > NAME_MAX {
        return Err(format!(
            "name: at most {NAME_MAX} lower-case letters, digits and _, the first a letter"
        ));
    }
    let taken = KernelName(name.to_owned());
    if taken.is_of_library() || ["ce", "sm", "tma", "threads", "mpi"].contains(&name) {
        return Err("name: fizeau measures something else by this name; choose another".into());
    }
    Ok(())
}

/// Whether users can bring kernels of an operation: where a case of it has one kernel, whose result
/// is verified.
fn is_open(operation: Operation) -> bool {
    match operation {
        Operation::Stream(_)
        | Operation::Latency
        | Operation::Access(_)
        | Operation::Fused(..)
        | Operation::Recurrence(..)
        | Operation::Sparse(_)
        | Operation::Gemm(..)
        | Operation::Grouped(_)
        | Operation::Attention { .. } => true,
        // A count of its own operations is all that such a kernel leaves: no work proves it.
        Operation::Compute(_)
        | Operation::Instruction(..)
        | Operation::LatencySide
        | Operation::LatencyProbe
        | Operation::Copy
        | Operation::Launch(_)
        | Operation::Check(_)
        | Operation::Hash
        | Operation::Tally
        | Operation::Keep
        | Operation::Pattern
        | Operation::Fill
        | Operation::Compare
        | Operation::Clock
        | Operation::Counters
        | Operation::Hold => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = r#"kernels = [{ operation = "stream/copy", name = "mine", entry = "f" }]"#;
    const GPU: &str = r#"
        targets = ["sm_90a"]
        kernels = [{ operation = "gemm/bf16", name = "mine", entry = "f", threads = 128 }]"#;

    #[test]
    fn a_section_is_that_of_the_list_without_a_path() {
        let host = section(HOST, "some/mine.so", Form::Library).expect("a section");
        assert_eq!((host.path.as_str(), host.kernels[0].threads), ("some/mine.so", 0));
        let gpu = section(GPU, "mine.cu", Form::Text).expect("a section");
        assert_eq!((gpu.targets, gpu.kernels[0].threads), (vec!["sm_90a".to_owned()], 128));
    }

    #[test]
    fn what_is_wrong_in_a_section_is_named() {
        let told = |text: &str, from: &str, to: &str, form| {
            assert!(text.contains(from), "{from}");
            section(&text.replace(from, to), "mine", form).expect_err(to)
        };
        for (from, to, word) in [
            ("threads", "treads", "treads"),
            ("gemm/bf16", "gemm/bf17", "gemm/bf17"),
            ("gemm/bf16", "util/hold", "operation"),
            ("gemm/bf16\"", "stream/dot\", per_unit = 5", "per_unit"),
            ("128", "0", "threads"),
            ("128", "2048", "threads"),
            ("128", "128, cluster = 0", "cluster"),
            ("128", "128, grid = \"one\", cluster = 2", "grid"),
            ("128", "128, per_unit = 4294967295", "per_unit"),
            ("128", "128, elements = 4096", "elements"),
            ("128", "128, tiles = [0, 128]", "tiles"),
            ("128", "128, maps = [{ operand = \"q\", box = [8, 8], swizzle = 0 }]", "operand"),
            ("128", "128, maps = [{ operand = \"a\", box = [8, 8], atom = 32 }]", "atom"),
            ("128", "128, rows_min = 9, rows_max = 8", "rows_min"),
            ("128", "128, columns_max = 0", "columns_max"),
            ("128", "128, rounds = { tile = [64, 64], filled_max = nan }", "filled_max"),
            ("gemm/bf16\"", "stream/dot\", columns_max = 8", "columns_max"),
            ("\"mine\"", "\"cublaslt\"", "name"),
            ("\"mine\"", "\"my kernel\"", "name"),
            ("\"sm_90a\"", "", "targets"),
            ("targets", "path = \"x\"\ntargets", "path"),
            ("128", r#"128, maps = [{ operand = "a", box = [64, 512] }]"#, "maps"),
        ] {
            let words = told(GPU, from, to, Form::Text);
            assert!(words.contains(word), "{words}");
        }
        for (from, to, word) in [
            ("\"f\"", "\"f\", threads = 128", "threads"),
            ("kernels", "targets = [\"sm_90\"]\nkernels", "targets"),
            ("\"f\"", "\"\"", "entry"),
        ] {
            let words = told(HOST, from, to, Form::Library);
            assert!(words.contains(word), "{words}");
        }
        let row = HOST.trim_start_matches("kernels = [").trim_end_matches(']');
        let twice = format!("kernels = [{row}, {row}]");
        assert!(section(&twice, "mine", Form::Library).expect_err("twice").contains("twice"));
    }
}
