//! What launchers leave in the environment, as it was seen under each.

use fizeau_domain::launcher::{LaunchError, Launcher, World, world};

fn read(variables: &[(&str, &str)]) -> Result<Option<World>, LaunchError> {
    let of = |name: &str| variables.iter().find(|(known, _)| *known == name);
    world(|name| of(name).map(|(_, value)| (*value).to_owned()))
}

fn found(launcher: Launcher, rank: u32, size: u32, local: Option<u32>) -> Option<World> {
    Some(World { launcher, rank, size: Some(size), local_rank: local })
}

#[test]
fn every_launcher_is_read() {
    let open_mpi = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("PMIX_RANK", "3"),
    ];
    assert_eq!(read(&open_mpi), Ok(found(Launcher::OpenMpi, 3, 4, Some(1))));
    let mpich = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1")];
    assert_eq!(read(&mpich), Ok(found(Launcher::Pmi, 1, 2, Some(1))));
    let srun = [
        ("SLURM_PROCID", "5"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_STEP_NUM_TASKS", "6"),
        ("SLURM_LOCALID", "0"),
    ];
    assert_eq!(read(&srun), Ok(found(Launcher::Slurm, 5, 6, Some(0))));
    let pmix = World { launcher: Launcher::Pmix, rank: 2, size: None, local_rank: None };
    assert_eq!(read(&[("PMIX_RANK", "2")]), Ok(Some(pmix)));
    let torchrun = [
        ("RANK", "9"),
        ("WORLD_SIZE", "16"),
        ("LOCAL_RANK", "1"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];
    assert_eq!(read(&torchrun), Ok(found(Launcher::Torchrun, 9, 16, Some(1))));
    let set = [("LWS_WORKER_INDEX", "1"), ("LWS_GROUP_SIZE", "4"), ("LWS_LEADER_ADDRESS", "a")];
    assert_eq!(read(&set), Ok(found(Launcher::LeaderWorkerSet, 1, 4, None)));
    let job = [("JOB_COMPLETION_INDEX", "0"), ("WORLD_SIZE", "3")];
    assert_eq!(read(&job), Ok(found(Launcher::IndexedJob, 0, 3, None)));
}

#[test]
fn mpirun_within_an_allocation_is_not_taken_for_slurm() {
    let inherited = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "1")];
    let mut variables = inherited.to_vec();
    variables.extend([("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]);
    assert_eq!(read(&variables), Ok(found(Launcher::OpenMpi, 2, 4, None)));
}

#[test]
fn who_is_alone_is_in_no_world() {
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Ok(None));
    // A batch script, which is no step.
    assert_eq!(read(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok(None));
    // Pods that do not know of each other.
    assert_eq!(read(&[("JOB_COMPLETION_INDEX", "3")]), Ok(None));
    assert_eq!(read(&[("RANK", "1")]), Ok(None));
}

#[test]
fn a_step_of_one_does_not_hide_a_world_within_it() {
    let torchrun = [("RANK", "2"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "2")];
    let within = Ok(found(Launcher::Torchrun, 2, 4, Some(2)));
    let open_mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
    let srun = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
    for outer in [open_mpi, srun, [("PMI_RANK", "0"), ("PMI_SIZE", "1")]] {
        assert_eq!(read(&[&outer[..], &torchrun[..]].concat()), within, "{outer:?}");
        // The same step as PMIx tells it, which knows no size.
        let pmix = [&outer[..], &[("PMIX_RANK", "0")], &torchrun[..]].concat();
        assert_eq!(read(&pmix), within, "{outer:?}");
        assert_eq!(read(&[&outer[..], &[("PMIX_RANK", "0")]].concat()), Ok(None), "{outer:?}");
    }
}

#[test]
fn nonsense_is_refused_by_its_name() {
    let said = |variables: &[(&str, &str)]| read(variables).expect_err("nonsense").to_string();
    let text = said(&[("PMI_RANK", "one"), ("PMI_SIZE", "2")]);
    assert_eq!(text, "PMI says PMI_RANK=\"one\", which is no number");
    assert_eq!(said(&[("RANK", "4"), ("WORLD_SIZE", "4")]), "torchrun says rank 4 of 4");
    assert!(said(&[("RANK", "-1"), ("WORLD_SIZE", "4")]).contains("RANK"));
    let text = said(&[("RANK", "1"), ("WORLD_SIZE", "4000000000")]);
    assert_eq!(text, "torchrun says a world of 4000000000 ranks; there are 65536 at most");
}

#[test]
fn singletons_are_an_error() {
    let Ok(Some(world)) = read(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4")]) else {
        panic!("a world")
    };
    assert_eq!(world.agrees("MPI", 0, 4), Ok(()));
    let error = world.agrees("MPI", 0, 1).expect_err("alone").to_string();
    assert!(error.contains("Slurm launched rank 0 of 4, but MPI sees rank 0 of 1"), "{error}");
    assert!(world.agrees("MPI", 1, 4).is_err());
}
