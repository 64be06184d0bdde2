//! Which rank this process is, of how many: read from what launchers leave in the environment.
//!
//! Pure: the environment is a function. The first launcher that matches is believed, in an order
//! that matters: `mpirun` within a Slurm allocation leaves its own variables beside those that
//! every process of the batch step inherits, and a job of one pod by Kubernetes may start
//! anything.

/// A process's place among those that were launched with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Who launched them.
    pub launcher: Launcher,
    /// From 0.
    pub rank: u32,
    /// How many; PMIx tells it to its library alone.
    pub size: Option<u32>,
    /// Its place on its node, where that is known.
    pub local_rank: Option<u32>,
}

/// Who launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// `mpiexec` of MPICH and its kin (Intel MPI, Cray), or `srun --mpi=pmi2`.
    Pmi,
    /// `srun` without a process manager of its own, or beside PMIx.
    Slurm,
    /// A PMIx server, such as `prterun`.
    Pmix,
    /// `torchrun`, and what speaks like it.
    Torchrun,
    /// Kubernetes' LeaderWorkerSet.
    LeaderWorkerSet,
    /// Nobody: ranks are threads of one process.
    Threads,
    /// An indexed Job of Kubernetes, alone or in a JobSet, whose pods are told WORLD_SIZE.
    IndexedJob,
}

named!(Launcher {
    OpenMpi => "Open MPI", Pmi => "PMI", Slurm => "Slurm", Pmix => "PMIx", Torchrun => "torchrun",
    LeaderWorkerSet => "LeaderWorkerSet", IndexedJob => "an indexed Job", Threads => "this process",
});

/// What is wrong with a launcher's variables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// One is no number.
    #[error("{launcher} says {variable}={value:?}, which is no number")]
    NotANumber {
        /// Who.
        launcher: Launcher,
        /// Which variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// More ranks than anybody has.
    #[error("{launcher} says a world of {size} ranks; there are {RANKS_MAX} at most")]
    TooMany {
        /// Who.
        launcher: Launcher,
        /// The size.
        size: u32,
    },
    /// A rank beyond its world.
    #[error("{launcher} says rank {rank} of {size}")]
    Beyond {
        /// Who.
        launcher: Launcher,
        /// The rank.
        rank: u32,
        /// The size.
        size: u32,
    },
    /// The engine that connects the ranks sees another world than the launcher.
    #[error(
        "{launcher} launched rank {rank} of {size}, but {engine} sees rank {engine_rank} of \
         {engine_size}: the launcher and {engine} do not speak the same language; start with the \
         mpiexec of this MPI, or choose srun --mpi=pmi2 or --mpi=pmix as it was built"
    )]
    Mismatch {
        /// Who launched.
        launcher: Launcher,
        /// Its rank.
        rank: u32,
        /// Its size, in words where it is not known.
        size: String,
        /// What connects the ranks.
        engine: String,
        /// Its rank.
        engine_rank: u32,
        /// Its size.
        engine_size: u32,
    },
}

/// Most ranks of a world: what ranks keep of each other is made for as many.
pub const RANKS_MAX: u32 = 1 << 16;

/// Launcher, and its variables for rank, size and place on the node. A launcher is recognised by
/// its rank, and where `size_needed`, by its size too.
struct Variables {
    launcher: Launcher,
    rank: &'static str,
    size: Option<&'static str>,
    size_needed: bool,
    local_rank: Option<&'static str>,
}

