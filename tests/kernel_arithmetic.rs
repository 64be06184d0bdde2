//! GPU kernels run on the CPU: the same text, with a model of what their instructions do, against
//! plain computations of the same. See `tests/kernel_model/`.
//!
//! It needs a C++ compiler and says so where there is none. What a model said is kept outside the
//! clone (`tests/kept`), so that a model whose text has not changed is not run again.

mod kept;
mod skipped;

use fizeau_bench::attention::schedule::{Schedule, Workers};
use fizeau_domain::case::{Mask, Sequence};
use std::{
    cell::Cell,
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const OPTIONS: [&str; 6] =
    ["-std=c++17", "-O2", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-psabi"];

/// A file of the model, with the kernels that it includes.
struct Model {
    /// Has what is in the place of kernels and headers of the same name, and the program.
    folder: PathBuf,
    source: PathBuf,
    lanes: u32,
    compiler: String,
    /// Names the program by its preprocessed text, with every kernel and header in it, and by its
    /// compiler, that compiler's version and options, and the machine.
    key: String,
    is_made: Cell<bool>,
    /// Where what it said is kept.
    cache: PathBuf,
}

/// What a model said.
struct Said {
    /// Its exit code; none where a signal ended it.
    code: Option<i32>,
    text: String,
}

/// A file of the model, for so many lanes in step, with what `folder` has in the place of kernels
/// and headers of the same name; `None`, having said so, where no compiler is.
fn model(folder: &Path, source: &str, lanes: u32) -> Option<Model> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
    let version = match Command::new(&compiler).arg("--version").output() {
        Ok(version) => version.stdout,
        Err(error) => {
            skipped::because("c++", format!("no C++ compiler ({compiler}: {error})"));
            return None;
        }
    };
    let mut model = Model {
        folder: folder.to_owned(),
        source: Path::new("tests/kernel_model").join(source),
        lanes,
        compiler,
        key: String::new(),
        is_made: Cell::new(false),
        cache: kept::folder(),
    };
    let text = model.compile(&["-E", "-P"]);
    let options = OPTIONS.join(" ");
    let named = [&version, options.as_bytes(), env::consts::ARCH.as_bytes(), &text];
    model.key = kept::key([model.compiler.as_bytes()].into_iter().chain(named));
    Some(model)
}

impl Model {
    /// What the compiler prints.
    fn compile(&self, options: &[&str]) -> Vec<u8> {
        let made = Command::new(&self.compiler)
            .args(OPTIONS)
            .arg("-I")
            .arg(&self.folder)
            .args(["-Itests/kernel_model", "-Ikernels/include", "-Ikernels"])
            .arg(format!("-DMODEL_LANES={}", self.lanes))
            .args(options)
            .arg(&self.source)
            .output();
        let made = made.expect("the compiler, which said its version, runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    /// Runs it, or finds what it said before: with arguments, and with schedules for it to follow.
    fn run(&self, arguments: &[&str], schedules: Option<&str>) -> Said {
        let words = arguments.join(" ");
        let parts = [&self.key, &words, schedules.unwrap_or_default()];
        let key = kept::key(parts.map(str::as_bytes));
        if let Some(kept) = kept::read(&self.cache, &key)
            && let Some((code, text)) = kept.split_once('\n')
            && let Ok(code) = code.parse()
        {
            return Said { code: Some(code), text: text.to_owned() };
        }
        let program = self.folder.join("model");
        if !self.is_made.replace(true) {
            self.compile(&["-o", &program.to_string_lossy()]);
        }
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(schedules) = schedules {
            let file = self.folder.join("schedules");
            fs::write(&file, schedules).expect("the schedules are written");
            command.arg("--schedules").arg(file);
        }
        let output = command.output().expect("the model runs");
        let said = Said {
            code: output.status.code(),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        };
        // A model that was killed has said nothing of its kernels.
        if let Some(code @ (0 | 1)) = said.code {
            kept::write(&self.cache, &key, &format!("{code}\n{}", said.text));
        }
        said
    }
}

/// Runs a model as it is, and with fragments laid otherwise: that must not pass, so that the
/// kernels' layout is tested.
#[track_caller]
fn check(source: &str, lanes: u32, planted: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    if let Some(model) = model(folder.path(), source, lanes) {
        check_made(&model, planted);
    }
}

/// What the model said where nothing was planted.
#[track_caller]
fn check_made(model: &Model, planted: &str) -> String {
    let right = model.run(&[], None);
    assert_eq!(right.code, Some(0), "{}", right.text);
    assert!(right.text.contains("checks passed"));
    let wrong = model.run(&["--planted"], None);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.text.contains(planted), "{}", wrong.text);
    right.text
}

/// That each kernel of attention in a list of kernels was run with the dimensions it is made for.
#[track_caller]
fn assert_all_are_run(said: &str, list: &str) {
    #[derive(serde::Deserialize)]
    struct List {
        file: Vec<File>,
    }
    #[derive(serde::Deserialize)]
    struct File {
        kernels: Vec<Row>,
    }
    #[derive(serde::Deserialize)]
    struct Row {
        operation: String,
        name: String,
    }
    let list: List = toml::from_str(list).expect("a list of kernels");
    let mut counted = 0;
    for Row { operation, name } in list.file.into_iter().flat_map(|file| file.kernels) {
        let Some((operation, dims)) = operation.rsplit_once('/') else { continue };
        let Some((dim_qk, dim_v)) = dims.split_once('x') else { continue };
        if operation.starts_with("attention/") {
            let start = format!("{operation}/{name}: {dim_qk} x {dim_v},");
            assert!(said.lines().any(|line| line.starts_with(&start)), "no {start} in\n{said}");
            counted += 1;
        }
    }
    assert!(counted > 20, "only {counted} kernels are listed");
}

/// That a program follows schedules as they are, and finds those that leave a block to two workers
/// or to none.
#[track_caller]
fn check_schedules(model: &Model, words: &str) {
    let follow = |batches: &[Batch], break_it: fn(&mut Schedule)| {
        model.run(&[], Some(&schedules(batches, break_it)))
    };
    let right = follow(&BATCHES, |_| ());
    assert_eq!(right.code, Some(0), "{}", right.text);
    assert!(right.text.contains("checks passed"));
    let twice = follow(&BATCHES[..1], |schedule| schedule.parts[1].key_first -= 64);
    let never = follow(&BATCHES[..1], |schedule| schedule.parts[1].key_first += 64);
    for wrong in [twice, never] {
        assert_eq!(wrong.code, Some(1));
        assert!(wrong.text.contains(words), "{}", wrong.text);
    }
}

#[test]
fn kernels_compute_what_they_say() {
    check("main.cpp", 32, "fault: gemm/bf16/sm80_mma");
}

#[test]
fn attention_is_what_it_is_defined_as() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(model) = model(folder.path(), "attention.cpp", 32) else { return };
    check_schedules(&model, "keys are not visited once");
    let said = check_made(&model, "fault: attention/prefill/bf16/sm80_mma");
    assert_all_are_run(&said, include_str!("../kernels/kernels.toml"));
}

#[test]
fn prefill_takes_tiles_in_an_order_that_keeps_keys_in_the_cache() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(model) = model(folder.path(), "attention_order.cpp", 32) else { return };
    let said = model.run(&[], None);
    assert!(said.code == Some(0) && said.text.contains("checks passed"), "{}", said.text);
}

