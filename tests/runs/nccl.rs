//! Ranks with a GPU each, by a stub NCCL on a stub driver: their bytes really go from one to the
//! other, so that what is verified is real. No number comes from it.

use crate::gpus::{LATER, Machine, NCCL, TOKEN, TWO, UNALIGNED, assert_all_right, built, ends};
use crate::program::{self, Said, said, say};
use fizeau_domain::{
    case::Point,
    outcome::{Failure, Outcome},
};
use std::{
    fs,
    net::TcpListener,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

#[test]
fn threads_with_a_gpu_each_run_the_whole_sweep() {
    for (ranks, dtype) in [(2, "bf16"), (4, "f32")] {
        let machine = Machine::new();
        machine.sweep(dtype, 60.0, ["256KiB", UNALIGNED]);
        let count = ranks.to_string();
        let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks"];
        let args = [args.as_slice(), &[&count]].concat();
        let said = say(&mut machine.fizeau("devices=4", "", &args));
        assert_eq!(said.code, Some(0), "{ranks}: {} {}", said.out, said.err);
        let record = machine.record();
        assert_all_right(&record, ranks);
        let environment = &record.header.environment;
        assert_eq!(environment.ranks.len(), ranks as usize);
        assert!(environment.ranks[1].contains("cuda:1"), "{:?}", environment.ranks);
        assert!(environment.libraries.iter().any(|library| library == "NCCL 2.28.3"));
        assert!(said.out.contains("stub"), "{}", said.out);
    }
}

#[test]
fn every_element_type_is_right() {
    for dtype in ["f64", "f16", "fp8", "int8"] {
        let machine = Machine::new();
        machine.sweep(dtype, 60.0, ["1KiB", UNALIGNED]);
        let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "3"];
        let said = say(&mut machine.fizeau("devices=3", "", &args));
        assert_eq!(said.code, Some(0), "{dtype}: {} {}", said.out, said.err);
        assert_all_right(&machine.record(), 3);
    }
    // Older libraries say which they do not know, and the rest of the run goes on.
    let machine = Machine::new();
    machine.sweep("fp8", 60.0, ["1KiB", UNALIGNED]);
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    say(&mut machine.fizeau("devices=2", "version=22304", &args));
    for outcome in &machine.record().outcomes {
        let Outcome::Skipped { reason, .. } = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("does not offer fp8, which newer ones do"), "{reason}");
    }
}

#[test]
fn processes_meet_in_a_folder_and_run_the_whole_sweep() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["1KiB", UNALIGNED]);
    for said in ends(machine.start(&["devices=3"; 3], "")) {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    assert_all_right(&machine.record(), 3);
}

#[test]
fn processes_meet_over_tcp() {
    let machine = Machine::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let start = |rank: u32| {
        let mut command = machine.rank([rank, 2], "devices=2", "");
        command.env("FIZEAU_RENDEZVOUS", format!("tcp:{address}"));
        command.spawn().expect("it starts")
    };
    for said in ends(vec![start(0), start(1)]) {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    assert_all_right(&machine.record(), 2);
}

#[test]
fn launch_starts_a_rank_for_each_gpu_without_any_mpi() {
    let machine = Machine::new();
    let args = ["launch", "-n", "2", "--", "run", "collective", "--suite", "ranks.toml"];
    let args = [args.as_slice(), &["--out", "out"]].concat();
    say(&mut machine.fizeau("devices=2", "", &args)).ended(0);
    assert_all_right(&machine.record(), 2);
}

/// What `launch` starts for two GPUs.
const LAUNCH: [&str; 9] =
    ["launch", "-n", "2", "--", "run", "collective", "--out", "out", "--suite"];

#[test]
fn launch_hides_the_step_around_it_from_its_ranks() {
    let machine = Machine::new();
    let mut command = machine.fizeau("devices=2", "", &[&LAUNCH[..], &["ranks.toml"]].concat());
    for (rank, size) in
        [("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")]
    {
        command.env(rank, "0").env(size, "1");
    }
    say(&mut command).ended(0);
    assert_all_right(&machine.record(), 2);
}

#[test]
fn launch_names_a_rank_that_a_signal_ended() {
    let machine = Machine::new();
    let script = format!("1:kill@{LATER}");
    let said =
        say(&mut machine.fizeau("devices=2", &script, &[&LAUNCH[..], &["ranks.toml"]].concat()));
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("fizeau: rank 1 was ended (signal"), "{}", said.err);
}

