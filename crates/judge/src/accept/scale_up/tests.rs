use super::*;
use fizeau_domain::node_state::{Fabric, Hiding};

/// A GPU's registration that ended well, in the domain of its own node.
fn registered_one() -> Fabric {
    Fabric {
        state: FabricState::Completed,
        status: 0,
        clique: 0,
        cluster: None,
        faults: Vec::new(),
        health: Some(FabricHealth::Healthy),
    }
}

/// A registration of a rack's GPU.
fn of_rack() -> Fabric {
    let cluster = Some("9c6f5af3-53bf-49b5-a436-b66766c413c3".to_owned());
    Fabric { clique: 4026, cluster, ..registered_one() }
}

fn none() -> Fabric {
    Fabric { state: FabricState::NotSupported, health: None, ..registered_one() }
}

/// A node of some GPUs of one part and registration.
fn node(count: usize, part: &str, fabric: Option<&Fabric>, domain: Domain) -> NodeState {
    let gpu = |at: usize| Gpu {
        name: format!("cuda:{at}"),
        pci_id: Some(part.into()),
        has_driver: true,
        fabric: fabric.cloned(),
        ..Gpu::default()
    };
    NodeState { gpus: (0..count).map(gpu).collect(), domain, ..NodeState::default() }
}

/// An HGX H100 or H200 whose fabric manager runs.
fn switched() -> Domain {
    Domain { switches: 4, sees_processes: true, fabric_manager: true, ..Domain::default() }
}

/// A system without any switch, all of whose processes are to be seen.
fn bare() -> Domain {
    Domain { sees_processes: true, ..Domain::default() }
}

fn amiss(state: &NodeState, expected: &Expected) -> Vec<(String, String, Verdict)> {
    let all = judge(state, expected).into_iter().filter(|one| one.verdict != Verdict::Pass);
    all.map(|one| (one.check, one.device, one.verdict)).collect()
}

fn wants(domain: NvlinkDomain) -> Expected {
    Expected { nvlink_domain: Some(domain), ..Expected::default() }
}

const H100: &str = "10de:2330";
const GB200: &str = "10de:2941";

/// What public tools failed and should not have, and other healthy oddities.
#[test]
fn no_false_alarm_of_the_public_reports_is_one_here() {
    let of_node = registered_one();
    let mut divided = node(8, H100, Some(&none()), switched());
    divided.gpus.iter_mut().for_each(|gpu| gpu.partition = Some("MIG 1g.10gb".into()));
    let rack_job = |nodes| Domain { job_nodes: Some(nodes), ..bare() };
    let management = Domain {
        switch_ports: 4,
        sees_processes: true,
        fabric_manager: true,
        subnet_manager: true,
        ..Domain::default()
    };
    let container = Domain { switches: 4, ..Domain::default() };
    for (report, state, expected) in [
        (
            "an HGX H100 as it should be",
            node(8, H100, Some(&of_node), switched()),
            Expected::default(),
        ),
        // DCGM calls IMEX unhealthy where it does not belong.
        ("NVSentinel#1471", node(8, H100, Some(&of_node), switched()), wants(NvlinkDomain::Node)),
        ("aicr#2641", node(4, "10de:31c2", Some(&of_rack()), bare()), wants(NvlinkDomain::Rack)),
        (
            "aicr#2641, a job of one node",
            node(4, GB200, Some(&of_rack()), rack_job(1)),
            Expected::default(),
        ),
        // GB200: the fabric manager runs on the switch trays.
        ("gpud#1106", node(4, GB200, Some(&of_rack()), bare()), Expected::default()),
        ("gpud#1140, one GPU of an HGX", node(1, H100, Some(&none()), bare()), Expected::default()),
        ("gpud#1147, H100 PCIe", node(2, "10de:2331", Some(&none()), bare()), Expected::default()),
        (
            "gpud#1206, GH200 alone",
            node(1, "10de:2342", Some(&none()), bare()),
            Expected::default(),
        ),
        (
            "GH200 by its profile",
            node(1, "10de:2342", Some(&none()), bare()),
            wants(NvlinkDomain::None),
        ),
        (
            "torchcomms#1385, a cluster of zeros",
            node(8, H100, Some(&of_node), switched()),
            Expected::default(),
        ),
        ("MIG slices", divided, Expected::default()),
        (
            "HGX B200, NVLSM runs",
            node(8, "10de:2901", Some(&of_node), management),
            Expected::default(),
        ),
        ("an old driver", node(8, H100, None, switched()), wants(NvlinkDomain::Node)),
        ("a container", node(8, H100, Some(&of_node), container), Expected::default()),
        (
            "GB200 NVL4 by its profile",
            node(4, GB200, Some(&none()), bare()),
            wants(NvlinkDomain::None),
        ),
    ] {
        assert_eq!(amiss(&state, &expected), [], "{report}");
    }
}