/// Sequences that are decoded together.
struct Batch {
    heads: u32,
    kv_heads: u32,
    /// Tokens of a page; 0: in one piece.
    page: u32,
    workers: u32,
    mask: Mask,
    /// Queries and keys of each.
    sequences: &'static [(u32, u32)],
}

const BATCHES: [Batch; 8] = [
    // One worker for each two blocks or so: the first sequence is cut, and a piece spans two.
    causal(8, 1, 0, 3, &[(1, 300), (1, 130), (1, 1)]),
    causal(6, 2, 16, 5, &[(1, 0), (1, 450), (1, 64)]),
    // More rows than a part has, several queries of each sequence, lengths that are no multiples.
    causal(40, 1, 64, 4, &[(3, 201), (2, 63)]),
    // Pages that a sequence does not fill, and one that spans two.
    causal(8, 1, 256, 3, &[(1, 70), (1, 330)]),
    // Fewer blocks than workers.
    causal(16, 1, 1, 9, &[(1, 65)]),
    // A window that begins within a block and a page, and is longer than some sequences.
    Batch { mask: Mask::Window(131), ..causal(8, 2, 16, 3, &[(1, 300), (1, 130), (1, 401)]) },
    // Several queries: a window of less than a block, and one that crosses the edge of a chunk.
    Batch { mask: Mask::Window(17), ..causal(40, 1, 64, 4, &[(3, 201), (2, 16)]) },
    Batch { mask: Mask::Chunk(99), ..causal(8, 1, 0, 3, &[(4, 200), (1, 98), (1, 300)]) },
];