#[test]
fn launch_hands_a_request_to_end_on_to_its_ranks() {
    ["-TERM", "-INT", "-HUP"].into_iter().for_each(ranks_end_where_launch_is_asked_to);
}

fn ranks_end_where_launch_is_asked_to(signal: &str) {
    let machine = Machine::new();
    let args = [&LAUNCH[..], &["collectives"]].concat();
    let launch = machine.fizeau("devices=2", "", &args);
    let child = program::ignoring_nothing(&launch).spawn().expect("it starts");
    // Ranks that have met: two outcomes are kept.
    let kept =
        || fs::read_to_string(machine.place.file("out")).map_or(0, |text| text.lines().count());
    while kept() < 3 {
        thread::sleep(Duration::from_millis(20));
    }
    let asked = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(asked.expect("there is a kill").success());
    let said = said(child.wait_with_output().expect("it ends")).ended(130);
    assert!(said.err.contains("interrupted"), "{}", said.err);
    let answers = said.err.matches("asked to stop after this case").count();
    assert_eq!(answers, 1, "the launcher answers, and no rank does: {}", said.err);
}

#[test]
fn launch_counts_ranks_on_over_several_nodes() {
    let machine = Machine::new();
    let start = |node: &str| {
        let args = ["launch", "-n", "1", "--nodes", "2", "--", "run", "collective"];
        let args = [args.as_slice(), &["--suite", "ranks.toml", "--out", "out"]].concat();
        // Both nodes are this one: each has its own device by what it may see of them.
        let driver = if node == "0" { "devices=1" } else { "devices=1,uuid=9" };
        let mut command = machine.fizeau(driver, "", &args);
        let meeting = format!("file:{}", machine.place.path("").display());
        command.env("FIZEAU_RENDEZVOUS", meeting).env("FIZEAU_TOKEN", TOKEN);
        command.env("JOB_COMPLETION_INDEX", node).spawn().expect("it starts")
    };
    for said in ends(vec![start("0"), start("1")]) {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    assert_all_right(&machine.record(), 2);
}

/// A copy of the stub NCCL in which symbols have other names.
fn without_symbols(machine: &Machine, symbols: &[&str]) {
    let mut bytes = fs::read(built(NCCL)).expect("the stub");
    for symbol in symbols {
        let name: Vec<u8> = [b"\0", symbol.as_bytes(), b"\0"].concat();
        let places: Vec<usize> =
            (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(&name)).collect();
        assert!(!places.is_empty(), "the stub has no {symbol}");
        for at in places {
            bytes[at + 1] = b'_';
        }
    }
    let path = machine.place.path("lib/libnccl.so.2");
    fs::remove_file(&path).expect("the link");
    fs::write(path, bytes).expect("the copy");
}

#[test]
fn an_older_library_makes_the_same_of_sends_and_receives() {
    let machine = Machine::new();
    let newer = ["ncclAlltoAll", "ncclGather", "ncclScatter", "ncclCommInitRankConfig"];
    without_symbols(&machine, &newer);
    for said in ends(machine.start(&TWO, "version=21304")) {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    assert_all_right(&machine.record(), 2);
}

/// The lines in which the stub library wrote down what it was asked for.
fn asked(machine: &Machine) -> Vec<String> {
    let text = fs::read_to_string(machine.place.path("asked.log")).expect("it wrote");
    text.lines().map(str::to_owned).collect()
}

/// Two threads with further axes of the sweep, and the log of what the library was asked for.
fn varied(machine: &Machine, nccl: &str, axes: &str) -> Said {
    let path = machine.place.path("ranks.toml");
    let text = fs::read_to_string(&path).expect("the suite");
    fs::write(path, format!("{text}{axes}\n")).expect("the suite is written");
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    let mut command = machine.fizeau("devices=2", nccl, &args);
    say(command.env("FIZEAU_STUB_NCCL_LOG", machine.place.path("asked.log")))
}

#[test]
fn buffers_are_made_known_to_the_library_as_the_suite_asks() {
    for (kind, word) in [("registered", "Registered"), ("symmetric", "Symmetric")] {
        let machine = Machine::new();
        machine.sweep("f32", 60.0, ["1KiB", UNALIGNED]);
        let said = varied(&machine, "", &format!("buffers = [\"{kind}\"]"));
        assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
        let record = machine.record();
        assert_eq!(record.outcomes.len(), record.header.plan.len());
        for outcome in &record.outcomes {
            let Outcome::Measured(measurement) = outcome else { panic!("{outcome:?}") };
            let id = measurement.case.to_string();
            assert!(measurement.check.passed() && id.ends_with(&format!("-{kind}/nccl")), "{id}");
            // Parts of one's own begin elsewhere on each rank.
            assert!(kind == "registered" || !id.contains("all_gather/f32/188B/2r/in_place"));
        }
        // What ranks agree by is not f32 (7), and lies in plain buffers.
        let lines = asked(&machine);
        assert!(lines.iter().any(|line| line.contains("data=8 Plain enqueued")), "{lines:?}");
        let (known, others): (Vec<_>, Vec<_>) = lines
            .iter()
            .filter(|line| line.contains("data=7"))
            .partition(|line| line.contains(word));
        assert!(known.len() > record.outcomes.len() && others.is_empty(), "{others:?}");
    }
}

#[test]
fn a_library_without_registration_is_said_to_have_none() {
    for (symbol, kinds) in
        [("ncclCommWindowRegister", "\"symmetric\""), ("ncclMemAlloc", "\"registered\"")]
    {
        let machine = Machine::new();
        machine.sweep("f32", 60.0, ["256", ""]);
        without_symbols(&machine, &[symbol]);
        let said = varied(&machine, "version=21801", &format!("buffers = [\"plain\", {kinds}]"));
        assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
        let record = machine.record();
        let mut skipped = 0;
        for outcome in &record.outcomes {
            let of_library = outcome.case().to_string().contains('-');
            if let Outcome::Skipped { reason, .. } = outcome {
                assert!(
                    reason.contains(&format!("the library 2.18.1 has no {symbol}")),
                    "{reason}"
                );
                skipped += 1;
            }
            assert_eq!(of_library, outcome.measured().is_none(), "{outcome:?}");
        }
        assert!(skipped > 10, "{skipped}");
    }
}

#[test]
fn collectives_in_graphs_are_timed_one_by_one_and_right() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["1KiB", ""]);
    let axes = "ways = [\"queued\", \"graph\"]\ngraph = [5]\nbuffers = [\"plain\", \"registered\"]";
    let said = varied(&machine, "", axes);
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    let record = machine.record();
    assert_all_right(&record, 2);
    let medians = |of: &str| -> Vec<f64> {
        let measured = record.outcomes.iter().filter_map(Outcome::measured);
        let of = measured.filter(|one| one.case.to_string().ends_with(of));
        of.map(|one| one.summary.median.0).collect()
    };
    let (graphs, others) = (medians("place-graph5/nccl"), medians("place/nccl"));
    assert_eq!(graphs.len() * 4, record.outcomes.len());
    // The stub's time is made up of its work, and of the other thread's: for one of five it is
    // about that for one alone, and not five times as much.
    let mut ratios: Vec<f64> = graphs.iter().zip(others).map(|(one, other)| one / other).collect();
    ratios.sort_by(f64::total_cmp);
    assert!((0.2..3.0).contains(&ratios[ratios.len() / 2]), "{ratios:?}");
    for measurement in record.outcomes.iter().filter_map(Outcome::measured) {
        let Point::Collective(point) = measurement.case.point else { panic!() };
        let granule = point.graph.max(1);
        assert!(measurement.samples.batch.is_multiple_of(granule), "{}", measurement.case);
    }
    let lines = asked(&machine);
    let captured = lines.iter().filter(|line| line.ends_with("captured")).count();
    // A graph of five and one of one, on each of two ranks.
    assert_eq!(captured, graphs.len() * 2 * 2 * 6);
    let text = say(&mut machine.fizeau("", "", &["report", "out", "--format", "nccl-tests"])).out;
    assert!(text.contains("kernel nccl, registered buffers, graphs of 5"), "{text}");
}

