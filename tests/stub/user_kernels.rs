//! Kernels that a user brings to a GPU: texts from outside of the repository, which the stub
//! executes as it does our own, and images, which it refuses as a driver refuses another device's.

use super::machine::{AMD, Machine, NVIDIA};
use crate::program::{Said, say};
use fizeau_domain::outcome::{Code, Failure, Outcome};
use std::fs;

const SUITE: &str = r#"
[stream]
memory = []
scaling = []
sweep = []
sweep_units = ["one"]
sweep_points_per_octave = 1
last_cache = ["copy"]

[gemm]
dtypes = ["bf16"]
shapes = [[131, 200, 160]]

[[attention]]
attention = "decode"
dtype = "bf16"
batch = 2
heads = 4
kv_heads = 2
queries = 1
keys = 75
dim_qk = 128
dim_v = 128
mask = "causal"
"#;

/// Copies: right, wrong, out of bounds, and one that wants more than a multiprocessor has.
const COPIES: &str = r#"
#include "params.h"

KERNEL(128, 1) stream_copy_right(const StreamParams p) {
  for (u64 i = block_index() * 128 + thread_index(); i < p.length; i += block_count() * 128)
    p.a[i] = p.b[i];
}
KERNEL(128, 1) stream_copy_wrong(const StreamParams p) {
  for (u64 i = block_index() * 128 + thread_index(); i < p.length; i += block_count() * 128)
    p.a[i] = p.b[i] + 1.0;
}
KERNEL(128, 1) stream_copy_beyond(const StreamParams p) {
  p.a[(u64(1) << 40) + thread_index()] = 1.0;
}
"#;

fn copies(names: &[&str], more: &str) -> String {
    let row = |name: &&str| {
        let operation = "operation = \"stream/copy\"";
        let entry = format!("name = \"{name}\", entry = \"stream_copy_{name}\"");
        format!("    {{ {operation}, {entry}, threads = 128{more} }},\n")
    };
    let rows: String = names.iter().map(row).collect();
    format!("targets = [\"sm_80\", \"gfx942\"]\nptx = \"compute_80\"\nkernels = [\n{rows}]\n")
}

fn machine(libraries: &[&str]) -> Machine {
    let machine = Machine::with(libraries);
    machine.suite(SUITE);
    machine
}

fn run(machine: &Machine, device: &str, more: &[&str]) -> Said {
    run_on(machine, "units=4", device, more)
}

/// On a driver with a script.
fn run_on(machine: &Machine, script: &str, device: &str, more: &[&str]) -> Said {
    let args = ["run", "--suite", "own.toml", "--out", "out", "--device", device];
    say(machine.fizeau(script, &args).args(more))
}

fn outcome(machine: &Machine, kernel: &str, operation: &str) -> Outcome {
    let outcomes = machine.place.record("out").outcomes.into_iter();
    let mut of = outcomes.filter(|outcome| outcome.case().to_string().starts_with(operation));
    let found = of.find(|outcome| outcome.case().kernel.0 == kernel);
    found.unwrap_or_else(|| panic!("no case of {kernel}"))
}

#[test]
fn the_examples_are_verified_beside_our_own_kernels() {
    let machine = machine(&NVIDIA);
    for name in ["gemm.cu", "gemm.toml", "decode.cu", "decode.toml"] {
        let from = format!("examples/your-kernel/{name}");
        fs::copy(from, machine.place.path(name)).expect("an example");
    }
    let cases = ["gemm/*/{mine,portable}", "attention/*/mine"];
    let kernels = ["--kernel", "gemm.cu", "--kernel", "decode.cu"];
    let kernels = [&cases[..], &kernels].concat();
    let said = run(&machine, "cuda", &kernels);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for operation in ["gemm", "attention"] {
        let Outcome::Measured(one) = outcome(&machine, "mine", operation) else {
            panic!("{operation}: {}", said.out)
        };
        assert!(one.check.compared > 0 && one.check.wrong == 0, "{:?}", one.check);
        assert!(matches!(&one.code[..], [Code::Image { target, .. }] if target.starts_with("sm_")));
    }
    assert!(matches!(outcome(&machine, "portable", "gemm"), Outcome::Measured(_)));
    assert_eq!(machine.place.record("out").header.user_kernels.len(), 2);
}