const fn causal(
    heads: u32,
    kv_heads: u32,
    page: u32,
    workers: u32,
    sequences: &'static [(u32, u32)],
) -> Batch {
    Batch { heads, kv_heads, page, workers, mask: Mask::Causal, sequences }
}

/// What the program deals for these batches, to blocks and to pairs of blocks, as the model reads
/// it; `break_it` may change it.
fn schedules(batches: &[Batch], break_it: fn(&mut Schedule)) -> String {
    let mut text = format!("{}\n", 2 * batches.len());
    for (blocks, batch) in [1, 2].iter().flat_map(|blocks| batches.iter().map(move |b| (blocks, b)))
    {
        let Batch { heads, kv_heads, page, workers, mask, sequences } = batch;
        let of = |&(queries, keys): &(u32, u32)| Sequence { queries, keys, ..Sequence::default() };
        let places: Vec<Sequence> = sequences.iter().map(of).collect();
        let group = heads / kv_heads;
        let workers = Workers { count: *workers, blocks: *blocks };
        let mut schedule = Schedule::new(*mask, &places, *kv_heads, group, workers);
        break_it(&mut schedule);
        let mut line = |words: &[u32]| {
            let words: Vec<String> = words.iter().map(u32::to_string).collect();
            writeln!(text, "{}", words.join(" ")).expect("text takes it");
        };
        let [window, chunk] = match *mask {
            Mask::Window(window) => [window, 0],
            Mask::Chunk(chunk) => [0, chunk],
            Mask::Full | Mask::Causal => [0, 0],
        };
        line(&[*heads, *kv_heads, *page, window, chunk, sequences.len() as u32]);
        for &(queries, keys) in *sequences {
            line(&[queries, keys]);
        }
        line(&[schedule.parts.len() as u32]);
        for part in &schedule.parts {
            line(bytemuck::cast_slice(std::slice::from_ref(part)));
        }
        line(&[schedule.firsts.len() as u32]);
        line(&schedule.firsts);
        line(&[schedule.slots, *blocks]);
    }
    text
}