#[test]
fn a_driver_without_graphs_skips_them_with_its_reason() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["256", ""]);
    let path = machine.place.path("ranks.toml");
    let text = fs::read_to_string(&path).expect("the suite");
    fs::write(path, text + "ways = [\"graph\"]\ngraph = [2]\n").expect("written");
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    // CUDA_ERROR_NOT_SUPPORTED.
    let driver = "devices=2,cuStreamBeginCapture_v2=801@1";
    let said = say(&mut machine.fizeau(driver, "", &args));
    let record = machine.record();
    assert_eq!(record.outcomes.len(), record.header.plan.len(), "{} {}", said.out, said.err);
    for outcome in &record.outcomes {
        let Outcome::Skipped { reason, .. } = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("needs capture of streams"), "{reason}");
    }
}

#[test]
fn wrong_data_is_a_failed_case_on_every_rank() {
    let machine = Machine::new();
    let ended = ends(machine.start(&TWO, &format!("1:wrong@{LATER}")));
    for said in &ended {
        assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    }
    let record = machine.record();
    assert_eq!(record.outcomes.len(), record.header.plan.len());
    let wrong = |outcome: &&Outcome| {
        matches!(outcome, Outcome::Failed { failure: Failure::WrongResult, .. })
    };
    assert!(record.outcomes.iter().filter(wrong).count() > 10, "{:?}", record.outcomes);
}