#[test]
fn each_fault_on_a_gpu_has_its_outcome_and_spoils_no_other_case() {
    for (libraries, device, file) in [(&NVIDIA[..], "cuda", "own.cu"), (&AMD[..], "hip", "own.hip")]
    {
        let machine = machine(libraries);
        fs::write(machine.place.path(file), COPIES).expect("a text");
        // The suite stands in own.toml too.
        fs::create_dir(machine.place.path("mine")).expect("a folder");
        let file = format!("mine/{file}");
        fs::write(machine.place.path(&file), COPIES).expect("a text");
        let section = copies(&["right", "wrong", "beyond"], "");
        fs::write(machine.place.path("mine/own.toml"), section).expect("a section");
        let said = run(&machine, device, &["stream/*", "--kernel", &file]);
        assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
        for kernel in ["portable", "right"] {
            let measured = outcome(&machine, kernel, "stream");
            assert!(matches!(measured, Outcome::Measured(_)), "{device}: {measured:?}");
        }
        // The stub does its work as it is launched, and so refuses the launch.
        for (kernel, expected, words) in [
            ("wrong", Failure::WrongResult, "elements are wrong"),
            ("beyond", Failure::Launch, "illegal address"),
        ] {
            match outcome(&machine, kernel, "stream") {
                Outcome::Failed { failure, error, .. }
                    if failure == expected && error.contains(words) => {}
                other => panic!("{device}, {kernel}: {other:?}"),
            }
        }
        let record = machine.place.record("out");
        assert_eq!(record.outcomes.len(), record.header.plan.len());
    }
}