#[test]
fn rows_that_all_begin_at_one_bank_are_found() {
    let lanes_h = ("kernels/include", "lane_product.h");
    let lines_h = ("kernels/include", "line_product.h");
    for (lanes, (from, name), find, replace, of) in [
        (32, lines_h, "(chunk ^ (line / 2 % 4)) * 16", "chunk * 16", "fp8"),
        (64, lanes_h, "exchanged(row * S::CHUNKS + chunk)", "row * S::CHUNKS + chunk", "fp8"),
        (64, lanes_h, "IN_FRAGMENT < 8 ? IN_FRAGMENT : 8", "16", "bf16"),
    ] {
        let folder = tempfile::tempdir().expect("a directory");
        let kernel = fs::read_to_string(Path::new(from).join(name)).expect("a kernel");
        assert!(kernel.contains(find), "{find} stands nowhere in {name}");
        let place = folder.path().join(name);
        fs::create_dir_all(place.parent().expect("a folder")).expect("a directory");
        fs::write(place, kernel.replace(find, replace)).expect("it is written");
        let Some(model) = model(folder.path(), "conflicts.cpp", lanes) else { return };
        let found = model.run(&[], None);
        assert_eq!(found.code, Some(1), "{}", found.text);
        let fault = format!("fault: gemm/{of}: bank conflicts");
        assert!(found.text.contains(&fault), "{}", found.text);
    }
}

/// A model finds a fault in a kernel that has `left` in the place of `wait`, and none where nothing
/// is replaced.
#[track_caller]
fn check_without(source: &str, name: &str, wait: &str, left: &str) {
    let kernel = fs::read_to_string(Path::new("kernels").join(name)).expect("a kernel");
    assert!(kernel.contains(wait), "{wait} stands nowhere in {name}");
    let folder = tempfile::tempdir().expect("a directory");
    let place = folder.path().join(name.strip_prefix("include/").unwrap_or(name));
    fs::create_dir_all(place.parent().expect("a folder")).expect("a directory");
    fs::write(place, kernel.replace(wait, left)).expect("it is written");
    let Some(model) = model(folder.path(), source, 32) else { return };
    let Said { code, text } = model.run(&[], None);
    assert_eq!(code == Some(0), wait.is_empty(), "{wait}: {text}");
    assert!(wait.is_empty() || text.contains("fault: "), "{text}");
}

#[test]
fn waits_that_attention_by_tensor_memory_lacks_are_found() {
    let (prefill, latent) = ("attention/sm100_tcgen05.cu", "attention/sm100_tcgen05_latent.cu");
    for (name, wait, left) in [
        (latent, "", ""),
        // For the second half of a tile's weights.
        (prefill, "await_phase(&shared.rest[tile], turn % 2);", ""),
        (latent, "await_phase(&shared().queries, turn++ % 2);", "turn++;"),
        (
            latent,
            "await_tile(shared().used, index - 1);\n      see_tensor_memory();\n#pragma",
            "#pragma",
        ),
        (latent, "if (tiles > 0) await_tile(shared().used, index - 1);", ""),
        // For keys that are still multiplied, where the next ones come row by row.
        (latent, "await_place(shared().scores, index);\n    UNROLL", "UNROLL"),
        // For the keys that come in boxes, before the others do.
        (latent, "barrier_of<LOADERS>(LOADED + turn);", ""),
        // For what other warps multiplied rows of queries by.
        (latent, "together();\n          factor", "factor"),
    ] {
        check_without("tensor_memory.cpp", name, wait, left);
    }
}

