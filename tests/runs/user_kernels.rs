//! Kernels that a user brings to the host: built by a C compiler outside of the repository, and
//! whatever becomes of them.

use crate::program::{MEASURE, Place, Said, say};
use fizeau_domain::outcome::{Failure, Outcome};
use std::{fs, path::Path, process::Command};

/// Small products, by every kernel of the host.
const PRODUCTS: &str = "[gemm]\ndtypes = [\"f32\"]\nshapes = [[64, 48, 80]]\n";

/// Products in C: one that is right, and some that are not.
const SOURCE: &str = r#"
#include "fizeau.h"
#include <signal.h>
#include <stddef.h>

static int product(const struct GemmParams* p, u32 block, u32 blocks, u64 repeat, f32 bias) {
  const f32 *a = p->a, *b = p->b;
  f32* c = p->c;
  while (repeat-- > 0)
    for (u32 i = block; i < p->m; i += blocks)
      for (u32 j = 0; j < p->n; j++) {
        f32 sum = bias;
        for (u32 x = 0; x < p->k; x++) sum += a[(size_t)i * p->k + x] * b[(size_t)x * p->n + j];
        c[(size_t)i * p->n + j] = sum;
      }
  return 0;
}
#define ARGUMENTS const struct GemmParams *p, u32 block, u32 blocks, u64 repeat
int right(ARGUMENTS) { return product(p, block, blocks, repeat, 0); }
int wrong(ARGUMENTS) { return product(p, block, blocks, repeat, 1); }
int hangs(ARGUMENTS) { for (volatile int i = 0;; i++) {} }
int crashes(ARGUMENTS) { *(volatile int*)8 = 1; return 0; }
int stops(ARGUMENTS) { raise(SIGSTOP); return 0; }
int refuses(ARGUMENTS) { return p->m > 1; }
int idles(ARGUMENTS) { return 0; }
"#;

fn place() -> Place {
    let place = Place::new();
    let measure = MEASURE.replace("deadline = 30.0", "deadline = 1.0");
    let head = "name = \"products\"\ndescription = \"Small products\"\n";
    fs::write(place.path("products.toml"), format!("{head}{measure}{PRODUCTS}")).expect("a suite");
    fs::copy("examples/your-kernel/fizeau.h", place.path("fizeau.h")).expect("the header");
    fs::write(place.path("products.c"), SOURCE).expect("a text");
    place
}

/// Builds a library as docs/your-kernel.md has it.
fn build(place: &Place, source: &str, library: &str) {
    let args = ["-O3", "-shared", "-fPIC", source, "-o", library];
    let built = Command::new("cc").args(args).current_dir(place.path("")).status();
    assert!(built.expect("a C compiler").success(), "{source}");
}

/// A section of products, each a name and an entry.
fn section(kernels: &[(&str, &str)]) -> String {
    let row = |(name, entry): &(&str, &str)| {
        format!("    {{ operation = \"gemm/f32\", name = \"{name}\", entry = \"{entry}\" }},\n")
    };
    format!("kernels = [\n{}]\n", kernels.iter().map(row).collect::<String>())
}

fn run(place: &Place, more: &[&str]) -> Said {
    let args = ["run", "--device", "host", "--suite", "products.toml", "--out", "out"];
    say(&mut place.fizeau(args.iter().chain(more)))
}

/// What became of the case of a kernel.
fn outcome(place: &Place, kernel: &str) -> Outcome {
    let outcomes = place.record("out").outcomes;
    let found = outcomes.into_iter().find(|outcome| outcome.case().kernel.0 == kernel);
    found.unwrap_or_else(|| panic!("no case of {kernel}"))
}

