use super::*;
use fizeau_domain::node_state::{Fault, Hiding};

/// A node of two GPUs at which nothing is wrong.
fn healthy() -> NodeState {
    let gpu = |at: u32| Gpu {
        name: format!("cuda:{at}"),
        pci: Some(format!("0000:{:02x}:00.0", at + 1)),
        has_driver: true,
        driver: Some("580.1".into()),
        firmware: Some("96".into()),
        lanes: Some([16, 16]),
        generation: Some([1, 5]),
        ecc: Some(true),
        ecc_uncorrected: Some(0),
        remap_pending: Some(false),
        remap_failed: Some(false),
        peer_links: Some(18),
        power_limit: Some(700.0),
        power_default: Some(700.0),
        held_by: Some(Vec::new()),
        processes: Some(0),
        ..Gpu::default()
    };
    let interface = Interface {
        name: "mlx5_0/1".into(),
        state: Some("4: ACTIVE".into()),
        gigabits: Some(400.0),
        ..Interface::default()
    };
    NodeState {
        gpus: vec![gpu(0), gpu(1)],
        interfaces: vec![interface],
        redirecting_bridges: Some(Vec::new()),
        faults: Some(Vec::new()),
        host: Host {
            memory_gib: Some(2_000.0),
            nodes_gib: vec![1_000.0, 1_000.0],
            cpus: Some([192, 192]),
            governors: vec!["performance".into()],
            ecc_uncorrected: Some(0),
            load: Some(0.1),
            ..Host::default()
        },
        ..NodeState::default()
    }
}

fn expected() -> Expected {
    Expected {
        gpus: Some(2),
        pcie_lanes: Some(16),
        pcie_generation: Some(5),
        peer_links: Some(18),
        ecc: Some(true),
        driver: Some("580.1".into()),
        interfaces: Some(1),
        interface_gigabits: Some(400.0),
        memory_gib: Some(1_900.0),
        cpus: Some(192),
        ..Expected::default()
    }
}

/// The checks that are not passed, with device, verdict and cause.
fn amiss(state: &NodeState, expected: &Expected) -> Vec<(String, String, Option<Cause>)> {
    let all = judge(state, expected, Level::Quick);
    let amiss = all.into_iter().filter(|one| one.verdict != Verdict::Pass);
    amiss.map(|one| (one.check, one.device, one.cause)).collect()
}

#[test]
fn a_node_of_which_nothing_is_to_be_seen_does_not_pass() {
    let hidden = NodeState { hidden: vec!["/sys".into()], ..healthy() };
    let all = judge(&hidden, &expected(), Level::Passive);
    let open: Vec<&Judged> =
        all.iter().filter(|one| one.verdict == Verdict::Inconclusive).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].words.contains("nothing of /sys is to be seen"), "{open:?}");
}

#[test]
fn a_healthy_node_passes() {
    assert_eq!(amiss(&healthy(), &expected()), []);
    assert!(judge(&healthy(), &expected(), Level::Quick).len() > 20);
    assert_eq!(amiss(&healthy(), &Expected::default()), []);
    assert_eq!(amiss(&NodeState::default(), &Expected::default()), []);
}