#[test]
fn waits_that_scaled_products_of_pairs_lack_are_found() {
    for (wait, left) in [
        ("", ""),
        // For the multiplications that read what stood where scales are copied to.
        ("if (count >= 2) await", "if (false) await"),
        // For the scales that came to the second block of a pair.
        ("await_phase(&ring.full[ring.at], ring.parity);\n      arrive_in", "arrive_in"),
        // For the columns that both tiles of sums have, which then leave too late.
        ("await_phase(&sums.empty[other], sums.parity ^ other)", "(void)other"),
        ("tile.half == 2 ? (sums.at ^ 1) * COLUMNS : 0", "tile.half == 2 ? sums.at * COLUMNS : 0"),
        // For scales of rows of tiles that are not there, which are those of the last.
        ("row < rows ? row : rows - 1", "row"),
        // For sums, until they are read.
        (
            "load_part(parts[part], from + part * 64, bf16(), finish);\n  freed();",
            "{ if (part == 0) freed(); load_part(parts[part], from + part * 64, bf16(), finish); }",
        ),
        // For the last commits, which arrive at the barriers of a block that has ended.
        ("BLOCKS == 2 && i < STAGES", "false"),
        // By 96 along k: for the multiplications that read what stood in a place for scales.
        ("if (places.ends[0] > 0)", "if (false)"),
        // Bytes that stand in the next stage, and a stage that is given back before they are read.
        ("going_on_at(begun, at[stage_last] + offset)", "begun"),
        ("going_on_at(begun, at[stage_last] + offset)", "going_on_at(begun, at[stage] + offset)"),
        ("last || (i + 1) * ROW_BYTES <= byte + LONG_BYTES", "last || i == stage"),
        // A stage behind k, into which the last multiplication goes on; scales behind k.
        ("tiles_along(rest, ROW_BYTES)", "rest / ROW_BYTES"),
        ("!LONGER || tile.half < 2", "!LONGER"),
        ("LONGER && bytes == 0", "false"),
        ("there ? which : tile", "which"),
    ] {
        check_without("scaled_pairs.cpp", "include/sm100_scaled.h", wait, left);
    }
}

#[test]
fn waits_that_warpgroups_in_turns_lack_are_found() {
    let (turned, promoted) = ("gemm/sm90_wgmma_turned.cu", "gemm/sm90_wgmma.cu");
    let turns = "include/sm90_product.h";
    for (name, wait, left) in [
        (turned, "", ""),
        // For the second half of a stage's products, before the stage is given back.
        (turned, "await_multiplications<0>();", ""),
        (promoted, "await_multiplications<0>();\n      settle(sums);", "settle(sums);"),
        // Turns that nobody begins, waits for, hands over or takes at the end.
        (turns, "if (consumer == 1) come_to_barrier<BOTH>(FIRST);", ""),
        (turned, "turns.await();", ""),
        (promoted, "turns.await();", ""),
        (turned, "turns.pass();", "await_multiplications<1>();"),
        (turns, "if (consumer == 0) barrier_of<BOTH>(FIRST);", ""),
    ] {
        check_without("turns.cpp", name, wait, left);
    }
}

#[test]
fn attention_of_amd_is_what_it_is_defined_as() {
    let folder = tempfile::tempdir().expect("a directory");
    let families = [
        ("amd_attention.cpp", 64, "cdna2_mfma"),
        ("amd_attention.cpp", 32, "rdna4_wmma"),
        ("cdna5_attention.cpp", 32, "cdna5_wmma"),
    ];
    let mut said = String::new();
    for (source, lanes, first) in families {
        let Some(model) = model(folder.path(), source, lanes) else { return };
        check_schedules(&model, &format!("fault: schedule/bf16/{first}"));
        said += &check_made(&model, &format!("fault: attention/prefill/bf16/{first}"));
    }
    assert_all_are_run(&said, include_str!("../kernels/amd.toml"));
}

#[test]
fn matrix_kernels_of_amd_compute_what_they_say() {
    check("amd.cpp", 64, "fault: gemm/bf16/cdna2_mfma");
    check("amd.cpp", 32, "fault: gemm/bf16/rdna3_wmma");
    check("amd_shared.cpp", 64, "fault: gemm/bf16/cdna2_mfma_stream_k");
}