const LAUNCHERS: [Variables; 7] = [
    Variables {
        launcher: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        size: Some("OMPI_COMM_WORLD_SIZE"),
        size_needed: false,
        local_rank: Some("OMPI_COMM_WORLD_LOCAL_RANK"),
    },
    Variables {
        launcher: Launcher::Pmi,
        rank: "PMI_RANK",
        size: Some("PMI_SIZE"),
        size_needed: false,
        local_rank: Some("MPI_LOCALRANKID"),
    },
    // The batch script has SLURM_PROCID and SLURM_NTASKS too; the number of tasks of a step is
    // known in a step alone.
    Variables {
        launcher: Launcher::Slurm,
        rank: "SLURM_PROCID",
        size: Some("SLURM_STEP_NUM_TASKS"),
        size_needed: true,
        local_rank: Some("SLURM_LOCALID"),
    },
    Variables {
        launcher: Launcher::Pmix,
        rank: "PMIX_RANK",
        size: None,
        size_needed: false,
        local_rank: None,
    },
    Variables {
        launcher: Launcher::Torchrun,
        rank: "RANK",
        size: Some("WORLD_SIZE"),
        size_needed: true,
        local_rank: Some("LOCAL_RANK"),
    },
    Variables {
        launcher: Launcher::LeaderWorkerSet,
        rank: "LWS_WORKER_INDEX",
        size: Some("LWS_GROUP_SIZE"),
        size_needed: true,
        local_rank: None,
    },
    Variables {
        launcher: Launcher::IndexedJob,
        rank: "JOB_COMPLETION_INDEX",
        size: Some("WORLD_SIZE"),
        size_needed: true,
        local_rank: None,
    },
];

/// The variables that any launcher tells a process its place by: who launches inside of another's
/// step hides them from its own ranks.
pub fn variables() -> impl Iterator<Item = &'static str> {
    LAUNCHERS
        .iter()
        .flat_map(|one| [Some(one.rank), one.size, one.local_rank].into_iter().flatten())
}

/// The world that a launcher has put this process into; none where nobody has, or it is alone. Who
/// is alone for one launcher may have been launched by another within: a step of one task often
/// only starts what launches the ranks.
///
/// # Errors
/// Where a variable is no number, the rank is beyond the world, or the world is beyond reason.
pub fn world(variable: impl Fn(&str) -> Option<String>) -> Result<Option<World>, LaunchError> {
    let mut is_alone = false;
    for Variables { launcher, rank, size, size_needed, local_rank } in LAUNCHERS {
        let number = |name: &'static str| -> Result<Option<u32>, LaunchError> {
            let Some(value) = variable(name) else { return Ok(None) };
            let parsed = value.trim().parse().map(Some);
            parsed.map_err(|_| LaunchError::NotANumber { launcher, variable: name, value })
        };
        let known = variable(rank).is_some()
            && (!size_needed || size.is_some_and(|size| variable(size).is_some()));
        if !known {
            continue;
        }
        let Some(rank) = number(rank)? else { continue };
        let size = size.map(number).transpose()?.flatten();
        if let Some(size) = size
            && rank >= size
        {
            return Err(LaunchError::Beyond { launcher, rank, size });
        }
        match size {
            Some(1) => is_alone = true,
            // PMIx of the step that was of one.
            None if is_alone => {}
            Some(size) if size > RANKS_MAX => return Err(LaunchError::TooMany { launcher, size }),
            _ => {
                let local_rank = local_rank.map(number).transpose()?.flatten();
                return Ok(Some(World { launcher, rank, size, local_rank }));
            }
        }
    }
    Ok(None)
}

impl World {
    /// Holds what the engine sees against what the launcher says. Ranks that do not find each
    /// other run alone, each with exit code 0: that is an error, not a result.
    ///
    /// # Errors
    /// Where the two differ.
    pub fn agrees(&self, engine: &str, rank: u32, size: u32) -> Result<(), LaunchError> {
        if rank == self.rank && self.size.is_none_or(|launched| launched == size) {
            return Ok(());
        }
        Err(LaunchError::Mismatch {
            launcher: self.launcher,
            rank: self.rank,
            size: self.size.map_or("a number it does not tell".into(), |size| size.to_string()),
            engine: engine.into(),
            engine_rank: rank,
            engine_size: size,
        })
    }
}
