//! `fizeau accept` on a node of stub GPUs: a slow device is found and named, and every line says
//! stub.

use super::machine::{COPIES, Machine, NVIDIA};
use crate::{
    program::{Said, say},
    skipped,
};
use serde_json::Value;
use std::fs;

/// Caches of a stub are small: its one check is of its memory.
const PROFILE: &str = include_str!("node/profile.toml");

/// Checks of links to add to it.
const LINK_CHECKS: &str = include_str!("node/links.toml");

/// Whatever was judged of stubs follows from their records, every check of it, and says that they
/// are stubs.
pub fn follows(machine: &Machine) {
    let verdict = machine.place.json("out/verdict.json");
    let count = verdict["checks"].as_array().expect("checks").len();
    let said = say(&mut machine.fizeau("", &["verify", "out"])).ended(4);
    let words = format!("{count} checks decided again, all with the same result (stub)\n");
    assert!(said.out.contains(&words), "{words}: {}", said.out);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
}

fn accept(script: &str, more: &[&str]) -> (Said, Option<Value>) {
    let machine = Machine::with(&NVIDIA);
    machine.suite(COPIES);
    fs::write(machine.place.path("profile.toml"), PROFILE).expect("written");
    fs::create_dir(machine.place.path("root")).expect("made");
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--out", "out"];
    let devices = ["--device", "cuda:0", "--device", "cuda:1", "--device", "cuda:2", "--device"];
    let all: Vec<&str> =
        args.iter().chain(&devices).chain(&["cuda:3"]).chain(more).copied().collect();
    let said = say(&mut machine.fizeau(script, &all));
    if machine.place.path("out/manifest.json").exists() {
        follows(&machine);
    }
    let text = fs::read_to_string(machine.place.path("out/verdict.json")).ok();
    (said, text.map(|text| serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn a_slow_device_is_found_among_its_peers_and_named() {
    let script = "devices=4,gpu2.hbm=0.83,noise=0.002,seed=3";
    let (said, verdict) = accept(script, &["--budget", "10min"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let verdict = verdict.expect("a verdict");
    let checks = verdict["checks"].as_array().expect("checks");
    let of = |device: &str| {
        checks
            .iter()
            .find(|one| one["check"] == "memory copy" && one["device"] == device)
            .unwrap_or_else(|| panic!("{device}: {verdict}"))
    };
    let slow = of("cuda:2");
    assert_eq!((&slow["verdict"], &slow["cause"]), (&"fail".into(), &"memory_stack".into()));
    assert_eq!((&slow["stub"], &slow["value"]), (&true.into(), &Value::Null));
    assert!(slow["repeats"].as_u64() >= Some(12), "it was not measured anew: {slow}");
    for device in ["cuda:0", "cuda:1", "cuda:3"] {
        assert_eq!(of(device)["verdict"], "inconclusive", "peers pass nobody");
    }
    let named = "FAIL  cuda:2 (GPU-59595959, 0000:03:00.0)  memory copy";
    assert!(said.out.contains(named), "{}", said.out);
    assert_eq!(verdict["boards"]["cuda:2"]["pci"], "0000:03:00.0", "{}", verdict["boards"]);
    assert_eq!(verdict["action"], "RESET_GPU");
}

#[test]
fn a_device_that_is_missing_or_half_connected_fails_at_rest() {
    let (said, _) = accept("devices=4,lanes=8", &["--level", "passive"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("x8 of x16"), "{}", said.out);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let (said, _) = accept("devices=4", &["--level", "passive"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn what_other_jobs_do_fails_nothing_where_nodes_are_shared() {
    let at_rest = |script: &str, more: &[&str]| {
        let args = ["--level", "passive", "--one-line"];
        accept(script, &args.iter().chain(more).copied().collect::<Vec<_>>()).0
    };
    let said = at_rest("devices=4,processes=2", &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("FAIL cuda:0 processes: 2 processes use it"), "{}", said.out);
    let said = at_rest("devices=4,processes=2", &["--shared"]);
    assert_eq!((said.code, &said.out[..5]), (Some(0), "PASS "), "{}", said.err);
    let said = at_rest("devices=4,processes=2,lanes=8", &["--shared"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.ends_with("; 4 fail (stub)\n"), "{}", said.out);
    let said = at_rest("devices=4,ecc=0", &[]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("INCONCLUSIVE cuda:0 ECC: off"), "{}", said.out);
}

#[test]
fn serial_numbers_and_uuids_of_gpus_are_kept_and_go_where_they_are_redacted() {
    let machine = Machine::with(&NVIDIA);
    fs::create_dir_all(machine.place.path("root/proc/sys/kernel")).expect("made");
    let name = machine.place.path("root/proc/sys/kernel/hostname");
    fs::write(name, "rack-7_node\n").expect("written");
    let bundle = |out: &str, more: &[&str]| {
        let args = ["accept", "--root", "root", "--level", "passive", "--out", out];
        let all: Vec<&str> = args.iter().chain(more).copied().collect();
        let script = "devices=2,serial=ZX81-9b7f,fabric=3:0:7:9c";
        let mut command = machine.fizeau(script, &all);
        say(command.env("FIZEAU_REDACT_KEY", "0123456789abcdef"));
        let mut text = String::new();
        for entry in fs::read_dir(machine.place.path(out)).expect("a bundle").flatten() {
            text += &fs::read_to_string(entry.path()).unwrap_or_default();
        }
        text.to_lowercase()
    };
    let whole = bundle("whole", &[]);
    let redacted = bundle("redacted", &["--redact", "names,serials"]);
    for known in ["rack-7_node", "gpu-zx81-9b7f-0", "zx81-9b7f1", "9c9c9c9c-9c9c"] {
        assert!(whole.contains(known), "{known}: {whole}");
        assert!(!redacted.contains(known), "{known}: {redacted}");
    }
    assert!(!redacted.contains("zx81") && redacted.contains("serial_"), "{redacted}");
    // Places on the bus say nothing of who it is.
    assert!(redacted.contains("0000:01:00.0"), "{redacted}");
}

/// One repeat hangs for as long as this at most.
const DEADLINE: &str = "deadline = 2.0";

/// A node of four with a suite and a profile; `more` are the checks beside that of memory.
pub fn machine(suite: &str, more: &str) -> Machine {
    let machine = Machine::with(&NVIDIA);
    machine.suite(&format!("{COPIES}{suite}"));
    let path = machine.place.path("own.toml");
    let text = fs::read_to_string(&path).expect("the suite");
    assert!(text.contains("deadline = 20.0"), "{text}");
    // With time for ten samples also where the machine is busy.
    let text =
        text.replace("deadline = 20.0", DEADLINE).replace("time_max = 0.005", "time_max = 9.0");
    fs::write(&path, text).expect("written");
    fs::write(machine.place.path("profile.toml"), format!("{PROFILE}{more}")).expect("written");
    fs::create_dir(machine.place.path("root")).expect("made");
    machine
}

/// An acceptance of some of its GPUs, and the verdict.
fn judged(machine: &Machine, gpus: usize, script: &str, more: &[&str]) -> (Said, Value) {
    let args = ["accept", "--root", "root", "--profile", "profile.toml"];
    let devices = (0..gpus).flat_map(|gpu| ["--device".to_owned(), format!("cuda:{gpu}")]);
    let mut command = machine.fizeau(script, &args);
    let said = say(command.args(devices).args(more));
    let text = fs::read_to_string(machine.place.path("out/verdict.json"));
    let text = text.unwrap_or_else(|_| panic!("{}{}", said.out, said.err));
    follows(machine);
    (said, serde_json::from_str(&text).expect("JSON"))
}

/// The rows of a check on a device.
fn rows<'v>(verdict: &'v Value, check: &str, device: &str) -> Vec<&'v Value> {
    let all = verdict["checks"].as_array().expect("checks");
    all.iter().filter(|one| one["check"] == check && one["device"] == device).collect()
}

#[test]
fn lost_and_hung_devices_leave_the_others_verdicts_and_it_can_go_on() {
    let machine = machine("", "");
    let script = "devices=4,noise=0.002,seed=3/run";
    let broken = format!("{script},gpu1.lost@9,gpu2.hang@9");
    let (said, verdict) = judged(&machine, 4, &broken, &["--out", "out"]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    for device in ["cuda:1", "cuda:2"] {
        let row = rows(&verdict, "memory copy", device)[0];
        let told = (&row["verdict"], &row["cause"]);
        assert_eq!(told, (&"inconclusive".into(), &"device_lost".into()), "{row}");
    }
    for device in ["cuda:0", "cuda:3"] {
        let row = rows(&verdict, "memory copy", device)[0];
        assert!(row["repeats"].as_u64() >= Some(5) && row["cause"].is_null(), "{row}");
    }
    // The devices answer again.
    let (said, verdict) = judged(&machine, 4, script, &["--resume", "out"]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    for device in 0..4 {
        let row = rows(&verdict, "memory copy", &format!("cuda:{device}"))[0];
        assert!(row["repeats"].as_u64() >= Some(5) && row["cause"].is_null(), "{row}");
    }
}

const PRODUCTS: &str = r#"
[gemm]
dtypes = ["bf16"]
shapes = [[128, 128, 128]]
"#;

const AT_CLOCK: &str = r#"
[[check]]
name = "gemm bf16"
cases = ["gemm/bf16/*"]
resource = "arithmetic"
least_effect = 0.04
at_clock = true
"#;

/// Every sample of a hot device is throttled: that is its fault, and no reason to judge nothing.
#[test]
fn a_device_that_heat_holds_at_a_lower_clock_fails_by_its_clock() {
    let machine = machine(PRODUCTS, AT_CLOCK);
    let script = "devices=4,noise=0.002,seed=7/run,gpu3.clock=0.82,gpu3.reasons=64@1";
    let (said, verdict) = judged(&machine, 4, script, &["--out", "out"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let clock = rows(&verdict, "gemm bf16: clock", "cuda:3")[0];
    assert_eq!(
        (&clock["verdict"], &clock["cause"]),
        (&"fail".into(), &"thermal".into()),
        "{clock}"
    );
    // At its clock it works as the others do.
    assert_ne!(rows(&verdict, "gemm bf16", "cuda:3")[0]["verdict"], "fail");
}

const LINKS: &str = r#"
[transfer]
transfers = ["host_to_device_memcpy", "host_to_all_memcpy", "device_to_device_memcpy_read"]
sizes = [1048576]
host = ["pinned"]
"#;

const ALL_AT_ONCE: &str = r#"
[[check]]
name = "all at once"
cases = ["transfer/host_to_all_memcpy/*"]
resource = "host_link"
least_effect = 0.05
"#;

#[test]
fn slow_links_are_named_with_their_peers_and_half_a_slot_is_too() {
    let machine = machine(LINKS, &format!("{LINK_CHECKS}{ALL_AT_ONCE}"));
    let script = "devices=4,noise=0.002,seed=5/run,gpu3.pcie=0.5,link0-2=0.5";
    let (said, verdict) = judged(&machine, 4, script, &["--out", "out", "--budget", "10min"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let failed = |check: &str| {
        let all = verdict["checks"].as_array().expect("checks");
        let of = |one: &&Value| one["check"] == check && one["verdict"] == "fail";
        all.iter().filter(of).collect::<Vec<_>>()
    };
    let half = failed("host to device");
    assert_eq!((half.len(), &half[0]["device"]), (1, &"cuda:3".into()), "{half:?}");
    assert_eq!(half[0]["cause"], "half_width");
    // Each device's own link is measured while the others are busy: by the device alone.
    let all = rows(&verdict, "all at once", "cuda:0");
    assert_eq!(all.len(), 1, "{all:?}");
    let pairs = failed("peer read");
    let points: Vec<&str> = pairs.iter().filter_map(|one| one["point"].as_str()).collect();
    assert_eq!(points.len(), 2, "{points:?}");
    for one in pairs {
        assert_eq!(one["cause"], "peer_link", "{one}");
        assert!(one["words"].as_str().expect("words").contains("1 of 3 pairs are slow: "), "{one}");
        let point = one["point"].as_str().expect("a point");
        assert!(point.ends_with("/0-2") || point.ends_with("/2-0"), "{point}");
    }
}

const NODES: &str = r#"
[transfer]
transfers = ["host_to_device_memcpy", "host_to_all_memcpy"]
sizes = [1048576]
host = ["pinned"]
each_node = true
"#;

const BY_NODE: &str = r#"
[[check]]
name = "by node"
cases = ["transfer/host_to_device_memcpy/*"]
resource = "host_link"
least_effect = 0.05

[[check]]
name = "by node, all at once"
cases = ["transfer/host_to_all_memcpy/*"]
resource = "host_link"
least_effect = 0.05
"#;

/// A made-up host of some NUMA nodes, the CPUs dealt to them in turn as the stub does, and four
/// GPUs that the kernel says are on node 0.
fn host_of_nodes(machine: &Machine, root: &str, nodes: usize) {
    let write = |path: String, text: String| {
        let path = machine.place.path(&format!("{root}/sys/{path}"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    for list in ["online", "has_memory", "has_cpu"] {
        write(format!("devices/system/node/{list}"), format!("0-{}\n", nodes - 1));
    }
    for node in 0..nodes {
        let cpus = (node..256).step_by(nodes).map(|cpu| cpu.to_string());
        let cpus = cpus.collect::<Vec<_>>().join(",");
        write(format!("devices/system/node/node{node}/cpulist"), cpus);
        let far = (0..nodes).map(|other| if other == node { "10" } else { "21" });
        let far = far.collect::<Vec<_>>().join(" ");
        write(format!("devices/system/node/node{node}/distance"), far);
    }
    for gpu in 1..=4 {
        write(format!("bus/pci/devices/0000:0{gpu}:00.0/numa_node"), "0\n".into());
    }
}

#[test]
fn copies_from_each_numa_node_show_a_gpu_that_is_on_another_node_than_the_kernel_says() {
    let cpus = fizeau_device::host::cpus::allowed_cpus();
    if !(cpus.iter().any(|cpu| cpu % 2 == 0) && cpus.iter().any(|cpu| cpu % 2 == 1)) {
        return skipped::because("two CPUs", format!("CPUs {cpus:?} make no two NUMA nodes"));
    }
    let machine = machine(NODES, BY_NODE);
    host_of_nodes(&machine, "root", 2);
    let script = "devices=4,nodes=2,far=0.8,gpu3.node=1,gpu2.far=0.75,noise=0.002,seed=11/run";
    let (said, verdict) = judged(&machine, 4, script, &["--out", "out", "--budget", "10min"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let all = verdict["checks"].as_array().expect("checks");
    let failed: Vec<_> = all.iter().filter(|one| one["verdict"] == "fail").collect();
    let told = |one: &Value| {
        let of = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        (of("device"), of("point").rsplit("pinned/").next().unwrap_or_default().to_owned())
    };
    let mut found: Vec<_> = failed.iter().map(|one| told(one)).collect();
    found.sort();
    let row = |gpu: &str, point: &str| (gpu.to_owned(), point.to_owned());
    let expected = [
        row("cuda:2", "node1-d21"),
        row("cuda:2", "node1-d21/4d"),
        row("cuda:3", "node0-d10"),
        row("cuda:3", "node0-d10/4d"),
    ];
    assert_eq!(found, expected, "{verdict:#}");
    for one in failed {
        let is_misplaced = one["device"] == "cuda:3";
        let cause = if is_misplaced { "numa_node" } else { "unknown" };
        assert_eq!(one["cause"], cause, "{one}");
        let words = one["words"].as_str().expect("words");
        let place = "faster from memory of NUMA node 1 than from node 0";
        assert_eq!(words.contains(place), is_misplaced, "{words}");
    }
    // A row for each node and way of the others too, and a word on the node of the one alone.
    for (gpu, count) in [("cuda:0", 0), ("cuda:3", 1)] {
        assert_eq!(rows(&verdict, "by node", gpu).len(), 2);
        assert_eq!(rows(&verdict, "NUMA node", gpu).len(), count, "{gpu}");
    }
}

#[test]
fn a_host_of_one_node_has_one_row_and_nodes_without_cpus_are_not_the_hosts() {
    let machine = machine(NODES, BY_NODE);
    host_of_nodes(&machine, "one", 1);
    let ids = |root: &str| {
        let args = ["list", "--json", "--suite", "own.toml", "--device", "cuda:0", "--root", root];
        let plan = say(&mut machine.fizeau("devices=2", &args)).json();
        let all = plan["cases"].as_array().expect("cases").iter();
        let ids = all.filter_map(|one| one["id"].as_str().map(str::to_owned));
        ids.filter(|id| id.contains("/pinned")).collect::<Vec<_>>()
    };
    let of = |node: &str| {
        let of = |way: &str, end: &str| format!("transfer/{way}/1MiB/pinned{node}{end}/ce");
        let one = format!("transfer/host_to_device_memcpy/1MiB/pinned{node}/sm");
        [of("host_to_device_memcpy", ""), one, of("host_to_all_memcpy", "/2d")]
    };
    let found = |root: &str| ids(root).into_iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(found("one"), of("/node0-d10").into_iter().collect());
    // The memory of a GPU, as Grace shows it.
    fs::write(machine.place.path("one/sys/devices/system/node/has_memory"), "0-1").expect("it");
    assert_eq!(found("one"), of("/node0-d10").into_iter().collect());
    // A kernel without NUMA nodes.
    assert!(found("root").iter().all(|id| !id.contains("/node")), "{:?}", found("root"));
}

const LASTING: &str = r#"
[[check]]
name = "lasting"
cases = ["stream/copy/4MiB/*"]
resource = "sustained"
least_effect = 0.05
level = "full"
"#;

#[test]
fn a_soak_goes_on_until_its_budget_ends_with_series_and_verdicts_on_steadiness() {
    let machine = machine("", LASTING);
    let script = "devices=4,noise=0.002,seed=7/run";
    let soak = ["--level", "soak", "--budget", "10s", "--out", "out"];
    let (said, verdict) = judged(&machine, 1, script, &soak);
    assert_eq!(said.code, Some(4), "what has no floor passes nothing: {}{}", said.out, said.err);
    assert_eq!(verdict["complete"], true, "{}", said.err);
    let series = fs::read_to_string(machine.place.path("out/series.csv")).expect("a series");
    assert!(series.lines().skip(1).all(|line| line.contains(",true,lasting,")), "{series}");
    let rounds = series.lines().filter(|line| line.contains(",cuda:0,")).count();
    assert!(rounds > 5, "it ended once all was decided: {series}");
    // Thirds of fewer repeats say nothing: on a busy machine there are not more.
    let steady = rows(&verdict, "lasting: steady", "cuda:0");
    assert_eq!(steady.is_empty(), rounds < 9, "{rounds}: {steady:?}");
    assert!(steady.iter().all(|one| one["verdict"] == "pass"), "{steady:?}");
    let page = fs::read_to_string(machine.place.path("out/verdict.html")).expect("a page");
    assert!(page.contains("In the course of time") && page.contains("(stub)"));
}

/// Stands in for perftest's: a server ends at once, a client prints the table of perftest; the port
/// `mlx5_2` has half of its rate.
const PERFTEST: &str = r#"#!/bin/sh
folder=$(dirname "$0")
case "$*" in
*localhost*) ;;
*) echo "$2" >"$folder/server"; exit ;;
esac
rate=39$(($$ % 10))
case "$2 $(cat "$folder/server")" in *mlx5_2*) rate=19$(($$ % 10)) ;; esac
echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
echo " 65536      5000             0.00             $rate.41             0.748457"
"#;

#[test]
fn each_port_is_measured_by_perftest_and_the_slow_one_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = machine("", "");
    for port in 0..4 {
        let folder = machine.place.path(&format!("root/sys/class/infiniband/mlx5_{port}/ports/1"));
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("state"), "4: ACTIVE\n").expect("written");
        fs::write(folder.join("rate"), "400 Gb/sec (4X NDR)\n").expect("written");
    }
    let bin = machine.place.path("bin");
    fs::create_dir(&bin).expect("made");
    fs::write(bin.join("ib_write_bw"), PERFTEST).expect("written");
    let runs = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bin.join("ib_write_bw"), runs).expect("it may run");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--level", "full"];
    let mut command = machine.fizeau("devices=4,noise=0.002,seed=9/run", &args);
    command.args(["--device", "cuda:0", "--out", "out"]).env("PATH", path);
    say(&mut command).ended(1);
    follows(&machine);
    let verdict = machine.place.json("out/verdict.json");
    for port in 0..4 {
        let rows = rows(&verdict, "network bandwidth", &format!("mlx5_{port}/1"));
        let expected = if port == 2 { "fail" } else { "pass" };
        assert_eq!(rows[0]["verdict"], expected, "{rows:?}");
        assert_eq!(rows[0]["value"]["unit"], "B/s");
    }
    let slow = rows(&verdict, "network bandwidth", "mlx5_2/1")[0];
    assert_eq!(slow["cause"], "network_interface");
}