#[test]
fn each_planted_fault_is_found_and_no_other() {
    type Plant = fn(&mut NodeState);
    let plants: [(Plant, &str, &str, Cause); 19] = [
        (
            |s| {
                s.gpus.pop();
            },
            "GPU count",
            "node",
            Cause::Missing,
        ),
        (|s| s.gpus[1].lanes = Some([8, 16]), "PCI Express lanes", "cuda:1", Cause::HalfWidth),
        (
            |s| s.gpus[1].generation = Some([1, 4]),
            "PCI Express generation",
            "cuda:1",
            Cause::HalfWidth,
        ),
        (|s| s.gpus[0].ecc = Some(false), "ECC", "cuda:0", Cause::Settings),
        (|s| s.gpus[0].ecc_uncorrected = Some(1), "memory errors", "cuda:0", Cause::Faults),
        (|s| s.gpus[0].remap_pending = Some(true), "row remaps", "cuda:0", Cause::Faults),
        (|s| s.gpus[0].remap_failed = Some(true), "row remaps", "cuda:0", Cause::Faults),
        (|s| s.gpus[0].bad_pages = Some(3), "bad pages", "cuda:0", Cause::Faults),
        (|s| s.gpus[0].peer_links = Some(17), "links to other GPUs", "cuda:0", Cause::PeerLink),
        (|s| s.gpus[0].power_limit = Some(500.0), "power limit", "cuda:0", Cause::PowerCap),
        (|s| s.gpus[0].clock_locks = Some("manual".into()), "clocks", "cuda:0", Cause::Settings),
        (
            |s| s.gpus[0].held_by = Some(vec!["hardware slowdown".into()]),
            "clock reasons",
            "cuda:0",
            Cause::Thermal,
        ),
        (|s| s.gpus[0].processes = Some(1), "processes", "cuda:0", Cause::BusyDevice),
        (|s| s.gpus[0].firmware = Some("97".into()), "same firmware", "node", Cause::Settings),
        (
            |s| s.interfaces[0].gigabits = Some(200.0),
            "network rate",
            "mlx5_0/1",
            Cause::NetworkInterface,
        ),
        (|s| s.host.nodes_gib[1] = 900.0, "memory of NUMA nodes", "host", Cause::Missing),
        (|s| s.host.cpu_quota = Some(1.0), "CPU quota", "host", Cause::CpuQuota),
        (|s| s.host.load = Some(190.0), "idle", "host", Cause::BusyHost),
        (|s| s.host.busy = Some(40.0), "idle", "host", Cause::BusyHost),
    ];
    for (plant, check, device, cause) in plants {
        let mut state = healthy();
        plant(&mut state);
        let found = amiss(&state, &expected());
        assert_eq!(found, [(check.to_owned(), device.to_owned(), Some(cause))]);
    }
}

#[test]
fn what_spoils_measurements_counts_only_where_something_is_measured() {
    let mut state = healthy();
    state.host.load = Some(190.0);
    state.host.cpu_quota = Some(1.0);
    let of = |level| -> Vec<Verdict> {
        judge(&state, &expected(), level).iter().map(|one| one.verdict).collect()
    };
    assert!(of(Level::Passive).iter().all(|one| *one == Verdict::Pass));
    let unclear = of(Level::Quick).into_iter().filter(|one| *one == Verdict::Inconclusive);
    assert_eq!(unclear.count(), 2);
}

#[test]
fn faults_of_the_log_name_their_device_once_and_those_of_programs_none() {
    let mut state = healthy();
    let fault = |number| Fault { pci: "0000:02:00".into(), number, line: String::new() };
    state.faults = Some(vec![fault(31), fault(79), fault(79)]);
    let all = judge(&state, &expected(), Level::Passive);
    let failed: Vec<_> = all.iter().filter(|one| one.verdict == Verdict::Fail).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((failed[0].device.as_str(), failed[0].action), ("cuda:1", Some(Action::Restart)));
    state.faults = Some(vec![fault(31)]);
    assert_eq!(amiss(&state, &expected()), []);
}

#[test]
fn a_gpu_without_a_driver_is_missing() {
    let mut state = healthy();
    state.gpus[1].has_driver = false;
    let found = amiss(&state, &expected());
    assert!(found.iter().any(|one| one.0 == "GPU presence"), "{found:?}");
    assert!(found.iter().any(|one| one.0 == "GPU count"), "{found:?}");
}

/// Reasons for a clock that are none of a fault, and those that are.
#[test]
fn reasons_of_a_user_or_of_idleness_are_no_fault() {
    let held = |words: &[&str]| {
        let mut state = healthy();
        state.gpus[0].held_by = Some(words.iter().map(|word| (*word).to_owned()).collect());
        amiss(&state, &expected())
    };
    // azurehpc#595 and azurehpc-health-checks#138: the power cap is no fault;
    // hardware-observer-operator#307: nor are a user's clocks, a display's, and idleness.
    for healthy in [
        &[][..],
        &["power cap"],
        &["clocks set by a user"],
        &["display clocks"],
        &["sync boost"],
        &["reasons 0x1000 that fizeau does not know"],
    ] {
        assert_eq!(held(healthy), [], "{healthy:?}");
    }
    for fault in [
        "hardware slowdown",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "hardware power brake",
    ] {
        let all = held(&["power cap", fault]);
        assert_eq!(all, [("clock reasons".into(), "cuda:0".into(), Some(Cause::Thermal))]);
    }
}

