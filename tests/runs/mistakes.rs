//! Mistakes that people make on a command line: what each is told, and the exit code. A message
//! names what is wrong and what to write instead; none shows an error number of the operating
//! system.

use crate::program::Place;
use std::{fmt::Write as _, fs, os::unix::fs::symlink, process::Stdio};

/// Command lines, by what is wrong with them. `empty` is a directory without files, `text` a file
/// of one word, `zero` one of no bytes, `obj.json` an empty object, `nonode.csv` labels
/// without a column of nodes, `loop` a link to itself;
/// `nothere` does not exist. Words in single quotes are one; what stands before the command is of
/// the environment.
const MISTAKES: &[(&str, &[&str])] = &[
    (
        "commands",
        &[
            "benchmark",
            "rnu",
            "help lod",
            "info",
            "gpus",
            "diff a b",
            "acept",
            "devcies",
            "repot",
            "survye",
            "collect",
            "check",
            "version",
            "load srve",
            "fleet suvey x",
            "profile lern x",
            "zzzzzzzz",
            "--verison",
            "measure",
            "bench",
            "serve",
            "device",
            "validate",
            "help benchmark",
        ],
    ),
    (
        "options",
        &[
            "project llama-3.1-8b --tp 8 --on h200",
            "project llama-3.1-8b --on h200 --against h100",
            "project --model llama-3.1-8b --on h200",
            "project llama-3.1-8b --gpu h200",
            "project llama-3.1-8b --on h200 --batch-size 8",
            "claim 4.8TB/s --gpu h200",
            "load http://localhost:1 --qps 4",
            "load http://localhost:1 --request-rate=4",
            "load http://localhost:1 --max-concurrency 4",
            "load --base-url http://localhost:1",
            "load http://localhost:1 --num-prompts 8",
            "report text --html",
            "report text --csv",
            "report -o out.html",
            "run --threads 4",
            "run --size 1G",
            "run --iterations 10",
            "run --gpu 0",
            "run -q",
            "run --verbose",
            "run --resuem out",
            "run --dtype bf16",
            "ab --programm x",
            "accept --lvel quick",
            "accept --suite quick",
            "accept --gpus 8",
            "compare a --against b",
            "doctor --fix",
            "devices h200",
            "list --filter gemm",
            "fleet survey x --lables y",
            "shapes llama-3.1-8b --tensor-parallel 8",
            "localise --form x",
            "run --cuda 0",
            "run --format json",
            "run --time 10",
            "compare text text --tolerance 5%",
            "load http://localhost:1 --rps 4",
            "load http://localhost:1 --users 8",
            "load http://localhost:1 --prompt-len 512",
            "project llama-3.1-8b --on h200 --input-len 512",
            "project llama-3.1-8b --on h200 --bs 8",
            "project llama-3.1-8b --on h200 --ep 8",
            "claim 4.8TB/s --device h200",
            "accept --time 60s",
            "accept --gpu 0",
            "fleet survey x --output y.html",
            "report text --pdf",
        ],
    ),
    (
        "values",
        &[
            "accept --level quik",
            "accept --budget 10",
            "accept --budget ten-minutes",
            "load http://localhost:1 --slo ttft=500",
            "load http://localhost:1 --slo foo=3s",
            "load http://localhost:1 --slo ttft",
            "load http://localhost:1 --slo ttft=1s,ttft=2s",
            "load http://localhost:1 --slo ttft=-1s",
            "load http://localhost:1 --concurrency 1-128",
            "load http://localhost:1 --concurrency 128..1",
            "load http://localhost:1 --concurrency 0",
            "load http://localhost:1 --concurrency 1.5",
            "load http://localhost:1 --rate 4/s",
            "load http://localhost:1 --ready 100ms",
            "load http://localhost:1 --duration 10",
            "load localhost:1 --ready 100ms",
            "load ftp://localhost:1",
            "load",
            "compare a",
            "compare text text --least-effect 5",
            "compare text text --least-effect 5%",
            "ab --least-effect 2 --program a --program b",
            "run --suite quik",
            "run --suite nothere.toml",
            "run --device gpu",
            "run --device cuda:x",
            "run --color yes",
            "run --progress never",
            "report --format pdf text",
            "project llama-3.1-8b --on h200 --layout 8",
            "project llama-3.1-8b --on h200 --layout tp3",
            "project llama-3.1-8b --on h200 --layout tp0",
            "project llama-3.1-8b --on h200 --concurrency many",
            "project llama-3.1-8b --on h200 --precision fp7",
            "project llama-3.1-8b --on h200 --isl -5",
            "project llama-3.1-8b",
            "project --on h200",
            "claim",
            "claim fast",
            "claim 0TB/s --on h200",
            "launch",
            "launch -n 0 -- list",
            "launch -n 2 list",
            "fleet",
            "fleet survey",
            "fleet simulate --nodes 0",
            "profile",
            "completions tcsh",
            "run --out",
            "run --ranks 0",
            "run --ranks all",
            "claim 4.8TB/s --on h300",
            "claim 4.8TB/s",
            "claim 4.8TB/s --on h200 --fail-on imposible",
            "project llama-4-9b --on h200",
            "project llama-3.1-8b --on 8xh200",
            "project llama-3.1-8b --on h200 --slo tpot=20",
            "project llama-3.1-8b --on h200 --price 2$",
            "load http://localhost:1 --isl 10-5",
            "load http://localhost:1 --arrivals uniform",
            "load http://localhost:1 --endpoint completion",
            "load http://localhost:1 --rate 1..",
            "accept --profile h100",
            "ab --env-a FOO",
            "ab --device cuda:0",
            "reproduce",
            "report text --out x.png",
        ],
    ),
    (
        "files",
        &[
            "compare nothere text",
            "compare text empty",
            "report nothere",
            "report empty",
            "report text",
            "run --resume nothere",
            "run --resume empty",
            "run --resume text",
            "run --kernel nothere.so",
            "run --kernel text",
            "run --kernel empty",
            "list --data nothere",
            "list --data text",
            "accept --out text",
            "accept --profile nothere.toml",
            "accept --profile text",
            "accept --vs nothere",
            "verify nothere",
            "verify text",
            "verify empty",
            "profile learn nothere",
            "profile learn empty",
            "profile learn text",
            "fleet survey nothere",
            "fleet survey empty",
            "fleet survey text",
            "fleet drift nothere",
            "discover --from nothere",
            "discover --from text",
            "localise --from nothere",
            "localise --from text",
            "reproduce nothere",
            "reproduce nothere.toml",
            "claim --from nothere.toml",
            "claim --from text",
            "load report nothere",
            "load report text",
            "load report empty",
            "project nothere.json --on h200",
            "project text --on h200",
            "load http://localhost:1 --trace nothere",
            "load http://localhost:1 --api-key-file nothere",
            "project llama-3.1-8b --on empty",
            "report zero",
            "report obj.json",
            "report loop",
            "compare zero text",
            "verify zero",
            "list --data empty",
            "list --suite zero",
            "accept --profile obj.json",
            "accept --resume nothere",
            "accept --resume empty",
            "profile learn obj.json",
            "load report obj.json",
            "load report zero",
            "project obj.json --on h200",
            "project zero --on h200",
            "fleet survey loop",
            "fleet survey zero",
            "fleet survey empty --labels nothere",
            "fleet simulate nothere.toml",
            "fleet simulate text",
            "fleet retest empty",
            "claim --from zero",
            "load http://localhost:1 --rate 1 --api-key-file empty",
        ],
    ),
    (
        "words too many",
        &[
            "claim 4.8 TB/s --on h200",
            "load http://localhost:1 http://localhost:2 --rate 1",
            "accept host",
            "doctor x",
            "devices --parts h200",
            "verify empty empty",
            "explain gemm stream",
            "project llama-3.1-8b llama-3.1-70b --on h200",
            "run --suite quick,full",
            "accept --profile h200-sxm,derived-host",
            "claim 4.8TB/s --on h200,mi300x",
            "run --device cuda:0,cuda:1",
            "load http://localhost:1 --concurrency 8 --rate 4",
            "load ab http://localhost:1",
        ],
    ),
    (
        "numbers and names",
        &[
            "load http://localhost:1 --rate -1",
            "load http://localhost:1 --rate 1 --duration -5s",
            "compare text text --least-effect -1",
            "project llama-3.1-8b --on h200 --isl 1k",
            "project llama-3.1-8b --on h200 --memory-share 90",
            "project llama-3.1-8b --on h200 --layout TP",
            "run --device 0",
            "run --device GPU1",
            "claim 4.8TB/s --on ''",
            "claim '' --on h200",
            "claim '-5 TB/s' --on h200",
            "claim 4800 --on h200",
            "claim '4.8 GB' --on h200",
            "launch -n 1 -- list",
            "launch -n 99999 -- list",
            "load http://",
            "load http://host:99999",
            "load http://localhost:1 --rate 1 --header bad",
            "load http://localhost:1 --rate 1 --set temperature",
            "load ab http://localhost:1 http://localhost:1 --rounds 1",
            "load serve --port 99999",
            "load serve --slots 0",
            "load serve --fault 600/2",
            "discover --budget 0s",
            "discover --gemm 1",
            "completions",
        ],
    ),
    (
        "newer commands",
        &[
            "run --suite recurrence",
            "run --suite fused/norm",
            "list --suite linear-attention",
            "fleet simulate --print-recipe --set faulty=0",
            "fleet retest --retest plan --out o",
            "fleet retest empty --out o --since yesterday",
            "fleet retest empty --out o --across vbois",
            "fleet retest empty --out o --stratum rack",
            "fleet retest text --out o",
            "fleet retest nothere --out o",
            "fleet survey empty --retest nothere",
            "fleet survey empty --format html",
            "fleet survey --store empty",
            "fleet collect empty",
            "fleet collect empty text nothere zero --store s",
            "fleet collect - --store s",
            "fleet collect 'x*.tar' --store s",
            "fleet collect empty --to s",
            "fleet collect empty --store s --challenge ''",
            "fleet collect empty --store s --challenge 'two words'",
            "fleet collect empty --store s --nonce x",
            "fleet collect empty --store s --allowed-signers nothere",
            "fleet collect empty --store s --allowed-signers empty",
            "fleet collect empty --store s --allowed-signers text",
            "fleet collect empty --store s --allowed-signers zero",
            "fleet drift",
            "fleet drift empty",
            "fleet drift zero",
            "fleet drift empty --since 2026-13-01",
            "fleet drift empty --since 2026-02-01 --until 2026-01-01",
            "fleet drift empty --until 2026-02-30",
            "fleet drift empty --false-discoveries 0",
            "fleet drift empty --false-discoveries 5",
            "fleet drift empty --html out.html",
            "fleet drift empty --window 7d",
            "fleet drift empty --labels nonode.csv",
            "fleet drift empty --dependence none",
            "fleet drift empty --expected zero",
            "accept --dcgm nothere",
            "accept --dcgm text",
            "accept --dcgm empty",
            "accept --dcgm zero",
            "accept --dcgm obj.json",
            "accept --dcgm-file text",
            "accept --device host --level passive --out o --sign text",
            "accept --device host --level passive --sign text",
            "accept --device host --redact all",
            "accept --device host --redact names",
            "accept --device host --redact names --redact-key text",
            "accept --device host --plan --resume empty",
            "accept --device host --across",
            "accept --device cpu",
            "verify empty --challenge x",
            "verify empty --node x --since tomorrow",
            "load http://localhost:1 --concurrency 4 --search 4 --slo ttft=1s",
            "load http://localhost:1 --rate 1 --search 4",
            "load http://localhost:1 --trace text",
            "load http://localhost:1 --rate 1 --workload rag",
            "load http://localhost:1 --rate 1 --isl 900-100",
            "load http://localhost:1 --rate 1 --max-failed 5",
            "load http://localhost:1 --rate 1 --slo-share 99",
            "load http://localhost:1 --rate 1 --target 100",
            "load http://localhost:1 --rate 1 --deadlines connect=5",
            "load http://localhost:1 --rate 1 --deadlines read=5s",
            "load http://localhost:1 --rate 1 --metric queue=x",
            "load http://localhost:1 --rate 1 --header Authorization=Bearer",
            "load http://localhost:1 --rate 1 --arrivals gamma",
            "load http://localhost:1/v1/embeddings --rate 1",
            "load http://localhost:1/v1/models --rate 1",
            "load http://user:pass@localhost:1 --rate 1",
            "load https://localhost:1 --rate 1 --ca text",
            "load ab http://localhost:1 http://localhost:2 --rate 1,2",
            "load report text --model llama-3.1-8b",
            "load serve --service 20ms",
            "load serve --service fixed=20",
            "load serve --pause 2s",
            "load serve --address localhost",
            "load self-test http://localhost:1",
        ],
    ),
    (
        "environment",
        &[
            "FIZEAU_DATA=nothere list",
            "FIZEAU_DATA=text list",
            "FIZEAU_PROGRESS=loud list",
            "FIZEAU_KERNELS_FROM=nothere list",
            "RANK=x WORLD_SIZE=2 run --out out",
            "PMI_RANK=x PMI_SIZE=2 run --out out",
            "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=5 run --out out",
        ],
    ),
];

