//! GPUs that came later than this program: a compute capability and a target of AMD's that no table
//! has, and a part that no table names. What runs of fizeau is labelled, what does not is named,
//! and nothing of it counts as a failure.

use super::machine::{AMD, Machine, NVIDIA, assert_shows_no_number};
use crate::program::{Said, say};
use fizeau_domain::outcome::Outcome;
use serde_json::Value;

/// A vendor's stub with an architecture of the future.
struct Future {
    libraries: &'static [&'static str],
    script: &'static str,
    device: &'static str,
    target: &'static str,
    /// The vendor's library of products.
    library: &'static str,
    /// A kernel that is not planned there.
    left_out: &'static str,
    /// A word of what would bring more.
    newer: &'static str,
}

const FUTURES: [Future; 2] = [
    Future {
        libraries: &NVIDIA,
        script: "units=1,capability=130",
        device: "cuda:0",
        target: "sm_130",
        library: "cublaslt",
        left_out: "sm90_wgmma",
        newer: "A newer driver, NVRTC and cuBLASLt",
    },
    Future {
        libraries: &AMD,
        script: "units=1,gfx=gfx1350",
        device: "hip:0",
        target: "gfx1350",
        library: "hipblaslt",
        left_out: "cdna3_mfma",
        newer: "A newer ROCm",
    },
];

/// A few cases of each operation that both vendors' kernels have.
const CASES: [&str; 5] = [
    "stream/copy/512KiB/*",
    "latency/4KiB/*",
    "gemm/bf16/64x48x80/portable",
    "gemm/bf16/64x48x80/*blaslt",
    "attention/decode/bf16/*/portable",
];

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.out))
}

/// Texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Future {
    fn machine(&self) -> Machine {
        Machine::with(self.libraries)
    }

    fn say(&self, machine: &Machine, args: &[&str]) -> Said {
        say(&mut machine.fizeau(self.script, args))
    }

    #[track_caller]
    fn assert_is_told(&self, words: &str) {
        let told = [
            format!("architecture, {}, is in no table of fizeau", self.target),
            self.left_out.to_owned(),
            self.newer.to_owned(),
            "a newer fizeau".to_owned(),
            "--data".to_owned(),
        ];
        for part in told {
            assert!(words.contains(&part), "{part}: {words}");
        }
    }
}