#[test]
fn what_a_user_may_mean_is_not_failed() {
    let unclear = |state: &NodeState, expected: &Expected| -> Vec<(String, String, Verdict)> {
        let all = judge(state, expected, Level::Passive);
        let all = all.into_iter().filter(|one| one.verdict != Verdict::Pass);
        all.map(|one| (one.check, one.device, one.verdict)).collect()
    };
    let row = |check: &str, device: &str, verdict| (check.to_owned(), device.to_owned(), verdict);
    let mut state = healthy();
    state.gpus[1].clock_locks = Some("clocks set by a user".into());
    assert_eq!(unclear(&state, &expected()), [row("clocks", "cuda:1", Verdict::Inconclusive)]);
    let may = Expected { held_clocks: true, ..expected() };
    assert_eq!(unclear(&state, &may), []);
    // A hypervisor shows of a share of a GPU whatever link it likes.
    let mut state = healthy();
    state.gpus[0].lanes = Some([4, 16]);
    let lanes = |verdict| [row("PCI Express lanes", "cuda:0", verdict)];
    assert_eq!(unclear(&state, &expected()), lanes(Verdict::Fail));
    state.gpus[0].modes = vec![mode::VGPU.into()];
    assert_eq!(unclear(&state, &expected()), lanes(Verdict::Inconclusive));
}

#[test]
fn gpus_that_a_variable_hides_are_not_missing() {
    let mut state = healthy();
    state.gpus[1] =
        Gpu { name: "0000:02:00.0".into(), pci_id: Some("10de:2335".into()), ..Gpu::default() };
    let failed = |state: &NodeState| -> Vec<String> {
        let all = judge(state, &expected(), Level::Passive);
        let all = all.into_iter().filter(|one| one.verdict == Verdict::Fail);
        all.map(|one| one.check).collect()
    };
    assert_eq!(failed(&state), ["GPU count", "GPU presence"]);
    state.hiding = vec![Hiding { vendor: "1002".into(), by: "HIP_VISIBLE_DEVICES=0".into() }];
    assert_eq!(failed(&state), ["GPU presence"], "another vendor's variable");
    state.hiding = vec![Hiding { vendor: "10de".into(), by: "CUDA_VISIBLE_DEVICES=0".into() }];
    assert_eq!(failed(&state), [""; 0]);
    let all = judge(&state, &expected(), Level::Passive);
    let said = all.iter().filter(|one| one.words.contains("CUDA_VISIBLE_DEVICES=0"));
    assert_eq!(said.count(), 2, "{all:?}");
}

#[test]
fn a_partition_that_is_not_the_profiles_is_named() {
    let wants = |partition: &str| Expected { partition: Some(partition.into()), ..expected() };
    let mut state = healthy();
    state.gpus.iter_mut().for_each(|gpu| gpu.partition = Some("SPX/NPS1".into()));
    assert_eq!(amiss(&state, &wants("SPX/NPS1")), []);
    state.gpus[1].partition = Some("CPX/NPS4".into());
    let named = ("partition".to_owned(), "cuda:1".to_owned(), Some(Cause::Settings));
    let differ = ("same partition".to_owned(), NODE.to_owned(), Some(Cause::Settings));
    assert_eq!(amiss(&state, &wants("SPX/NPS1")), [named, differ.clone()]);
    assert_eq!(amiss(&state, &expected()), [differ]);
    // Slices of MIG may differ on purpose.
    state.gpus[0].partition = Some("MIG 1g.18gb".into());
    state.gpus[1].partition = Some("MIG 3g.71gb".into());
    assert_eq!(amiss(&state, &expected()), []);
    assert_eq!(amiss(&state, &wants("MIG 1g.18gb")).len(), 1);
}