/// The variables and the words of a line.
fn parts(line: &str) -> (Vec<(String, String)>, Vec<String>) {
    // What stands between quotes is every second piece.
    let mut words: Vec<String> = Vec::new();
    for (at, piece) in line.split('\'').enumerate() {
        match at % 2 {
            1 => words.push(piece.to_owned()),
            _ => words.extend(piece.split_whitespace().map(str::to_owned)),
        }
    }
    let is_variable = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_uppercase() || c == b'_')
        })
    };
    let first = words.iter().take_while(|word| is_variable(word)).count();
    let variables = words.drain(..first).filter_map(|word| {
        word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    });
    (variables.collect(), words)
}

#[test]
fn mistakes_are_told_what_to_write_instead() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).expect("a directory");
    fs::write(place.path("text"), "hello\n").expect("a file");
    fs::write(place.path("zero"), "").expect("a file");
    fs::write(place.path("obj.json"), "{}\n").expect("a file");
    fs::write(place.path("nonode.csv"), "rack\nr1\n").expect("a file");
    symlink("loop", place.path("loop")).expect("a link");
    let mut all = String::new();
    for (of, lines) in MISTAKES {
        let _ = writeln!(all, "# {of}");
        for line in *lines {
            let (variables, words) = parts(line);
            let mut command = place.fizeau(words);
            command.envs(variables).stdin(Stdio::null());
            let output = command.output().expect("the program starts");
            let code = output.status.code().expect("an exit code");
            let words = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            let words = words.concat();
            assert!(!words.contains("os error"), "{line}: {words}");
            assert!(code != 0 && code != 101, "{line}: {code}, {words}");
            let said: Vec<&str> = words.lines().filter(|line| !is_usage(line)).take(4).collect();
            let _ = writeln!(all, "\n$ fizeau {line}   [{code}]");
            said.iter().for_each(|said| all += &format!("{}\n", said.trim_end()));
        }
    }
    insta::assert_snapshot!("mistakes", all);
}