/// Every product of CDNA 5, and that each of its instructions has its operands and scales where the
/// kernels put them: two lanes that have each other's are found.
#[test]
fn matrix_kernels_of_cdna_5_compute_what_they_say() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(model) = model(folder.path(), "cdna5.cpp", 32) else { return };
    let right = model.run(&[], None);
    assert_eq!(right.code, Some(0), "{}", right.text);
    assert!(right.text.contains("checks passed"));
    for dtype in ["bf16", "f16", "fp8", "f32", "int8", "mxfp8", "mxfp4"] {
        let fault = format!("fault: gemm/{dtype}/cdna5_wmma");
        for lane in ["0", "6", "15", "16", "30"] {
            let wrong = model.run(&["--planted", lane, dtype], None);
            assert_eq!(wrong.code, Some(1), "{dtype}, lane {lane}: {}", wrong.text);
            assert!(wrong.text.contains(&fault), "{}", wrong.text);
        }
    }
    for dtype in ["mxfp8", "mxfp4"] {
        // Scales of the other lanes are not read.
        for (lane, code) in [("0", 1), ("14", 1), ("16", 0), ("30", 0)] {
            let said = model.run(&["--planted", lane, dtype, "scales"], None);
            assert_eq!(said.code, Some(code), "{dtype}, lane {lane}: {}", said.text);
        }
    }
}

#[test]
fn faults_in_what_blocks_and_waves_of_amd_share_are_found() {
    let shared = ("amd_shared.cpp", 64);
    for ((source, lanes), name, find, replace) in [
        // A stretch that goes on into the next block's stages.
        (shared, "lane_stream_k.h", "step < count ? first + step : all", "first + step"),
        // The count that decides who adds, read before the thread that has it wrote it.
        (shared, "stream_k.h", "    meet();\n    if (told[part]", "    if (told[part]"),
        // A count that the next launch finds.
        (shared, "lane_stream_k.h", "sharers.forget_count(line, index);", ""),
        // Sums of all but the last block.
        (shared, "lane_stream_k.h", "block <= last; block++", "block < last; block++"),
        // A tile of a group that no block makes.
        (shared, "lane_grouped.h", "index += blocks", "index += blocks + 1"),
        // Groups that a wave's lanes had before, left out of the count.
        (shared, "lane_grouped.h", "      before += all;\n", ""),
        // Waves that do not wait until a tile's first stage is there.
        (shared, "lane_product.h", "= {};\n  shared_barrier();", "= {};"),
        (("amd.cpp", 32), "lane_product.h", "= {};\n  shared_barrier();", "= {};"),
    ] {
        let folder = tempfile::tempdir().expect("a directory");
        // A header finds those beside it first: all are copied that such a kernel has.
        let mut changed = 0;
        for header in fs::read_dir("kernels/include").expect("headers") {
            let header = header.expect("a header").file_name().into_string().expect("a name");
            if !header.starts_with("lane_") && !["stream_k.h", "grouped.h"].contains(&&*header) {
                continue;
            }
            let mut text =
                fs::read_to_string(Path::new("kernels/include").join(&header)).expect("a header");
            if header == name {
                assert!(text.contains(find), "{find} stands nowhere in {name}");
                text = text.replace(find, replace);
                changed += 1;
            }
            fs::write(folder.path().join(&header), text).expect("it is written");
        }
        assert_eq!(changed, 1, "{name}");
        let Some(model) = model(folder.path(), source, lanes) else { return };
        let found = model.run(&[], None);
        assert_eq!(found.code, Some(1), "{find}: {}", found.text);
        assert!(found.text.contains("fault: "), "{find}: {}", found.text);
    }
}

