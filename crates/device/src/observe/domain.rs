//! The switches of NVLink that a node has, and the services that manage them.

use super::{names, word};
use crate::pci::DEVICES;
use fizeau_domain::node_state::Domain;
use fizeau_record::file;
use std::{env, fs, path::Path};

/// A bridge of no other kind, which NVSwitches are on the bus of HGX A100, H100 and H200 (PCI Code
/// and ID Assignment Specification, section 1: class 06, subclass 80).
const OTHER_BRIDGE: &str = "0x0680";

/// What stands in the vital product data of the ConnectX functions by which the NVSwitches of HGX
/// B200 and B300 are managed: `nvidia-fabricmanager-start.sh` looks for it too.
const SWITCH_MANAGEMENT: &[u8] = b"SW_MNG";

/// Longest vital product data, in bytes (its addresses have 15 bits).
const PRODUCT_DATA_MAX: u64 = 32 << 10;

/// What the files below a root tell.
pub fn domain(root: &Path) -> Domain {
    let processes = processes(root);
    let runs = |name: &str| processes.iter().any(|process| process == &shortened(name));
    Domain {
        switches: switches(root),
        switch_ports: switch_ports(root),
        // The kernel's own thread, which no container's processes have among them.
        sees_processes: runs("kthreadd"),
        fabric_manager: runs("nv-fabricmanager"),
        subnet_manager: runs("nvlsm"),
        imex: runs("nvidia-imex"),
        mps: runs("nvidia-cuda-mps-control"),
        job_nodes: job_nodes(|name| env::var(name).ok()),
    }
}

/// A process's name as the kernel has it: its first 15 bytes (`TASK_COMM_LEN` of the kernel's
/// sched.h, less the zero at the end).
fn shortened(name: &str) -> String {
    name.chars().take(15).collect()
}

fn processes(root: &Path) -> Vec<String> {
    let folder = root.join("proc");
    let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let all = names(&folder).into_iter().filter(is_process);
    all.filter_map(|name| word(&folder.join(name).join("comm"))).collect()
}

fn switches(root: &Path) -> usize {
    let devices = root.join(DEVICES.trim_start_matches('/'));
    let is_switch = |place: &String| {
        let folder = devices.join(place);
        let is = |file: &str, start: &str| {
            word(&folder.join(file)).is_some_and(|it| it.starts_with(start))
        };
        let driver = fs::read_link(folder.join("driver")).ok();
        let is_passed_on = driver.is_some_and(|driver| driver.ends_with("vfio-pci"));
        is("vendor", "0x10de") && is("class", OTHER_BRIDGE) && !is_passed_on
    };
    names(&devices).iter().filter(|place| is_switch(place)).count()
}

fn switch_ports(root: &Path) -> usize {
    let devices = root.join("sys/class/infiniband");
    let manages = |name: &String| {
        let data = file::read(&devices.join(name).join("device/vpd"), PRODUCT_DATA_MAX);
        let data = data.unwrap_or_default();
        data.windows(SWITCH_MANAGEMENT.len()).any(|window| window == SWITCH_MANAGEMENT)
    };
    names(&devices).iter().filter(|name| manages(name)).count()
}

/// How many nodes the job has, as Slurm tells each of its processes.
fn job_nodes(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"]
        .into_iter()
        .find_map(|name| variable(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn switches_and_services_are_found_by_their_files() {
        let root = tempfile::tempdir().expect("a folder");
        let plant = |name: &str, bytes: &[u8]| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, bytes).expect("written");
        };
        assert!(domain(root.path()).is_empty());
        for at in [3, 4, 5] {
            plant(&format!("sys/bus/pci/devices/0000:0{at}:00.0/class"), b"0x068000\n");
            plant(&format!("sys/bus/pci/devices/0000:0{at}:00.0/vendor"), b"0x10de\n");
        }
        // One is a virtual machine's, whose own fabric manager manages it.
        let driver = root.path().join("sys/bus/pci/devices/0000:05:00.0/driver");
        symlink("../../../../bus/pci/drivers/vfio-pci", driver).expect("a link");
        plant("sys/class/infiniband/mlx5_0/device/vpd", b"\x82\x04\0SMDLSW_MNG");
        plant("sys/class/infiniband/mlx5_1/device/vpd", b"\x82\x04\0MCX75");
        plant("proc/7/comm", b"nv-fabricmanage\n");
        let found = domain(root.path());
        assert_eq!((found.switches, found.switch_ports), (2, 1));
        assert!(found.fabric_manager && !found.subnet_manager && !found.sees_processes);
        plant("proc/2/comm", b"kthreadd\n");
        plant("proc/11/comm", b"nvidia-cuda-mps\n");
        plant("proc/12/comm", b"nvidia-imex\n");
        let found = domain(root.path());
        assert!(found.sees_processes && found.imex && found.mps && !found.subnet_manager);
    }

    #[test]
    fn slurm_says_how_many_nodes_a_job_has() {
        let of = |name: &'static str| move |asked: &str| (asked == name).then(|| "4".to_owned());
        assert_eq!(job_nodes(of("SLURM_JOB_NUM_NODES")), Some(4));
        assert_eq!(job_nodes(of("SLURM_NNODES")), Some(4));
        assert_eq!(job_nodes(|_| None), None);
    }
}