#[test]
fn an_image_is_given_to_the_driver_as_it_is() {
    let machine = machine(&NVIDIA);
    fs::create_dir(machine.place.path("mine")).expect("a folder");
    fs::write(machine.place.path("mine/a.cu"), COPIES).expect("a text");
    fs::write(machine.place.path("mine/a.toml"), copies(&["right"], "")).expect("a section");
    let said = run(&machine, "cuda", &["stream/*/right", "--kernel", "mine/a.cu"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    // What the stub's compiler made of the text is an image that the stub's driver loads.
    let kept = fs::read_dir(machine.place.path("cache/fizeau")).expect("a cache");
    let mut kept = kept.map(|entry| entry.expect("an entry").path());
    let image = kept.find(|path| path.to_string_lossy().contains("mine-a.cu"));
    let image = image.expect("the text's image");
    fs::copy(image, machine.place.path("mine/b.cubin")).expect("a copy");
    fs::write(machine.place.path("mine/b.toml"), copies(&["right"], "")).expect("a section");
    fs::remove_dir_all(machine.place.path("out")).expect("a record");
    let said = run(&machine, "cuda", &["stream/*/right", "--kernel", "mine/b.cubin"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let Outcome::Measured(one) = outcome(&machine, "right", "stream") else { panic!("measured") };
    let file = &machine.place.record("out").header.user_kernels[0];
    let is_file =
        |code: &Code| matches!(code, Code::Image { sha256, .. } if *sha256 == file.sha256);
    assert!(one.code.iter().any(is_file), "{:?}", one.code);
}

#[test]
fn what_a_gpu_cannot_run_is_refused_before_anything_is_measured() {
    let machine = machine(&NVIDIA);
    fs::create_dir(machine.place.path("mine")).expect("a folder");
    let refused = |file: &str, text: &str, section: &str, words: &str| {
        let path = machine.place.path(file);
        fs::write(&path, text).expect("a file");
        fs::write(path.with_extension("toml"), section).expect("a section");
        let said = run(&machine, "cuda", &["stream/*", "--kernel", file]);
        assert_eq!(said.code, Some(2), "{words}: {}{}", said.out, said.err);
        let told = said.err.replace('\n', " ");
        assert!(told.contains(words), "{words}: {told}");
        assert!(!machine.place.path("out").exists(), "{words}: nothing was measured");
    };
    let good = copies(&["right"], "");
    let other = good.replace("sm_80", "sm_120a").replace("ptx = \"compute_80\"\n", "");
    refused("mine/a.cu", COPIES, &other, "this device runs sm_90a, sm_90");
    refused("mine/a.cu", COPIES, &good.replace("copy_right", "copy_none"), "stream_copy_none");
    refused("mine/a.cu", "#include \"params.h\"\nKERNEL(1, 1) a() { b }", &good, "mine/a.cu");
    let greedy = copies(&["right"], ", shared = 300000");
    refused("mine/a.cu", COPIES, &greedy, "293 KiB of shared memory");
    // A parameter more than the section says, one less, and a struct of another length.
    let given = "where mine/a.toml has it given StreamParams (48 bytes)";
    let more = COPIES.replace("(const StreamParams p)", "(const StreamParams p, const u64 more)");
    refused("mine/a.cu", &more, &good, &format!("2 parameters of 48, 8 bytes, {given}"));
    let repeats = copies(&["right"], ", repeat = \"inside\", scratch = 64");
    let all = "(48 bytes), the repeat count (4 bytes), the address of the scratch memory (8 bytes)";
    refused("mine/a.cu", COPIES, &repeats, all);
    let short = COPIES.replace("(const StreamParams p)", "(const LatencyParams q)");
    let short = short.replace(") {\n", ") {\n  const StreamParams p{};\n");
    refused("mine/a.cu", &short, &good, &format!("one parameter of 8 bytes, {given}"));
    refused("mine/a.cubin", "\x7fELF and nothing else", &good, "the driver does not load it");
    refused("mine/a.so", "", &good, "targets, ptx: only of kernels for GPUs");
}

/// A product without tensor units, that takes more parameters than its section says and uses none.
const PRODUCT: &str = r#"
#include "params.h"
#include "sm90.h"

KERNEL(128, 1) gemm_plain(const GemmParams p, MAP a, const u64 x, const u64 y, const u64 z) {
  const bf16* left = static_cast<const bf16*>(p.a);
  const bf16* right = static_cast<const bf16*>(p.b);
  for (u32 i = block_index() * 128 + thread_index(); i < p.m * p.n; i += block_count() * 128) {
    f32 sum = 0;
    for (u32 k = 0; k < p.k; k++) {
      sum += widen(left[i / p.n * p.k + k]) * widen(right[k * p.n + i % p.n]);
    }
    static_cast<bf16*>(p.c)[i] = narrow(sum + x + y + z, bf16());
  }
}
"#;

#[test]
fn a_driver_that_tells_no_parameters_reads_zeros_behind_those_that_are_given() {
    let machine = machine(&NVIDIA);
    fs::write(machine.place.path("product.cu"), PRODUCT).expect("a text");
    let section = r#"targets = ["sm_90a"]
        kernels = [{ operation = "gemm/bf16", name = "plain", entry = "gemm_plain", threads = 128,
                     maps = [{ operand = "a", box = [64, 64], swizzle = 128 }] }]"#;
    fs::write(machine.place.path("product.toml"), section).expect("a section");
    let more = ["gemm/*/plain", "--kernel", "product.cu"];
    let said = run(&machine, "cuda", &more);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    let told = said.err.replace('\n', " ");
    assert!(told.contains("5 parameters of 64, 128, 8, 8, 8 bytes"), "{told}");
    assert!(told.contains("GemmParams (64 bytes), the tensor map of A (128 bytes)"), "{told}");
    // Not supported: as far as drivers before CUDA 12.4 have it.
    let said = run_on(&machine, "units=4,cuFuncGetParamInfo=801", "cuda", &more);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(matches!(outcome(&machine, "plain", "gemm"), Outcome::Measured(_)));
}

#[test]
fn a_kernel_with_too_many_registers_says_so_and_spoils_no_other_case() {
    // What the driver tells beforehand; what its refusal tells where it does not; and AMD's.
    let greedy = "units=4,registers=stream_copy_greedy:64";
    let silent = format!("{greedy},cuFuncGetAttribute=801");
    let files = [(&NVIDIA[..], "cuda", "own.cu"), (&AMD[..], "hip", "own.hip")];
    let [nvidia, amd] = files;
    for ((libraries, device, file), script, words) in [
        (nvidia, greedy, "leave a block at most 64 threads, and its launches have 128"),
        (nvidia, &silent, "more registers or memory than a unit has"),
        (amd, &silent, "more registers or memory than a unit has"),
    ] {
        let machine = machine(libraries);
        fs::create_dir(machine.place.path("mine")).expect("a folder");
        let file = format!("mine/{file}");
        let text = COPIES.replace("copy_beyond", "copy_greedy");
        fs::write(machine.place.path(&file), text).expect("a text");
        let section = copies(&["right", "greedy"], "");
        fs::write(machine.place.path("mine/own.toml"), section).expect("a section");
        let said = run_on(&machine, script, device, &["stream/*", "--kernel", &file]);
        assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
        for kernel in ["portable", "right"] {
            let measured = outcome(&machine, kernel, "stream");
            assert!(matches!(measured, Outcome::Measured(_)), "{device}: {measured:?}");
        }
        match outcome(&machine, "greedy", "stream") {
            Outcome::Failed { failure: Failure::Launch, error, .. } => {
                assert!(error.contains(words), "{error}");
                let remedy = ["fewer threads", "__launch_bounds__"];
                assert!(remedy.iter().all(|word| error.contains(word)), "{error}");
            }
            other => panic!("{script}: {other:?}"),
        }
    }
}
