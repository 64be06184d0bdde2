//! States of eight of NVIDIA's GPUs, as NVML and the kernel tell them.

use super::{Fails, Healthy, Node, Planted, assert_all};

/// A log with a fault of the GPU at 0000:03:00.0, which is cuda:2.
const LOG: &str = "dev/kmsg";

/// An HGX H200 whose fabric manager runs.
fn node() -> Node {
    let file = |name: &str, text| (name.to_owned(), text);
    let switch = |at: u32| format!("sys/bus/pci/devices/0000:e{at}:00.0");
    let switches = (1..=4).flat_map(|at| {
        [
            (format!("{}/class", switch(at)), "0x068000\n"),
            (format!("{}/vendor", switch(at)), "0x10de\n"),
        ]
    });
    let files = [
        file("proc/2/comm", "kthreadd\n"),
        file("proc/50/comm", "nv-fabricmanage\n"),
        file(LOG, "6,1,2,-;nothing\n"),
    ];
    Node {
        backend: "cuda",
        libraries: &["libcuda.so.1", "libnvidia-ml.so.1"],
        script: "devices=8,nvlinks=18,processes=0,fabric=3:0:0:0:1aa:1",
        files: files.into_iter().chain(switches).collect(),
        expected: &[
            "gpus = 8",
            "pcie_lanes = 16",
            "pcie_generation = 5",
            "peer_links = 18",
            "ecc = true",
            "nvlink_domain = \"node\"",
        ],
    }
}

/// Without the switches and the fabric manager of [`node`].
fn bare(mut state: Planted) -> Planted {
    for at in 1..=4 {
        state = state.file(format!("sys/bus/pci/devices/0000:e{at}:00.0/class"), "0x060000\n");
    }
    state.file("proc/50/comm", "-")
}

const HOT: &str = "clock reasons";
const DOMAIN: &str = "NVLink domain";
const SUPPORT: &str = "CONTACT_SUPPORT";
const RESET: &str = "RESET_GPU";
const RESTART: &str = "RESTART";
const AGAIN: &str = "RESTART_APP";

/// A rack's node: GB200, four GPUs would do as well as eight.
const RACK: &[&str] = &["nvlink_domain = \"rack\""];

#[test]
fn faults_of_a_board_are_named_with_what_to_do() {
    let one = Planted::new;
    let states = [
        one(
            "half of the lanes",
            "gpu3.lanes=8",
            Fails(&[("cuda:3", "PCI Express lanes", SUPPORT)]),
        ),
        one("a quarter", "gpu0.lanes=4", Fails(&[("cuda:0", "PCI Express lanes", SUPPORT)])),
        one(
            "a generation less",
            "gpu3.generation_most=4",
            Fails(&[("cuda:3", "PCI Express generation", SUPPORT)]),
        ),
        one("a link down", "gpu5.nvlinks=17", Fails(&[("cuda:5", "links to other GPUs", RESET)])),
        one("all links down", "gpu5.nvlinks=0", Fails(&[("cuda:5", "links to other GPUs", RESET)])),
        one("ECC off", "gpu2.ecc=0", Fails(&[("cuda:2", "ECC", SUPPORT)])),
        one("a memory error", "gpu4.ecc_errors=1", Fails(&[("cuda:4", "memory errors", SUPPORT)])),
        one("a row waits", "gpu1.remap_pending=1", Fails(&[("cuda:1", "row remaps", RESET)])),
        one("a row is lost", "gpu1.remap_failed=1", Fails(&[("cuda:1", "row remaps", SUPPORT)])),
        one("a power cap", "gpu6.power=1000", Fails(&[("cuda:6", "power limit", SUPPORT)])),
        one("another's process", "gpu0.processes=1", Fails(&[("cuda:0", "processes", AGAIN)])),
        one("other firmware", "gpu7.vbios=97", Fails(&[("node", "same firmware", SUPPORT)])),
        one("another part", "gpu7.pci=2330", Fails(&[("node", "same part", SUPPORT)])),
        one("hardware slowdown", "gpu3.reasons=8", Fails(&[("cuda:3", HOT, SUPPORT)])),
        one("software heat", "gpu3.reasons=32", Fails(&[("cuda:3", HOT, SUPPORT)])),
        one("hardware heat", "gpu3.reasons=68", Fails(&[("cuda:3", HOT, SUPPORT)])),
        one("power brake", "gpu3.reasons=128", Fails(&[("cuda:3", HOT, SUPPORT)])),
        one("seven GPUs", "devices=7", Fails(&[("node", "GPU count", SUPPORT)])),
        one("no driver for one", "", Fails(&[("0000:1a:00.0", "GPU presence", SUPPORT)]))
            .file("sys/bus/pci/devices/0000:1a:00.0/class", "0x030200\n")
            .file("sys/bus/pci/devices/0000:1a:00.0/vendor", "0x10de\n")
            .file("sys/bus/pci/devices/0000:1a:00.0/device", "0x2335\n"),
        one("off the bus", "", Fails(&[("cuda:2", "faults in the log", RESTART)]))
            .file(LOG, "6,1,2,-;NVRM: Xid (PCI:0000:03:00): 79, pid=1, off the bus\n"),
        one("a double-bit error", "", Fails(&[("cuda:2", "faults in the log", RESET)]))
            .file(LOG, "6,1,2,-;NVRM: Xid (PCI:0000:03:00): 48, pid=1, DBE\n"),
        one("a row not replaced", "", Fails(&[("cuda:2", "faults in the log", SUPPORT)]))
            .file(LOG, "6,1,2,-;NVRM: Xid (PCI:0000:03:00): 64, pid=1, remap\n"),
        one("no answer of its processor", "", Fails(&[("cuda:2", "faults in the log", RESET)]))
            .file(LOG, "6,1,2,-;NVRM: Xid (PCI:0000:03:00): 119, pid=1, GSP\n"),
    ];
    assert_eq!(states.len(), 23);
    assert_all(&node(), &states);
}