/// What is wrong before the first collective is one line, and no record is begun.
#[track_caller]
fn assert_refused(machine: &Machine, children: Vec<Child>, line: &str) {
    let ended = ends(children);
    assert_eq!(ended[0].code, Some(3), "{} {}", ended[0].out, ended[0].err);
    let said = ended[0].err.trim();
    assert!(said.starts_with("fizeau: preflight: ") && said.lines().count() == 1, "{said}");
    assert!(said.contains(line), "{said}");
    for said in &ended[1..] {
        assert_eq!((said.code, said.err.as_str()), (Some(3), ""), "{}", said.out);
    }
    assert!(!machine.place.file("out").exists());
}

#[test]
fn what_is_missing_or_differs_is_named_before_the_first_collective() {
    let machine = Machine::new();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host has a name");
    let host = host.trim();
    let line = format!("rank 1 on {host} (cuda:1) has NCCL 2.27.3, and the others have NCCL 2.28");
    assert_refused(&machine, machine.start(&["devices=3"; 3], "1:version=22703"), &line);
    let line = format!("rank 0 on {host} (cuda:0) and rank 1 have one GPU between them");
    assert_refused(&machine, machine.start(&["devices=1"; 2], ""), &line);
    let line = format!("rank 1 on {host} (cuda:1): ");
    let drivers = ["devices=2", "devices=2,cuDevicePrimaryCtxRetain=2@1"];
    assert_refused(&machine, machine.start(&drivers, ""), &line);
    fs::remove_file(machine.place.path("lib/libnccl.so.2")).expect("the link");
    let line = format!("rank 0 on {host} (cuda:0): libnccl.so.2 not found: install NCCL");
    assert_refused(&machine, machine.start(&TWO, ""), &line);
}

#[test]
fn a_degraded_link_is_one_line_and_the_run_goes_on() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["256", ""]);
    let healthy = "devices=3,nvlinks=18";
    let ended = ends(machine.start(&[healthy, "devices=3,nvlinks=17,lanes=8", healthy], ""));
    for said in &ended {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    let warnings = machine.record().header.environment.warnings;
    for end in [
        "(cuda:1) has links up: 17, and the others have 18",
        "(cuda:1) has PCIe lanes: 8, and the others have 16",
    ] {
        let lines =
            warnings.iter().filter(|line| line.starts_with("rank 1 ") && line.ends_with(end));
        assert_eq!(lines.count(), 1, "{end}: {warnings:?}");
    }
}

