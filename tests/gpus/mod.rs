//! A machine of stub GPUs with a stub NCCL between them, and what ranks on it are held against.

#[path = "../stub_cache/mod.rs"]
mod stub_cache;

use super::program::{Place as Folder, Said, said};
use fizeau_domain::{
    case::{Collective, Place, Point},
    dtype::Dtype,
    outcome::Outcome,
};
use fizeau_record::Record;
use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Child, Command},
};

const SUITE: &str = r#"
name = "ranks"
description = "Every collective at odd counts"

[measure]
samples_min = 3
samples_max = 4
noise_max = 0.0
time_min = 0.0
time_max = 0.01
warmup_max = 0.0001
sample_min = 0.00001
deadline = DEADLINE

[collective]
collectives = ["all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast",
    "send_receive", "reduce", "gather", "scatter", "all_to_allv"]
dtypes = ["DTYPE"]
# Odd counts for 2, 3 and 4 ranks, whether of the message or of a part of it.
granule = 1
from = "188"
to = "LARGEST"
factor = 97
places = ["out_of_place", "in_place"OTHER]
"#;

/// One more place.
pub const UNALIGNED: &str = r#", "unaligned""#;

pub const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// A machine with a stub driver and a stub NCCL.
pub struct Machine {
    pub place: Folder,
}

pub fn built(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let library = test.with_file_name(name);
    assert!(library.exists(), "{} is not built", library.display());
    library
}

const DRIVER: &str = "libfizeau_stub_driver.so";
pub const NCCL: &str = "libfizeau_stub_nccl.so";

impl Machine {
    pub fn new() -> Machine {
        let machine = Machine { place: Folder::new() };
        let lib = machine.place.path("lib");
        fs::create_dir(&lib).expect("a folder");
        for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13"] {
            symlink(built(DRIVER), lib.join(name)).expect("a link");
        }
        symlink(built(NCCL), lib.join("libnccl.so.2")).expect("a link");
        machine.suite("f32", 60.0);
        machine
    }

    pub fn suite(&self, dtype: &str, deadline: f64) {
        self.sweep(dtype, deadline, ["256KiB", ""]);
    }

    pub fn sweep(&self, dtype: &str, deadline: f64, [largest, other]: [&str; 2]) {
        let text = SUITE
            .replace("DTYPE", dtype)
            .replace("LARGEST", largest)
            .replace("OTHER", other)
            .replace("DEADLINE", &deadline.to_string());
        fs::write(self.place.path("ranks.toml"), text).expect("the suite is written");
    }

    /// The program on stubs with scripts.
    pub fn fizeau(&self, driver: &str, nccl: &str, args: &[&str]) -> Command {
        let mut command = self.place.fizeau(args);
        command.env("FIZEAU_LIBRARY_PATH", self.place.path("lib"));
        command.env("FIZEAU_STUB", driver).env("FIZEAU_STUB_NCCL", nccl);
        command.env("FIZEAU_STUB_CACHE", stub_cache::folder());
        command.env("XDG_CACHE_HOME", self.place.path("cache"));
        for variable in ["FIZEAU_RENDEZVOUS", "FIZEAU_TOKEN", "NCCL_MULTI_RANK_GPU_ENABLE"] {
            command.env_remove(variable);
        }
        command
    }

    /// One of several ranks, a process each, that meet in a folder.
    pub fn rank(&self, place: [u32; 2], driver: &str, nccl: &str) -> Command {
        let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out"];
        self.rank_of(&args, place, driver, nccl)
    }

    /// The same with arguments.
    pub fn rank_of(
        &self,
        args: &[&str],
        [rank, size]: [u32; 2],
        driver: &str,
        nccl: &str,
    ) -> Command {
        let mut command = self.fizeau(driver, nccl, args);
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", size.to_string());
        let meeting = format!("file:{}", self.place.path("").display());
        command.env("FIZEAU_RENDEZVOUS", meeting).env("FIZEAU_TOKEN", TOKEN);
        command
    }

    /// All ranks of a world, with a script of NCCL's and one of the driver's for each rank.
    pub fn start(&self, drivers: &[&str], nccl: &str) -> Vec<Child> {
        let size = drivers.len() as u32;
        let start = |(rank, driver): (usize, &&str)| {
            self.rank([rank as u32, size], driver, nccl).spawn().expect("it starts")
        };
        drivers.iter().enumerate().map(start).collect()
    }

    pub fn record(&self) -> Record {
        self.place.record("out")
    }
}

pub fn ends(children: Vec<Child>) -> Vec<Said> {
    let end = |child: Child| said(child.wait_with_output().expect("it ends"));
    children.into_iter().map(end).collect()
}

pub const TWO: [&str; 2] = ["devices=2", "devices=2"];

/// Every planned collective was measured, and every element of it was right.
#[track_caller]
pub fn assert_all_right(record: &Record, ranks: u32) {
    assert_eq!(record.outcomes.len(), record.header.plan.len());
    let mut seen = BTreeSet::new();
    for outcome in &record.outcomes {
        let Outcome::Measured(measurement) = outcome else { panic!("{outcome:?}") };
        let Point::Collective(point) = measurement.case.point else { panic!("{outcome:?}") };
        let check = measurement.check;
        assert!(check.passed() && check.compared > 0, "{}: {check:?}", measurement.case);
        assert_eq!((point.ranks, measurement.case.kernel.0.as_str()), (ranks, "nccl"));
        assert_eq!(measurement.rank_times.len(), ranks as usize);
        assert!(point.dtype != Dtype::F32 || point.count() % 2 == 1, "{}", measurement.case);
        seen.insert((point.collective, point.place.to_string()));
    }
    let in_place = Collective::ALL.iter().filter(|which| which.exists(Place::InPlace)).count();
    let unaligned = seen.iter().filter(|(_, place)| place == "unaligned").count();
    assert_eq!(seen.len() - unaligned, Collective::ALL.len() + in_place);
    assert!(unaligned == 0 || unaligned == Collective::ALL.len(), "{unaligned}");
}

/// So many operations are past joining, and within the sweep.
pub const LATER: u32 = 60;