#[test]
fn a_plan_labels_what_runs_and_names_what_does_not() {
    for future in &FUTURES {
        let machine = future.machine();
        let said = future.say(&machine, &["list", "--suite", "stub.toml", "--json"]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        let plan = json(&said);
        let rows = plan["cases"].as_array().expect("cases");
        let of = |kind: &str| rows.iter().filter(|row| row["kernel_is"] == kind).count();
        assert!(of("portable") > 20 && of("library") >= 2 && of("driver") > 0, "{rows:?}");
        assert_eq!(of("portable") + of("library") + of("driver"), rows.len());
        let operations: Vec<&str> =
            rows.iter().filter_map(|row| row["id"].as_str()?.split('/').next()).collect();
        for operation in ["stream", "latency", "compute", "gemm", "grouped", "attention", "launch"]
        {
            assert!(operations.contains(&operation), "{operation}: {operations:?}");
        }
        // Of a product the library goes first.
        let mut products = rows.iter().filter_map(|row| row["id"].as_str());
        let first = products.find(|id| id.starts_with("gemm/bf16/")).expect("a product");
        assert!(first.ends_with(future.library), "{first}");
        let notes = texts(&plan["notes"]);
        future.assert_is_told(notes[0]);
        assert!(notes[1].starts_with("No table names this GPU: its limits"), "{notes:?}");
        let text = future.say(&machine, &["list", "--suite", "stub.toml", "gemm"]).out;
        assert!(text.lines().next().is_some_and(|line| line.ends_with("kernel is")), "{text}");
        assert!(text.contains(&format!("- This GPU's architecture, {}", future.target)), "{text}");
    }
}

#[test]
fn a_run_passes_and_tells_no_share_of_a_limit() {
    for future in &FUTURES {
        let machine = future.machine();
        let (said, record) = machine.run_of(future.script, &CASES);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        assert_shows_no_number(&said.out);
        let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        future.assert_is_told(&words);
        // No mark of a failure or of a warning stands before it.
        let line = said.out.lines().find(|line| line.contains("This GPU's architecture"));
        assert!(line.is_some_and(|line| line.starts_with("- ")), "{line:?}");
        assert!(record.outcomes.iter().any(|one| one.measured().is_some()));
        for outcome in &record.outcomes {
            let is_fine = matches!(outcome, Outcome::Measured(_) | Outcome::Skipped { .. });
            assert!(is_fine, "{outcome:?}");
        }
        let environment = &record.header.environment;
        assert_eq!(environment.unknown_architecture.as_deref(), Some(future.target));
        let left_out = environment.kernels_left_out.join(" ");
        assert!(left_out.contains(future.left_out), "{left_out}");
        // Neither its part nor its memory is guessed.
        assert_eq!(record.header.part, None);
        assert_eq!(record.header.device.memory_mts, None);
        let report = json(&say(&mut machine.fizeau("", &["report", "out", "--json"])));
        assert_eq!(report["verdict"], "complete", "{report}");
        let notes = texts(&report["notes"]);
        assert!(notes.iter().any(|note| note.contains(future.target)), "{notes:?}");
        let warnings = texts(&report["warnings"]);
        assert!(!warnings.iter().any(|words| words.contains(future.target)), "{warnings:?}");
        let rows = report["tables"]["cases"].as_array().expect("cases");
        for row in rows {
            let id = row["case"].as_str().expect("an id");
            assert!(row["utilisation"].is_null(), "{row}");
            let tier = row["tier"].as_str().expect("a word");
            match id.ends_with(future.library) {
                true => assert_eq!(tier, "library, limit unknown", "{row}"),
                false => {
                    assert_eq!(tier, format!("portable, not made for {}", future.target), "{row}");
                    assert!(row["own_ceiling_share"].is_null(), "{row}");
                }
            }
        }
        let facts = report["facts"].as_object().expect("facts");
        assert!(facts.values().all(|fact| fact["share"].is_null()), "{facts:?}");
        let maps = report["heat_maps"].as_object().expect("maps");
        for heat in maps.values().flat_map(|map| map.as_array().expect("values")) {
            assert!(heat["share"].is_null(), "{heat}");
        }
    }
}

/// A compiler that does not know the target is no failure of the kernels.
#[test]
fn a_compiler_that_is_too_old_for_it_skips_with_what_would_help() {
    for (future, script) in [
        (&FUTURES[0], "units=1,capability=130,nvrtcCompileProgram=5"),
        (&FUTURES[1], "units=1,gfx=gfx1350,hiprtcCompileProgram=5"),
    ] {
        let machine = future.machine();
        let (said, record) = machine.run_of(script, &["stream/copy/512KiB/*"]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        let [Outcome::Skipped { reason, .. }] = &record.outcomes[..] else {
            panic!("{:?}", record.outcomes)
        };
        assert!(reason.contains(&format!("a compiler that knows {}", future.target)), "{reason}");
    }
}

#[test]
fn doctor_says_what_is_missing_and_fails_nothing() {
    for future in &FUTURES {
        let machine = future.machine();
        let said = future.say(&machine, &["doctor", "--json"]);
        let findings = json(&said);
        let of_device: Vec<&Value> = findings
            .as_array()
            .expect("findings")
            .iter()
            .filter(|one| one["what"] == future.device && one["state"] != "ok")
            .collect();
        let [target, part] = &of_device[..] else { panic!("{of_device:?}") };
        assert!([target, part].iter().all(|one| one["state"] == "absent"), "{of_device:?}");
        let words = |one: &Value| format!("{} {}", one["found"], one["remedy"]);
        future.assert_is_told(&words(target));
        assert!(words(part).contains("No table names this GPU"), "{part}");
    }
}

/// A part that no table names, of an architecture that is known: a file of it makes its peaks
/// known.
#[test]
fn an_unknown_part_of_a_known_architecture_is_told_in_the_plan_and_by_doctor() {
    let machine = Machine::with(&AMD);
    let plan = |args: &[&str]| {
        let list = ["list", "--suite", "stub.toml", "--json", "gemm"];
        json(&say(&mut machine.fizeau("gfx=gfx942", &[&list[..], args].concat())))
    };
    let told = plan(&[]);
    let [note] = &texts(&told["notes"])[..] else { panic!("{told}") };
    assert!(note.contains("No table names this GPU: its peak arithmetic is the most"), "{note}");
    assert!(told["cases"][0].get("kernel_is").is_none(), "{told}");
    let findings = json(&say(&mut machine.fizeau("gfx=gfx942", &["doctor", "--json"])));
    let is_told = |one: &Value| one["what"] == "hip:0" && one["state"] == "absent";
    assert!(findings.as_array().expect("findings").iter().any(is_told), "{findings}");
}

/// Peaks and a product of each type of tensor memory, and a stream.
const PRODUCTS: &str = r#"
[stream]
memory = ["copy"]
scaling = []
sweep = []
sweep_units = []
sweep_points_per_octave = 1

[compute]
dtypes = ["bf16", "tf32", "fp8", "nvfp4", "int8"]

[gemm]
dtypes = ["bf16", "tf32", "fp8", "nvfp4", "int8"]
shapes = [[131, 200, 160]]
"#;

/// Compute capability 10.7 is known: its own kernels are planned before older ones, and no note
/// says that the architecture is in no table.
#[test]
fn rubin_has_kernels_of_its_own() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(PRODUCTS);
    let plan = |suite: &str| -> Vec<String> {
        let args = ["list", "--suite", suite, "--json"];
        let said = say(&mut machine.fizeau("driver=13040,units=1,capability=107", &args));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        assert!(!said.out.contains("is in no table of fizeau"), "{}", said.out);
        let plan = json(&said);
        let rows = plan["cases"].as_array().expect("cases").iter();
        rows.filter_map(|row| Some(row["id"].as_str()?.to_owned())).collect()
    };
    let (products, all) = (plan("own.toml"), plan("stub.toml"));
    for dtype in ["bf16", "tf32", "fp8", "nvfp4", "int8"] {
        for operation in ["compute", "gemm"] {
            let start = format!("{operation}/{dtype}/");
            let first = products.iter().find(|id| id.starts_with(&start)).expect(&start);
            // Tensor memory multiplies no int8 there.
            let native = if dtype == "int8" { "mma" } else { "tcgen05" };
            assert!(first.contains(native), "{first}");
        }
    }
    assert!(!products.iter().any(|id| id.contains("int8") && id.contains("tcgen05")));
    for (plan, operation, native) in [
        (&all, "attention/prefill/bf16/", "sm100_tcgen05"),
        (&all, "attention/decode/bf16/", "sm100_mma"),
        (&products, "stream/copy/", "sm90_bulk"),
    ] {
        let mut of_it = plan.iter().filter(|id| id.starts_with(operation));
        assert!(of_it.any(|id| id.contains(native)), "{operation} {native}: {plan:#?}");
    }
}