#[test]
fn faults_of_the_scale_up_domain_are_named_with_what_to_do() {
    let one = Planted::new;
    let states = [
        one(
            "bandwidth degraded",
            "gpu2.fabric=3:0:0:0:1a9:2",
            Fails(&[("cuda:2", DOMAIN, SUPPORT)]),
        ),
        one("a route recovers", "gpu2.fabric=3:0:0:0:1a6:2", Fails(&[("cuda:2", DOMAIN, AGAIN)])),
        one(
            "a route is unhealthy",
            "gpu2.fabric=3:0:0:0:19a:2",
            Fails(&[("cuda:2", DOMAIN, RESET)]),
        ),
        one("accesses time out", "gpu2.fabric=3:0:0:0:16a:2", Fails(&[("cuda:2", DOMAIN, RESET)])),
        one("no partition", "gpu2.fabric=3:0:0:0:4aa:2", Fails(&[("cuda:2", DOMAIN, SUPPORT)])),
        one(
            "dra-driver#626: unhealthy",
            "gpu2.fabric=3:0:0:0:1aa:2",
            Fails(&[("cuda:2", DOMAIN, SUPPORT)]),
        ),
        one(
            "NVSentinel#883: unknown error",
            "gpu6.fabric=3:999",
            Fails(&[("cuda:6", DOMAIN, SUPPORT)]),
        ),
        one("one is not in it", "gpu6.fabric=0", Fails(&[("cuda:6", DOMAIN, RESTART)]))
            .by_the_others(),
        one("one has not begun", "gpu6.fabric=1", Fails(&[("cuda:6", DOMAIN, RESTART)])),
        one("NVSentinel#883: in progress", "gpu6.fabric=2", Fails(&[("cuda:6", DOMAIN, RESTART)])),
        one("gpud#1151: no fabric manager", "", Fails(&[("node", "fabric manager", SUPPORT)]))
            .file("proc/50/comm", "-"),
        one("HGX B200 without NVLSM", "", Fails(&[("node", "NVLink subnet manager", SUPPORT)]))
            .file("sys/class/infiniband/mlx5_8/device/vpd", "\u{2}SMDLSW_MNG"),
        bare(one(
            "azhpc-images#506: one of a rack without resources",
            "pci=2941,fabric=3:0:7:9c:1aa:1,gpu2.fabric=3:23:0:0",
            Fails(&[("cuda:2", DOMAIN, SUPPORT)]),
        ))
        .profile(RACK),
        bare(one(
            "azhpc-images#506: clique 0",
            "pci=2941,fabric=3:0:7:9c:1aa:1,gpu2.fabric=3:0:0:9c:1aa:1",
            Fails(&[("cuda:2", DOMAIN, SUPPORT), ("node", "same NVLink domain", SUPPORT)]),
        ))
        .profile(RACK),
        bare(one(
            "a clique of its own",
            "pci=2941,fabric=3:0:7:9c:1aa:1,gpu2.fabric=3:0:8:9c:1aa:1",
            Fails(&[("node", "same NVLink domain", SUPPORT)]),
        ))
        .profile(RACK),
        bare(one(
            "a cluster of its own",
            "pci=2941,fabric=3:0:7:9c:1aa:1,gpu2.fabric=3:0:7:9d:1aa:1",
            Fails(&[("node", "same NVLink domain", SUPPORT)]),
        ))
        .profile(RACK),
        bare(one(
            "a job across nodes without IMEX",
            "pci=2941,fabric=3:0:7:9c:1aa:1",
            Fails(&[("node", "IMEX", SUPPORT)]),
        ))
        .profile(RACK)
        .variables(&[("SLURM_JOB_NUM_NODES", "2")]),
    ];
    assert_eq!(states.len(), 17);
    assert_all(&node(), &states);
}

