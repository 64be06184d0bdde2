//! The scale-up domain of a node: what joins GPUs by NVLink, and who manages it.

use serde::{Deserialize, Serialize};

/// How far a GPU's registration with its NVLink domain is: `nvmlGpuFabricState_t` of nvml.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricState {
    /// The GPU has no such domain: there is no NVSwitch, or the part does not register.
    NotSupported,
    /// Nobody has begun it: the fabric manager has not reached this GPU.
    NotStarted,
    /// The fabric manager has begun, and not ended.
    InProgress,
    /// It has ended; [`Fabric::status`] says how.
    Completed,
}

/// Something that the health mask of a GPU's fabric says is wrong:
/// `NVML_GPU_FABRIC_HEALTH_MASK_*` of nvml.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricFault {
    /// Some NVLinks or switches on the GPU's way are missing.
    BandwidthDegraded,
    /// Routes are being changed after a fault.
    RouteRecovery,
    /// A route does not work.
    RouteUnhealthy,
    /// An access to another GPU's memory ran into its time limit, and is being recovered from.
    AccessTimeout,
    /// The GPU's domain is not set up right, by the number that NVML gives the reason.
    IncorrectConfiguration(u32),
}

impl FabricFault {
    /// As NVIDIA's tools write it.
    pub fn words(self) -> String {
        match self {
            FabricFault::BandwidthDegraded => "bandwidth degraded".into(),
            FabricFault::RouteRecovery => "route recovery in progress".into(),
            FabricFault::RouteUnhealthy => "route unhealthy".into(),
            FabricFault::AccessTimeout => "access timeout recovery in progress".into(),
            FabricFault::IncorrectConfiguration(reason) => {
                let reason = match reason {
                    2 => "the switches' system GUIDs differ",
                    3 => "the chassis serial number is wrong",
                    4 => "the GPU is in no partition",
                    5 => "too few NVLinks are up",
                    6 => "the GPU's firmware does not fit",
                    7 => "the GPU's place is wrong",
                    _ => return format!("incorrect configuration (reason {reason})"),
                };
                format!("incorrect configuration: {reason}")
            }
        }
    }
}

/// The summary of a fabric's health: `NVML_GPU_FABRIC_HEALTH_SUMMARY_*` of nvml.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricHealth {
    /// Nothing is wrong.
    Healthy,
    /// Something is.
    Unhealthy,
    /// The GPU works with fewer links than it has.
    LimitedCapacity,
}

/// A GPU's place in its NVLink domain, as `nvmlDeviceGetGpuFabricInfoV` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// How far its registration is.
    pub state: FabricState,
    /// How the registration ended: `nvmlReturn_t`, 0 for success. It means nothing before the
    /// state is [`FabricState::Completed`].
    pub status: u32,
    /// The clique, whose GPUs reach each other by NVLink; 0 in a domain of one node.
    pub clique: u32,
    /// UUID of the cluster, which is the same on all nodes of a rack's domain; `None` where the
    /// driver gives zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What its health mask says is wrong; empty where nothing is, or the driver does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FabricFault>,
    /// The summary of its health; `None` where the driver does not tell (before its release 570).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<FabricHealth>,
}

/// What a node has of NVLink's switches, and which services run that manage them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Domain {
    /// NVSwitches on the PCI bus that are this system's own: those that are passed through to a
    /// virtual machine (driver `vfio-pci`) are managed there.
    pub switches: usize,
    /// InfiniBand functions by which the NVSwitches of a node are managed (`SW_MNG` in their vital
    /// product data), on boards whose switches are not on the PCI bus (HGX B200, B300).
    pub switch_ports: usize,
    /// Whether the processes of the whole system are to be seen: not from within a container.
    pub sees_processes: bool,
    /// Whether `nv-fabricmanager` runs.
    pub fabric_manager: bool,
    /// Whether `nvlsm`, the subnet manager of NVLink's switches, runs.
    pub subnet_manager: bool,
    /// Whether `nvidia-imex` runs, by which nodes of one domain share memory.
    pub imex: bool,
    /// Whether a control daemon of MPS runs, by which processes share GPUs.
    pub mps: bool,
    /// How many nodes the job has that this runs in; `None` where no launcher says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_nodes: Option<u32>,
}

impl Domain {
    /// Whether nothing is to be told of it.
    pub fn is_empty(&self) -> bool {
        *self == Domain { sees_processes: self.sees_processes, ..Domain::default() }
    }

    /// Whether the node has switches of its own, which a fabric manager on it has to manage.
    pub fn has_switch(&self) -> bool {
        self.switches + self.switch_ports > 0
    }
}

/// A variable by which a user hides GPUs from their driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hiding {
    /// The GPUs' vendor on the PCI bus, `10de`.
    pub vendor: String,
    /// As the user wrote it: `CUDA_VISIBLE_DEVICES=3,5`.
    pub by: String,
}