/// What a model said is not found again once anything that it depends on has changed, or where an
/// entry is damaged; and nothing is kept of a model that was killed.
#[test]
fn a_changed_kernel_model_or_damaged_entry_is_run_again() {
    let place = tempfile::tempdir().expect("a directory");
    let folder = |name: &str, header: &str, text: &str| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join("kernel.h"), header).expect("written");
        fs::write(folder.join("model.cpp"), text).expect("written");
        folder
    };
    let text = "#include <cstdio>\n#include <cstdlib>\n#include \"kernel.h\"\n\
                int main(int count, char**) { std::puts(count > 1 ? \"more\" : WORD); \
                if (WORD[0] == 'x') std::abort(); return MODEL_LANES == 64; }";
    let cache = place.path().join("cache");
    let of = |folder: &Path, lanes| {
        // Outside the folder of models, whose place is no part of the name.
        let source = folder.join("model.cpp");
        let mut model = model(folder, &source.to_string_lossy(), lanes)?;
        model.cache = cache.clone();
        Some(model)
    };
    let first = folder("first", "#define WORD \"one\"", text);
    let Some(model) = of(&first, 32) else { return };
    let said = model.run(&[], None);
    assert_eq!((said.code, &*said.text), (Some(0), "one\n"));
    let entries = || fs::read_dir(&cache).expect("a cache").count();
    assert_eq!(entries(), 1);
    // The same text elsewhere is the same model, and is not even compiled.
    let again = of(&folder("again", "#define WORD \"one\"", text), 32).expect("a compiler");
    assert_eq!(again.run(&[], None).text, "one\n");
    assert!(!again.is_made.get());
    // Arguments, schedules, lanes, the model's text and what it includes all count.
    assert_eq!(again.run(&["--planted"], None).text, "more\n");
    assert_eq!(again.run(&[], Some("1 2")).text, "more\n");
    assert_eq!(of(&first, 64).expect("a compiler").run(&[], None).code, Some(1));
    let changed = of(&folder("changed", "#define WORD \"two\"", text), 32).expect("a compiler");
    assert_eq!(changed.run(&[], None).text, "two\n");
    let other = text.replace("WORD)", "\"three\")");
    let other = of(&folder("other", "#define WORD \"one\"", &other), 32).expect("a compiler");
    assert_eq!(other.run(&[], None).text, "three\n");
    assert_eq!(entries(), 6);
    // Nothing is kept of one that was killed.
    let killed = of(&folder("killed", "#define WORD \"x\"", text), 32).expect("a compiler");
    assert_eq!((killed.run(&[], None).code, entries()), (None, 6));
    // An entry with another word in it is not believed.
    for entry in fs::read_dir(&cache).expect("a cache") {
        let path = entry.expect("an entry").path();
        let forged = fs::read_to_string(&path).expect("a text").replace("one", "two");
        fs::write(&path, forged).expect("written");
    }
    assert_eq!(of(&first, 32).expect("a compiler").run(&[], None).text, "one\n");
}

#[test]
fn fused_operations_are_what_they_are_defined_as() {
    let folder = tempfile::tempdir().expect("a directory");
    for lanes in [32, 64] {
        let Some(model) = model(folder.path(), "fused.cpp", lanes) else { return };
        let said = model.run(&[], None);
        assert!(said.code == Some(0) && said.text.contains("checks passed"), "{}", said.text);
    }
    for (wait, left) in [
        // Epsilon is left out.
        ("squares / f32(p.width) + p.epsilon", "squares / f32(p.width)"),
        // The residual is not written back.
        ("put(rows.updated, i * TURN + mine, kept[i]);", ""),
        // The gate and what it lets through are exchanged.
        ("gate * reciprocal(1.0f +", "value_at(ups[i], j) * reciprocal(1.0f +"),
        // Scales of other blocks.
        ("at / (SHARING * EACH)] =", "blocks - 1 - at / (SHARING * EACH)] ="),
        // A scale by the largest of some elements alone.
        ("mask = SHARING / 2;", "mask = SHARING / 4;"),
        // Nothing is planted.
        ("", ""),
    ] {
        check_without("fused.cpp", "fused/portable.cu", wait, left);
    }
}