#[test]
fn healthy_oddities_are_not_failed() {
    let one = |name, script| Planted::new(name, script, Healthy);
    let log = |text| one("a program's own faults", "").file(LOG, text);
    let states = [
        one("as it should be", ""),
        one("azurehpc#595: power cap", "reasons=4"),
        one("azurehpc-health-checks#138: power cap on one", "gpu3.reasons=4"),
        one("hardware-observer-operator#307: idle", "reasons=1"),
        one("hardware-observer-operator#307: clocks of a user", "reasons=2"),
        one("hardware-observer-operator#307: a display's clocks", "reasons=256"),
        one("sync boost", "reasons=16"),
        one("a reason of a newer driver", "reasons=4096"),
        one("an application clock", "application=900"),
        one("a link that sleeps", "generation=1"),
        one("NVLinks that replayed", "nvlink_errors=9,replays=3"),
        log("6,1,2,-;NVRM: Xid (PCI:0000:03:00): 31, pid=1, MMU fault\n"),
        log("6,1,2,-;NVRM: Xid (PCI:0000:03:00): 13, pid=1, exception\n"),
        one("NVSentinel#1471: no IMEX on an HGX", "").variables(&[("SLURM_JOB_NUM_NODES", "2")]),
        bare(one("aicr#2641: no IMEX, no job", "pci=31c2,fabric=3:0:7:9c:1aa:1")).profile(RACK),
        bare(one("gpud#1106: GB200", "pci=2941,fabric=3:0:4026:9c:0:0")).profile(RACK),
        bare(one("gpud#1140: one GPU", "devices=1,fabric=0"))
            .profile(&["gpus = 1", "nvlink_domain"]),
        bare(one("gpud#1147: PCI Express boards", "pci=2331,nvlinks=0,fabric=0"))
            .profile(&["peer_links = 0", "nvlink_domain"]),
        bare(one("gpud#1206: GH200", "devices=1,pci=2342,nvlinks=0,fabric=0")).profile(&[
            "gpus = 1",
            "peer_links = 0",
            "nvlink_domain = \"none\"",
        ]),
        one("torchcomms#1385: a cluster of zeros", "fabric=3:0:0:0:1aa:1"),
        one("MIG slices", "mig,fabric=0").profile(&["partition = \"MIG 1g.18gb\""]),
        one("a driver without health", "fabric=3:0:0:0:0:0"),
        one("a container", "").file("proc/2/comm", "-").file("proc/50/comm", "-"),
        one("HGX B200 with NVLSM", "")
            .file("sys/class/infiniband/mlx5_8/device/vpd", "\u{2}SMDLSW_MNG")
            .file("proc/60/comm", "nvlsm\n"),
        one("confidential computing", "confidential=1"),
        one("MPS", "").file("proc/61/comm", "nvidia-cuda-mps\n"),
        one("a vGPU's link", "vgpu=1,lanes=4"),
        one("hidden by a variable", "").variables(&[("CUDA_VISIBLE_DEVICES", "0,1,5")]),
    ];
    assert_eq!(states.len(), 28);
    assert_all(&node(), &states);
}