/// What public tools passed, and others that have to fail.
#[test]
fn each_miss_of_the_public_reports_is_found_here() {
    let with = |change: fn(&mut Fabric)| {
        let mut fabric = of_rack();
        change(&mut fabric);
        fabric
    };
    let zeros = |status| Fabric { status, ..registered_one() };
    let pending = |state| Fabric { state, health: None, ..registered_one() };
    let silent = Domain { fabric_manager: false, ..switched() };
    let (rack, nothing) = (wants(NvlinkDomain::Rack), Expected::default());
    for (report, fabric, part, domain, expected, action) in [
        // Insufficient resources, clique 0, cluster of zeros.
        ("azhpc-images#506", zeros(23), GB200, bare(), &nothing, Action::ContactSupport),
        ("clique 0 and no cluster", zeros(0), GB200, bare(), &nothing, Action::ContactSupport),
        ("clique 0", with(|it| it.clique = 0), GB200, bare(), &nothing, Action::ContactSupport),
        ("gpud#1108", none(), GB200, bare(), &rack, Action::Restart),
        (
            "NVSentinel#883",
            pending(FabricState::InProgress),
            H100,
            silent,
            &nothing,
            Action::Restart,
        ),
        (
            "not started",
            pending(FabricState::NotStarted),
            H100,
            switched(),
            &nothing,
            Action::Restart,
        ),
        ("unknown error", zeros(999), H100, switched(), &nothing, Action::ContactSupport),
        (
            "dra-driver#626, unhealthy without a reason",
            with(|it| it.health = Some(FabricHealth::Unhealthy)),
            GB200,
            bare(),
            &nothing,
            Action::ContactSupport,
        ),
        (
            "bandwidth degraded",
            with(|it| it.faults = vec![FabricFault::BandwidthDegraded]),
            GB200,
            bare(),
            &nothing,
            Action::ContactSupport,
        ),
        (
            "route recovery",
            with(|it| it.faults = vec![FabricFault::RouteRecovery]),
            GB200,
            bare(),
            &nothing,
            Action::RestartApp,
        ),
        (
            "access timeout",
            with(|it| it.faults = vec![FabricFault::RouteRecovery, FabricFault::AccessTimeout]),
            GB200,
            bare(),
            &nothing,
            Action::ResetGpu,
        ),
    ] {
        let state = node(4, part, Some(&fabric), domain);
        let found = judge(&state, expected);
        let failed: Vec<&Judged> = found.iter().filter(|one| one.check == DOMAIN).collect();
        assert_eq!(failed.len(), 4, "{report}: {found:?}");
        for one in failed {
            assert_eq!(
                (one.verdict, one.action),
                (Verdict::Fail, Some(action)),
                "{report}: {one:?}"
            );
        }
    }
}

#[test]
fn services_are_missed_where_they_belong() {
    let fabric = registered_one();
    // The GPUs have registered, and the manager has gone since: gpud#1151.
    let without = Domain { fabric_manager: false, ..switched() };
    let state = node(8, H100, Some(&fabric), without);
    let failed = |check: &str| [(check.to_owned(), NODE.to_owned(), Verdict::Fail)];
    assert_eq!(amiss(&state, &Expected::default()), failed("fabric manager"));
    let without = Domain { switches: 0, switch_ports: 4, ..switched() };
    let state = node(8, "10de:2901", Some(&fabric), without);
    assert_eq!(amiss(&state, &Expected::default()), failed("NVLink subnet manager"));
    let spans = Domain { job_nodes: Some(2), ..bare() };
    let state = node(4, GB200, Some(&of_rack()), spans);
    assert_eq!(amiss(&state, &Expected::default()), failed("IMEX"));
}