#[test]
fn several_ranks_on_one_gpu_have_to_be_allowed() {
    let machine = Machine::new();
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    let refused = say(&mut machine.fizeau("devices=1", "", &args)).ended(3);
    assert!(refused.err.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"), "{}", refused.err);
    let mut allowed = machine.fizeau("devices=1", "", &args);
    say(allowed.env("NCCL_MULTI_RANK_GPU_ENABLE", "1")).ended(0);
    let record = machine.record();
    assert_all_right(&record, 2);
    let warnings = &record.header.environment.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("no link")), "{warnings:?}");
}

#[test]
fn without_a_token_nobody_meets() {
    let machine = Machine::new();
    let mut rank = machine.rank([0, 2], "devices=2", "");
    let said = say(rank.env("FIZEAU_TOKEN", "1234")).ended(3);
    assert!(said.err.contains("FIZEAU_TOKEN has to be"), "{}", said.err);
}

#[test]
fn the_plan_of_many_gpus_is_listed_with_its_time_and_what_does_not_fit() {
    let machine = Machine::new();
    let args = ["list", "collective", "--suite", "collectives", "--ranks", "2", "--json"];
    let listing =
        say(&mut machine.fizeau("devices=2,memory=1073741824", "", &args)).ended(0).json();
    let cases = listing["cases"].as_array().expect("cases");
    let of = |id: &str| cases.iter().find(|case| case["id"] == id).expect(id);
    let large = of("collective/all_reduce/f32/16GiB/2r/out_of_place/nccl");
    assert!(large["skipped"].as_str().expect("a reason").contains("of memory"), "{large}");
    let small = of("collective/all_reduce/f32/4KiB/2r/out_of_place/nccl");
    assert!(small["skipped"].is_null(), "{small}");
    assert!(small["estimated_seconds"].as_f64() > Some(0.0), "{small}");
    assert!(listing["estimated_seconds"].as_f64() > Some(0.0));
}

#[test]
fn a_plan_has_no_more_ranks_than_a_run() {
    let machine = Machine::new();
    for verb in ["list", "run"] {
        let said =
            say(&mut machine.fizeau("devices=2", "", &[verb, "collective", "--ranks", "2000"]));
        assert_eq!(said.code, Some(2), "{verb}: {} {}", said.out, said.err);
        assert!(said.err.contains("--ranks 2000: a world has 1 to 1024 ranks"), "{}", said.err);
    }
}

#[test]
fn a_world_beyond_reason_is_refused_before_anything_is_kept_for_it() {
    let machine = Machine::new();
    let mut rank = machine.rank([0, 2], "devices=2", "");
    rank.env("WORLD_SIZE", "4000000000").env("FIZEAU_RENDEZVOUS", "tcp:127.0.0.1:4000");
    let said = say(&mut rank).ended(3);
    assert!(said.err.contains("a world of 4000000000 ranks; there are 65536 at"), "{}", said.err);
}

#[test]
fn a_run_goes_on_with_every_rank_on_its_own_gpu() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["1KiB", ""]);
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    say(&mut machine.fizeau("devices=2", "", &args)).ended(0);
    let whole = machine.record();
    // As if it had been killed in its middle.
    let cut = || {
        let text = machine.place.text("out");
        let lines: Vec<&str> = text.lines().take(1 + whole.outcomes.len() / 2).collect();
        fs::write(machine.place.file("out"), lines.join("\n") + "\n").expect("it is cut");
    };
    let resume = ["run", "--resume", "out"];
    let launched = [&["launch", "-n", "2", "--"][..], &resume[..]].concat();
    for args in [&resume[..], &launched[..]] {
        cut();
        let said = say(&mut machine.fizeau("devices=2", "", args));
        assert_eq!(said.code, Some(0), "{args:?}: {} {}", said.out, said.err);
        let record = machine.record();
        assert_all_right(&record, 2);
        let ranks = &record.header.environment.ranks;
        assert!(ranks[0].contains(", cuda:0 (") && ranks[1].contains(", cuda:1 ("), "{ranks:?}");
    }
}