#[test]
fn recurrences_are_what_they_are_defined_as() {
    let folder = tempfile::tempdir().expect("a directory");
    for lanes in [32, 64] {
        let Some(model) = model(folder.path(), "recurrence.cpp", lanes) else { return };
        let said = model.run(&[], None);
        assert!(said.code == Some(0) && said.text.contains("checks passed"), "{}", said.text);
    }
    for (wait, left) in [
        // The old state is taken away.
        ("fused(change, shared.keys[c][i], decayed)", "fused(change, shared.keys[c][i], -decayed)"),
        // What the state keeps of the key is not taken out.
        ("change = rate * (value - kept)", "change = rate * value"),
        // Sums along a row are those of half of its lanes.
        ("mask = LANES / 2; mask > 0", "mask = LANES / 2; mask > 1"),
        // All heads have keys of their own.
        ("head / (p.heads / p.key_heads)", "head % p.key_heads"),
        // The update is taken out of the output.
        (
            "fused(change, product, fused(skip, value, read))",
            "fused(-change, product, fused(skip, value, read))",
        ),
        // The skip is left out.
        ("fused(skip, value, read)", "fused(skip, kept, read)"),
        // Nothing is planted.
        ("", ""),
    ] {
        check_without("recurrence.cpp", "recurrence/portable.cu", wait, left);
    }
}

#[test]
fn attention_over_selected_tokens_is_what_it_is_defined_as() {
    let folder = tempfile::tempdir().expect("a directory");
    for lanes in [32, 64] {
        let Some(model) = model(folder.path(), "sparse_decode.cpp", lanes) else { return };
        let said = model.run(&[], None);
        assert!(said.code == Some(0) && said.text.contains("checks passed"), "{}", said.text);
    }
    for (wait, left) in [
        // A scale of the next block.
        ("u32(fetched.scales.at[i / 2] >> i % 2 * 32)", "u32(fetched.scales.at[i / 2])"),
        // The tile of tokens that was there before.
        ("fetched = fetch(p, part, from + TOKENS);", ""),
        // Tokens beyond the last one weigh.
        ("from + token + t < part.end ?", "from + token + t < part.end + 1 ?"),
        // Scores are those of half of the elements.
        (
            "mask = SHARING / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);\n      scores",
            "mask = SHARING / 2; mask > 1; mask /= 2) sum += shuffle_xor(sum, mask);\n      scores",
        ),
        // Sums are not corrected.
        ("sums[h][c] *= correction", "sums[h][c] *= 1.0f + 0.0f * correction"),
        // Whoever is last leaves out the last split.
        ("combine(p, part, slots, splits)", "combine(p, part, slots, splits - 1)"),
        // The count is not zero again.
        ("if (room.done == splits) *count = 0;", ""),
        // A tile is overwritten while it is read.
        ("accumulate(room, sums);\n      block_barrier();", "accumulate(room, sums);"),
        // Nothing is planted.
        ("", ""),
    ] {
        check_without("sparse_decode.cpp", "sparse/portable_decode.cu", wait, left);
    }
}

#[test]
fn selected_tokens_are_those_of_the_greatest_logits() {
    let folder = tempfile::tempdir().expect("a directory");
    for lanes in [32, 64] {
        let Some(model) = model(folder.path(), "sparse_top_k.cpp", lanes) else { return };
        let said = model.run(&[], None);
        assert!(said.code == Some(0) && said.text.contains("checks passed"), "{}", said.text);
    }
    for (wait, left) in [
        // Of equal numbers the last ones.
        ("<< 32 | ~place", "<< 32 | place"),
        // Negative numbers in the order of their sizes.
        ("bits & 0x80000000 ? ~bits", "bits & 0x80000000 ? bits & 0x7fffffff"),
        // Those above what the last one is among are counted again.
        ("room.left = known.left - above;", "room.left = known.left;"),
        // A part that is left out.
        ("choose(Slots{slots, p.selected}, all,", "choose(Slots{slots, p.selected}, all - last,"),
        // The count is not zero again.
        ("if (room.done == blocks) *count = 0;", ""),
        // Counts are read before all words are counted.
        ("1u);\n  });\n  block_barrier();", "1u);\n  });"),
        // Nothing is planted.
        ("", ""),
    ] {
        check_without("sparse_top_k.cpp", "sparse/portable_top_k.cu", wait, left);
    }
}
