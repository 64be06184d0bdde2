//! States of eight of AMD's GPUs, as the kernel tells them.

use super::{Fails, Healthy, Node, Planted, assert_all};

/// The folder of a GPU: hip:0 is at 0000:01:00.0.
fn folder(gpu: usize) -> String {
    format!("sys/bus/pci/devices/0000:{:02x}:00.0", gpu + 1)
}

/// An MI300X, as amdgpu shows it.
const FILES: [(&str, &str); 17] = [
    ("class", "0x120000\n"),
    ("vendor", "0x1002\n"),
    ("device", "0x74a1\n"),
    ("current_link_width", "16\n"),
    ("max_link_width", "16\n"),
    ("current_link_speed", "32.0 GT/s PCIe\n"),
    ("max_link_speed", "32.0 GT/s PCIe\n"),
    ("hwmon/hwmon3/power1_cap", "750000000\n"),
    ("hwmon/hwmon3/power1_cap_default", "750000000\n"),
    ("vbios_version", "113-M3000100-102\n"),
    ("power_dpm_force_performance_level", "auto\n"),
    ("ras/features", "feature mask: 0x7ff\n"),
    ("ras/umc_err_count", "ue: 0\nce: 2\n"),
    ("ras/xgmi_wafl_err_count", "ue: 0\nce: 1\n"),
    ("xgmi_hive_info/xgmi_hive_id", "7309940571\n"),
    ("current_compute_partition", "SPX\n"),
    ("current_memory_partition", "NPS1\n"),
];

fn node() -> Node {
    let of = |gpu: usize| {
        FILES.iter().map(move |(name, text)| (format!("{}/{name}", folder(gpu)), *text))
    };
    let files = (0..8).flat_map(of).chain([("dev/kmsg".to_owned(), "6,1,2,-;nothing\n")]);
    Node {
        backend: "hip",
        libraries: &["libamdhip64.so.6"],
        script: "devices=8",
        files: files.collect(),
        expected: &[
            "gpus = 8",
            "pcie_lanes = 16",
            "pcie_generation = 5",
            "ecc = true",
            "xgmi_hives = 1",
            "partition = \"SPX/NPS1\"",
        ],
    }
}

const SUPPORT: &str = "CONTACT_SUPPORT";

#[test]
fn faults_are_named_with_what_to_do() {
    let on = |gpu, name: &'static str, file: &str, text, rows| {
        Planted::new(name, "", Fails(rows)).file(format!("{}/{file}", folder(gpu)), text)
    };
    let states = [
        on(
            3,
            "half of the lanes",
            "current_link_width",
            "8\n",
            &[("hip:3", "PCI Express lanes", SUPPORT)],
        ),
        on(
            3,
            "a generation less",
            "max_link_speed",
            "16.0 GT/s PCIe\n",
            &[("hip:3", "PCI Express generation", SUPPORT)],
        ),
        on(
            2,
            "a memory error",
            "ras/umc_err_count",
            "ue: 1\nce: 2\n",
            &[("hip:2", "memory errors", SUPPORT)],
        ),
        on(
            5,
            "errors of links",
            "ras/xgmi_wafl_err_count",
            "ue: 4\nce: 1\n",
            &[("hip:5", "xGMI errors", "RESET_GPU")],
        ),
        on(1, "ECC off", "ras/features", "feature mask: 0x7fe\n", &[("hip:1", "ECC", SUPPORT)]),
        on(
            6,
            "bad pages",
            "ras/gpu_vram_bad_pages",
            "0x1 : 0x1 : R\n",
            &[("hip:6", "bad pages", SUPPORT)],
        ),
        on(
            6,
            "a power cap",
            "hwmon/hwmon3/power1_cap",
            "500000000\n",
            &[("hip:6", "power limit", SUPPORT)],
        ),
        on(
            7,
            "other firmware",
            "vbios_version",
            "113-M3000100-103\n",
            &[("node", "same firmware", SUPPORT)],
        ),
        on(7, "another part", "device", "0x74a2\n", &[("node", "same part", SUPPORT)]),
        on(
            4,
            "out of the hive",
            "xgmi_hive_info/xgmi_hive_id",
            "0\n",
            &[("node", "xGMI hive", "RESTART")],
        ),
        on(
            4,
            "a hive of its own",
            "xgmi_hive_info/xgmi_hive_id",
            "99\n",
            &[("node", "xGMI hive", "RESTART")],
        ),
        on(
            0,
            "partitioned",
            "current_compute_partition",
            "CPX\n",
            &[("hip:0", "partition", SUPPORT), ("node", "same partition", SUPPORT)],
        ),
        Planted::new(
            "no driver for one",
            "devices=7",
            Fails(&[("node", "GPU count", SUPPORT), ("0000:08:00.0", "GPU presence", SUPPORT)]),
        ),
    ];
    assert_eq!(states.len(), 13);
    assert_all(&node(), &states);
}

#[test]
fn healthy_oddities_are_not_failed() {
    let one = |name, script| Planted::new(name, script, Healthy);
    let every = |mut state: Planted, file: &str, texts: [&'static str; 8]| {
        for (gpu, text) in texts.into_iter().enumerate() {
            state = state.file(format!("{}/{file}", folder(gpu)), text);
        }
        state
    };
    let hive = "xgmi_hive_info/xgmi_hive_id";
    let states = [
        one("as it should be", ""),
        every(one("links that sleep", ""), "current_link_speed", ["2.5 GT/s PCIe\n"; 8]),
        every(one("boards without links", ""), hive, ["-"; 8]).profile(&["xgmi_hives"]),
        every(one("MI210: bridges of four", ""), hive, ["7", "7", "7", "7", "9", "9", "9", "9"])
            .profile(&["xgmi_hives = 2"]),
        every(one("clocks of a user", ""), "power_dpm_force_performance_level", ["manual\n"; 8]),
        every(one("a guest that is told of units alone", ""), "current_memory_partition", ["-"; 8]),
        every(one("CPX as it is meant", ""), "current_compute_partition", ["CPX\n"; 8])
            .profile(&["partition = \"CPX/NPS1\""]),
        every(one("corrected errors", ""), "ras/umc_err_count", ["ue: 0\nce: 90\n"; 8]),
        one("hidden by HIP's variable", "").variables(&[("HIP_VISIBLE_DEVICES", "0,1")]),
        one("hidden by the runtime's", "").variables(&[("ROCR_VISIBLE_DEVICES", "0,3")]),
    ];
    assert_eq!(states.len(), 10);
    assert_all(&node(), &states);
}