#[test]
fn the_place_of_a_job_counts_only_among_several_nodes() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["256", ""]);
    let args = ["launch", "-n", "2", "--", "run", "collective", "--suite", "ranks.toml"];
    let args = [args.as_slice(), &["--out", "out"]].concat();
    say(machine.fizeau("devices=2", "", &args).env("JOB_COMPLETION_INDEX", "1")).ended(0);
    assert_all_right(&machine.record(), 2);
    let args = ["launch", "-n", "2", "--node", "1", "--", "run", "collective"];
    say(&mut machine.fizeau("devices=2", "", &args)).ended(2);
}

#[test]
fn a_rank_that_waits_for_the_others_ends_by_one_interruption() {
    let machine = Machine::new();
    let rank = machine.rank([0, 2], "devices=2", "");
    let child = program::ignoring_nothing(&rank).spawn().expect("it starts");
    // Its name does not tell the token.
    let waits = || {
        let entries = fs::read_dir(machine.place.path(".")).expect("a directory").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).find(|name| {
            assert!(!name.contains(TOKEN), "{name}");
            name.starts_with("fizeau-") && name.ends_with(".0")
        })
    };
    while waits().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(asked.expect("there is a kill").success());
    let said = said(child.wait_with_output().expect("it ends")).ended(130);
    assert!(said.err.contains("interrupted while the ranks met"), "{}", said.err);
    assert_eq!(waits(), None, "nothing stays");
}

#[test]
fn what_was_received_is_compared_on_the_device() {
    let machine = Machine::new();
    machine.sweep("bf16", 60.0, ["256KiB", UNALIGNED]);
    let log = machine.place.path("driver.log");
    let start = |rank: u32| {
        let mut command = machine.rank([rank, 2], "devices=2", &format!("1:wrong@{LATER}"));
        // Rank 1 receives what is wrong.
        command.env("FIZEAU_STUB_LOG", if rank == 1 { log.clone() } else { "/dev/null".into() });
        command.spawn().expect("it starts")
    };
    for said in ends(vec![start(0), start(1)]) {
        assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    }
    let text = fs::read_to_string(log).expect("the driver wrote");
    let launches = text.lines().filter(|line| line.contains("collective_check_bf16")).count();
    assert!(launches > 0, "{text}");
    let record = machine.record();
    let (mut wrong, mut right) = (0, 0);
    for outcome in &record.outcomes {
        match outcome {
            Outcome::Failed { failure: Failure::WrongResult, .. } => wrong += 1,
            Outcome::Measured(measurement) => {
                right += 1;
                assert!(measurement.check.passed() && measurement.check.compared > 0);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(wrong > 0 && right > 0, "{wrong} {right}");
}

/// The launcher kills its ranks then, and blames none of them for it.
#[test]
fn launch_that_is_asked_twice_ends_at_once_and_blames_nobody() {
    let machine = Machine::new();
    let args = [&LAUNCH[..], &["collectives"]].concat();
    let child = machine.fizeau("devices=2", "", &args).spawn().expect("it starts");
    let launcher = child.id().to_string();
    let send = |signal: &str, process: &str| {
        let sent = Command::new("kill").args([signal, process]).status();
        assert!(sent.expect("there is a kill").success(), "{signal} {process}");
    };
    let kept = || fs::read_to_string(machine.place.file("out")).unwrap_or_default();
    while kept().lines().count() < 3 {
        thread::sleep(Duration::from_millis(20));
    }
    // One that is stopped cannot end in order, and the other one waits for it.
    let ranks = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let ranks = ranks.expect("it has started ranks");
    send("-STOP", ranks.split_whitespace().nth(1).expect("a second one"));
    let start = Instant::now();
    send("-TERM", &launcher);
    thread::sleep(Duration::from_millis(1300));
    send("-TERM", &launcher);
    let said = said(child.wait_with_output().expect("it ends")).ended(130);
    assert!(!said.err.contains("rank "), "{}", said.err);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