#[test]
fn the_example_is_measured_beside_our_own_and_the_record_has_its_hash() {
    let place = place();
    let example = Path::new("examples/your-kernel");
    for file in ["stream.c", "stream.toml"] {
        fs::copy(example.join(file), place.path(file)).expect("the example");
    }
    build(&place, "stream.c", "stream.so");
    let streams = "[stream]\nmemory = []\nscaling = []\nsweep = []\nlast_cache = [\"copy\", \
                   \"triad\"]\nsweep_units = [\"one\"]\nsweep_points_per_octave = 1\n";
    let head = "name = \"streams\"\ndescription = \"Streams of the last cache\"\n";
    fs::write(place.path("products.toml"), format!("{head}{MEASURE}{streams}")).expect("a suite");
    let said = run(&place, &["--kernel", "stream.so"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let record = place.record("out");
    let measured = |kernel: &str| {
        let all = record.outcomes.iter().filter(|one| one.case().kernel.0 == kernel);
        all.filter(|one| one.measured().is_some()).count()
    };
    assert_eq!((measured("mine"), measured("plain")), (2, 2), "{}", said.out);
    let [file] = &record.header.user_kernels[..] else { panic!("one file") };
    assert_eq!((file.names.join(","), file.path.as_str()), ("mine".into(), "stream.so"));
    let sum = Command::new("sha256sum").arg(place.path("stream.so")).output().expect("coreutils");
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    assert!(sum.starts_with(&file.sha256), "{sum}");
    assert!(said.out.contains("mine, of stream.so"), "{}", said.out);
    // The last screen answers what was asked: the own figure beside Fizeau's.
    assert!(said.out.contains("Your kernels beside Fizeau's fastest"), "{}", said.out);
    let own: Vec<&str> = said
        .out
        .lines()
        .filter(|line| line.starts_with("stream/") && line.contains(" mine "))
        .collect();
    assert_eq!(own.len(), 2, "{}", said.out);
    assert!(own.iter().all(|line| line.matches("B/s").count() == 2), "{own:?}");
    assert!(record.header.command.join(" ").contains("--kernel stream.so"));
    // Nothing but the run is left.
    assert!(!place.path("out/user-kernels").exists());
}

#[test]
fn each_fault_has_its_outcome_and_spoils_no_other_case() {
    let place = place();
    build(&place, "products.c", "products.so");
    let names = ["right", "wrong", "hangs", "crashes", "stops", "refuses", "idles"];
    let kernels = names.map(|entry| (entry, entry));
    fs::create_dir(place.path("mine")).expect("a folder");
    fs::rename(place.path("products.so"), place.path("mine/products.so")).expect("moved");
    fs::write(place.path("mine/products.toml"), section(&kernels)).expect("a section");
    let said = run(&place, &["--kernel", "mine/products.so"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(matches!(outcome(&place, "right"), Outcome::Measured(_)));
    assert!(matches!(outcome(&place, "portable"), Outcome::Measured(_)));
    // Whose results are wrong reads what they should have been.
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("computes: GEMM: C = A B with A of 64 x 80"), "{words}");
    let failed = |kernel: &str| match outcome(&place, kernel) {
        Outcome::Failed { failure, error, .. } => (failure, error),
        other => panic!("{kernel}: {other:?}"),
    };
    for kernel in ["wrong", "idles"] {
        let (failure, error) = failed(kernel);
        assert!(failure == Failure::WrongResult && error.contains("wrong"), "{kernel}: {error}");
    }
    let (failure, error) = failed("hangs");
    assert!(failure == Failure::Hang && error.contains("kernel hangs"), "{error}");
    let (failure, error) = failed("crashes");
    assert!(failure == Failure::Other && error.contains("SIGSEGV"), "{error}");
    let (failure, error) = failed("stops");
    assert!(failure == Failure::Other && error.contains("SIGSTOP"), "{error}");
    match outcome(&place, "refuses") {
        Outcome::Skipped { reason, .. } => assert!(reason.contains("returned 1"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let record = place.record("out");
    assert_eq!(record.outcomes.len(), record.header.plan.len());
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is() {
    let place = place();
    build(&place, "products.c", "a.so");
    let source = "void __attribute__((constructor)) begin(void) { __builtin_trap(); }\n";
    fs::write(place.path("trap.c"), source).expect("a text");
    build(&place, "trap.c", "trap.so");
    let source =
        "void __attribute__((constructor)) begin(void) { for (volatile int i = 0;;) i++; }\n";
    fs::write(place.path("stuck.c"), source).expect("a text");
    build(&place, "stuck.c", "stuck.so");
    let source =
        "#include <unistd.h>\nvoid __attribute__((constructor)) begin(void) { _exit(0); }\n";
    fs::write(place.path("ends.c"), source).expect("a text");
    build(&place, "ends.c", "ends.so");
    fs::write(place.path("text.so"), "no library").expect("a file");
    let good = section(&[("mine", "right")]);
    let refused = |kernel: &str, section: &str, words: &str| {
        let beside = place.path(kernel).with_extension("toml");
        fs::write(&beside, section).expect("a section");
        let said = run(&place, &["--kernel", kernel]);
        let code = if kernel == "absent.so" { 3 } else { 2 };
        assert_eq!(said.code, Some(code), "{kernel}: {}{}", said.out, said.err);
        let told = said.err.replace('\n', " ");
        assert!(told.contains(words), "{kernel}: {words}: {told}");
        assert!(!place.path("out").exists(), "{kernel}: nothing was measured");
        fs::remove_file(beside).expect("it was there");
    };
    refused("a.so", &good.replace("entry", "entri"), "unknown field `entri`");
    refused("a.so", &good.replace("right", "nowhere"), "exports no symbol \"nowhere\"");
    refused("a.so", &good.replace("f32", "f33"), "\"gemm/f33\" is no operation");
    refused("a.so", &good.replace("f32", "fp4"), "has no case for mine of gemm/fp4");
    refused("a.so", &good.replace("mine", "portable"), "choose another name");
    refused("a.so", &good.replace("right\"", "right\", threads = 128"), "threads: only of");
    refused("trap.so", &good, "ended by SIG");
    refused("ends.so", &good, "ended the process that loaded it");
    refused("stuck.so", &good, "was not loaded within the suite's deadline");
    refused("text.so", &good, "text.so: ");
    refused("absent.so", &good, "absent.so: ");
    fs::write(place.path("b.cu"), "").expect("a file");
    let gpu = good.replace("kernels", "targets = [\"sm_90a\"]\nkernels");
    let gpu = gpu.replace("right\"", "right\", threads = 128");
    refused("b.cu", &gpu, "choose a GPU by --device");
    let said = run(&place, &["--kernel", "a.so"]);
    let least = "kernels = [{ operation = \"stream/copy\", name = \"mine\", entry = \"my_copy\" }]";
    assert!(said.code == Some(3) && said.err.contains("a.toml"), "{}", said.err);
    assert!(said.err.contains(least), "what the file has to hold: {}", said.err);
    let said = run(&place, &["--kernel", "nothere.so"]);
    assert!(said.code == Some(3) && said.err.contains("nothere.so"), "{}", said.err);
}

#[test]
fn a_run_continues_with_the_same_files_alone() {
    let place = place();
    build(&place, "products.c", "a.so");
    let good = section(&[("mine", "right")]);
    fs::write(place.path("a.toml"), &good).expect("a section");
    let cases = ["gemm/*/{portable,mine}", "--kernel", "a.so"];
    let said = run(&place, &cases);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    // As if it had been killed before its last case had an outcome.
    let record = fs::read_to_string(place.path("out/record.jsonl")).expect("a record");
    let lines: Vec<&str> = record.lines().collect();
    let kept = lines[..lines.len() - 2].join("\n") + "\n";
    fs::write(place.path("out/record.jsonl"), kept).expect("a record");
    fs::write(place.path("a.toml"), format!("{good}# changed\n")).expect("a section");
    let said = say(&mut place.fizeau(["run", "--resume", "out"])).ended(3);
    assert!(said.err.contains("users' kernels"), "{}", said.err);
    fs::write(place.path("a.toml"), good).expect("a section");
    say(&mut place.fizeau(["run", "--resume", "out"])).ended(0);
    assert!(matches!(outcome(&place, "mine"), Outcome::Measured(_)));
}

#[test]
fn plan_and_pairs_take_the_same_files() {
    let place = place();
    build(&place, "products.c", "a.so");
    build(&place, "products.c", "b.so");
    fs::write(place.path("a.toml"), section(&[("mine", "right")])).expect("a section");
    fs::write(place.path("b.toml"), section(&[("mine", "wrong")])).expect("a section");
    let args = ["list", "--device", "host", "--suite", "products.toml", "--kernel", "a.so"];
    let said = say(&mut place.fizeau(args));
    assert!(said.out.contains("gemm/f32/64x48x80/mine"), "{}{}", said.out, said.err);
    let args = ["ab", "--device", "host", "--suite", "products.toml", "--seed", "1", "--out", "ab"];
    let kernels = ["--kernel", "a.so", "--kernel", "b.so"];
    let said = say(&mut place.fizeau(args.iter().chain(&kernels))).ended(1);
    // Which is faster, tests/runs/ab.rs has on devices without noise.
    assert!(said.out.contains("kernel mine of b.so"), "{}", said.out);
    assert!(said.out.contains("elements are wrong"), "{}", said.out);
}

#[test]
fn a_case_of_a_users_kernel_is_explained_where_its_file_is_named() {
    let place = place();
    build(&place, "products.c", "products.so");
    fs::create_dir(place.path("my kernels")).expect("a folder");
    fs::rename(place.path("products.so"), place.path("my kernels/a.so")).expect("a library");
    fs::write(place.path("my kernels/a.toml"), section(&[("right", "right")])).expect("a section");
    let case = "gemm/f32/64x48x80/right";
    let args = ["explain", case, "--device", "host", "--suite", "products.toml"];
    let said = say(&mut place.fizeau(args.iter().chain(&["--kernel", "my kernels/a.so"]))).ended(0);
    let told = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Kernel: right, a kernel of yours: my kernels/a.so, launched as my kernels/a.toml says.",
        "--suite products.toml --device host --kernel 'my kernels/a.so'",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let said = say(&mut place.fizeau(args));
    let told = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(told.ends_with("a case of a kernel of your own: add --kernel FILE"), "{told}");
}