#[test]
fn one_gpu_that_differs_is_named() {
    let state = |change: fn(&mut Fabric)| {
        let mut state = node(4, GB200, Some(&of_rack()), bare());
        change(state.gpus[2].fabric.as_mut().expect("a fabric"));
        state
    };
    let all = amiss(&state(|it| it.clique = 7), &Expected::default());
    assert_eq!(all, [("same NVLink domain".into(), NODE.into(), Verdict::Fail)]);
    let gone = state(|it| it.state = FabricState::NotSupported);
    let all = amiss(&gone, &Expected::default());
    assert_eq!(all, [(DOMAIN.into(), "cuda:2".into(), Verdict::Fail)]);
    let small = state(|it| it.health = Some(FabricHealth::LimitedCapacity));
    let all = amiss(&small, &Expected::default());
    assert_eq!(all, [(DOMAIN.into(), "cuda:2".into(), Verdict::Inconclusive)]);
}

#[test]
fn what_a_part_alone_does_not_tell_is_inconclusive() {
    let of = |state: &NodeState| amiss(state, &Expected::default());
    let unclear = |at: usize| (DOMAIN.to_owned(), format!("cuda:{at}"), Verdict::Inconclusive);
    let board = node(2, GB200, Some(&none()), bare());
    assert_eq!(of(&board), [unclear(0), unclear(1)]);
    let pending = Fabric { state: FabricState::InProgress, ..none() };
    assert_eq!(of(&node(1, H100, Some(&pending), bare())), [unclear(0)]);
}

/// A node of eight of AMD's GPUs in these hives.
fn hive_node(hives: [&str; 8]) -> NodeState {
    let gpu = |(at, hive): (usize, &&str)| Gpu {
        name: format!("hip:{at}"),
        pci_id: Some("1002:74a1".into()),
        has_driver: true,
        hive: (!hive.is_empty()).then(|| (*hive).to_owned()),
        link_errors: Some(0),
        ..Gpu::default()
    };
    NodeState { gpus: hives.iter().enumerate().map(gpu).collect(), ..NodeState::default() }
}

#[test]
fn hives_that_are_not_whole_are_found_and_pairs_of_bridges_are_not() {
    let of = |hives, wanted| {
        let expected = Expected { xgmi_hives: wanted, ..Expected::default() };
        amiss(&hive_node(hives), &expected)
    };
    let failed = [("xGMI hive".to_owned(), NODE.to_owned(), Verdict::Fail)];
    assert_eq!(of(["7"; 8], Some(1)), []);
    assert_eq!(of([""; 8], None), [], "boards without links");
    assert_eq!(of(["0"; 8], None), []);
    let pairs = ["7", "7", "7", "7", "9", "9", "9", "9"];
    assert_eq!(of(pairs, None), [], "MI210: bridges of four");
    assert_eq!(of(pairs, Some(1)), failed);
    assert_eq!(of(["7", "7", "7", "0", "7", "7", "7", "7"], None), failed);
    assert_eq!(of(["7", "7", "7", "8", "7", "7", "7", "7"], None), failed);
    assert_eq!(of([""; 8], Some(1)), failed);
    let mut state = hive_node(["7"; 8]);
    state.gpus[5].link_errors = Some(2);
    let all = amiss(&state, &Expected::default());
    assert_eq!(all, [("xGMI errors".into(), "hip:5".into(), Verdict::Fail)]);
}

#[test]
fn modes_are_named_and_fail_nothing() {
    let mut state = node(2, H100, None, Domain { mps: true, ..bare() });
    state.gpus[1].modes = vec![mode::CONFIDENTIAL.into(), mode::VGPU.into()];
    state.hiding = vec![Hiding { vendor: "10de".into(), by: "CUDA_VISIBLE_DEVICES=0".into() }];
    let all = judge(&state, &Expected::default());
    assert!(all.iter().all(|one| one.verdict == Verdict::Pass), "{all:?}");
    let words: Vec<&str> = all.iter().map(|one| one.words.as_str()).collect();
    assert!(words.iter().any(|words| words.contains("encrypted")), "{words:?}");
    assert!(words.iter().any(|words| words.contains("MPS runs")), "{words:?}");
}