/// What clap adds to each of its errors, and empty lines.
fn is_usage(line: &str) -> bool {
    line.trim().is_empty()
        || line.starts_with("Usage:")
        || line.starts_with("       fizeau")
        || line.starts_with("For more information")
}

/// What a selector leaves ids at, and which suites have what it wants: by how many cases depends on
/// the machine.
#[test]
fn a_selector_that_selects_nothing_is_told_what_there_is_and_where() {
    let place = Place::new();
    for (selector, words) in [
        ("recurrence/kda", &["(below recurrence: ", "gated_delta", "--suite full has "][..]),
        ("recurrence/gated-delta", &["(did you mean recurrence/gated_delta?)"]),
        ("recurent", &["recurrence"]),
        ("matmul/f32", &["(did you mean gemm/f32?)"]),
        ("fused/rmsnorm", &["(did you mean fused/norm?)"]),
        ("stream/read/3KiB/1u", &["(below stream/read: "]),
        ("nothing-like-it", &["selects none of"]),
    ] {
        let output = place.fizeau(["list", "--device", "host", selector]).output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{selector}: {said}");
        assert!(words.iter().all(|one| said.contains(one)), "{selector}: {said}");
        assert!(!said.contains("/avx512"), "{selector}: whole ids are too long: {said}");
    }
}
