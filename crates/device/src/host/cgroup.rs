//! Limits that control groups (cgroups) set on this process: its memory, its CPU time, its CPUs.
//!
//! `/proc/self/cgroup` names the group of this process in each hierarchy, `/proc/self/mountinfo`
//! tells where hierarchies are mounted (cgroups(7)). Limits hold for a group and all groups below
//! it, so that the process's own group and each of its ancestors up to the mount's root is read:
//! Slurm sets limits on `job_N` and runs processes in `job_N/step_M`, Kubernetes on a pod's slice.
//! Version 1 has a hierarchy for each controller, version 2 one for all; systems in hybrid mode
//! have both. File names and units: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1.

use super::cpus::cpu_list;
use fizeau_domain::units::{Bytes, Seconds};
use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
};

/// The groups of this process whose limits hold for it. Which they are is read once; a limit is
/// read when it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Folders of the groups that have a memory controller, each from the process's own upwards.
    memory: Vec<Group>,
    /// The same for CPU time.
    cpu: Vec<Group>,
    /// The same for sets of CPUs.
    cpuset: Vec<Group>,
    /// Hierarchies in which the process's own group cannot be found below what is mounted: limits
    /// there are not known. Each as `/proc/self/mountinfo` names its mount.
    hidden: BTreeSet<PathBuf>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups of this process on this machine.
pub fn groups() -> &'static Groups {
    static GROUPS: LazyLock<Groups> = LazyLock::new(|| Groups::of(Path::new("/")));
    &GROUPS
}

/// Where hierarchies are mounted as a rule, below the root folder.
const USUAL: &str = "sys/fs/cgroup";

/// A mount of a hierarchy.
struct Mount {
    version: Version,
    /// The group that is mounted, as `/proc/self/cgroup` would name it.
    root: PathBuf,
    /// Where, below the root folder that is read.
    at: PathBuf,
    /// Controllers of version 1.
    controllers: Vec<String>,
}

impl Groups {
    /// Reads which groups there are, from the files `proc/self/cgroup` and `proc/self/mountinfo`
    /// below `root`. Without them there are none.
    pub fn of(root: &Path) -> Groups {
        let text = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let (own, mounted) = (text("proc/self/cgroup"), text("proc/self/mountinfo"));
        let mut mounts: Vec<Mount> = mounted.lines().filter_map(|line| mount(line, root)).collect();
        // Of several mounts of one hierarchy the one that shows the most ancestors goes first.
        mounts.sort_by_key(|mount| mount.root.components().count());
        let mut groups = Groups::default();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let names: Vec<&str> = controllers.split(',').filter(|name| !name.is_empty()).collect();
            for (controller, found) in [
                ("memory", &mut groups.memory),
                ("cpu", &mut groups.cpu),
                ("cpuset", &mut groups.cpuset),
            ] {
                let version = if names.is_empty() { Version::Two } else { Version::One };
                if version == Version::One && !names.contains(&controller) {
                    continue;
                }
                let of_it = |mount: &&Mount| {
                    mount.version == version
                        && (names.is_empty() || mount.controllers.iter().any(|c| c == controller))
                };
                let here: Vec<&Mount> = mounts.iter().filter(of_it).collect();
                match here.iter().find_map(|mount| mount.upwards(Path::new(path))) {
                    Some(folders) => found.extend(folders),
                    // Of the root group nothing is to be known.
                    None if here.is_empty() && path == "/" => {}
                    None => {
                        let at = here.first().map_or(root.join(USUAL), |mount| mount.at.clone());
                        groups.hidden.insert(at);
                    }
                }
            }
        }
        groups
    }

    /// The most memory that this process may take together with all others of its groups; `None`
    /// without a limit. The smallest of `memory.max` and `memory.high`, beyond which version 2
    /// kills and slows down, or of `memory.limit_in_bytes` of version 1.
    pub fn memory_limit(&self) -> Option<Bytes> {
        self.memory.iter().filter_map(Group::memory_limit).min().map(Bytes)
    }

    /// Memory that may still be taken below every limit; `None` without a limit. Pages of files
    /// that were not used lately do not count as taken: the kernel drops them first.
    pub fn memory_left(&self) -> Option<Bytes> {
        let left = |group: &Group| Some(group.memory_limit()?.saturating_sub(group.memory_used()?));
        self.memory.iter().filter_map(left).min().map(Bytes)
    }

    /// CPU time that this process may take each second together with all others of its groups, in
    /// CPUs: 0.5 for half of one CPU's time. `None` without a quota.
    pub fn cpu_quota(&self) -> Option<f64> {
        let quotas = self.cpu.iter().filter_map(Group::cpu_quota);
        quotas.min_by(f64::total_cmp)
    }

    /// Time for which a quota has kept threads waiting since the group was made, all CPUs together:
    /// of the group where that is most. `None` without a quota.
    pub fn stopped(&self) -> Option<Seconds> {
        let with_quota = self.cpu.iter().filter(|group| group.cpu_quota().is_some());
        with_quota.filter_map(Group::stopped).max_by(f64::total_cmp).map(Seconds)
    }

    /// The CPUs that the groups leave to this process; `None` where none of them tells.
    pub fn cpus(&self) -> Option<BTreeSet<usize>> {
        self.cpuset.iter().find_map(Group::cpus)
    }

    /// Where hierarchies are mounted in which this process's own group cannot be found: limits
    /// there are unknown.
    pub fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.hidden.iter().map(PathBuf::as_path)
    }
}

/// A mount of a hierarchy, from a line of `mountinfo` (proc_pid_mountinfo(5)); `None` for others.
fn mount(line: &str, root: &Path) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let (&[_, _, _, group, at, ..], &[kind, _, options, ..]) = (&left[..], &right[..]) else {
        return None;
    };
    let version = match kind {
        "cgroup" => Version::One,
        "cgroup2" => Version::Two,
        _ => return None,
    };
    let at = unescaped(at);
    Some(Mount {
        version,
        root: PathBuf::from(unescaped(group)),
        at: root.join(at.trim_start_matches('/')),
        controllers: options.split(',').map(str::to_owned).collect(),
    })
}

/// A path of `mountinfo`, where blanks, tabs, line ends and backslashes are octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (code, sign)| text.replace(code, sign))
}

impl Mount {
    /// The group of this path and all above it, as far as they are mounted here; `None` where the
    /// group is not below what is mounted. Seen from a cgroup namespace that begins elsewhere, a
    /// path or a mount's root begins with `/..`.
    fn upwards(&self, path: &Path) -> Option<Vec<Group>> {
        let below = path.strip_prefix(&self.root).ok()?;
        let leaves = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        if leaves(&self.root) || leaves(below) {
            return None;
        }
        let own = self.at.join(below);
        let folders = own.ancestors().take_while(|folder| folder.starts_with(&self.at));
        let group = |folder: &Path| Group { version: self.version, folder: folder.to_owned() };
        Some(folders.map(group).collect())
    }
}

/// From here on `memory.limit_in_bytes` means no limit: it is the largest multiple of a page.
const UNLIMITED: u64 = 1 << 62;

impl Group {
    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    /// A field of a file that has one a line, with a number each.
    fn field(&self, file: &str, names: &[&str]) -> Option<u64> {
        let text = self.text(file)?;
        let value = |name: &&str| {
            let line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
            text.lines().find_map(line)
        };
        names.iter().find_map(value)
    }

    fn memory_limit(&self) -> Option<u64> {
        match self.version {
            Version::One => self.number("memory.limit_in_bytes").filter(|&limit| limit < UNLIMITED),
            // A file that says `max` has no number.
            Version::Two => {
                ["memory.max", "memory.high"].iter().filter_map(|file| self.number(file)).min()
            }
        }
    }

    fn memory_used(&self) -> Option<u64> {
        let used = match self.version {
            Version::One => self.number("memory.usage_in_bytes"),
            Version::Two => self.number("memory.current"),
        };
        // Version 1 counts what groups below have under the first name.
        let droppable = self.field("memory.stat", &["total_inactive_file", "inactive_file"]);
        Some(used?.saturating_sub(droppable.unwrap_or(0)))
    }

    fn cpu_quota(&self) -> Option<f64> {
        let (quota, period) = match self.version {
            Version::One => (self.number("cpu.cfs_quota_us")?, self.number("cpu.cfs_period_us")?),
            Version::Two => {
                let text = self.text("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
        };
        (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
    }

    /// Seconds.
    fn stopped(&self) -> Option<f64> {
        match self.version {
            Version::One => Some(self.field("cpu.stat", &["throttled_time"])? as f64 * 1e-9),
            Version::Two => Some(self.field("cpu.stat", &["throttled_usec"])? as f64 * 1e-6),
        }
    }

    fn cpus(&self) -> Option<BTreeSet<usize>> {
        let files: &[&str] = match self.version {
            Version::One => &["cpuset.effective_cpus", "cpuset.cpus"],
            Version::Two => &["cpuset.cpus.effective"],
        };
        let cpus = files.iter().find_map(|file| self.text(file)).map(|text| cpu_list(&text));
        cpus.filter(|cpus| !cpus.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up machine: files below a folder that goes away.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    /// What is read of a machine.
    #[derive(Debug, Default, PartialEq)]
    struct Read {
        memory: Option<u64>,
        left: Option<u64>,
        quota: Option<f64>,
        stopped: Option<f64>,
        cpus: Option<usize>,
        hidden: usize,
    }

    #[track_caller]
    fn assert_read(name: &str, files: &[(&str, &str)], wanted: Read) {
        let root = machine(files);
        let groups = Groups::of(root.path());
        let read = Read {
            memory: groups.memory_limit().map(|bytes| bytes.0),
            left: groups.memory_left().map(|bytes| bytes.0),
            quota: groups.cpu_quota(),
            stopped: groups.stopped().map(|time| time.0),
            cpus: groups.cpus().map(|cpus| cpus.len()),
            hidden: groups.hidden().count(),
        };
        assert_eq!(read, wanted, "{name}");
    }

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_smallest_limit_of_own_group_and_ancestors_holds_in_version_2() {
        let memory = Read { memory: Some(1000), left: Some(700), ..Read::default() };
        assert_read("no files at all", &[], Read::default());
        assert_read(
            "a container with a cgroup namespace, whose own group is the mount's root",
            &[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/memory.max", "1000\n"),
                ("sys/fs/cgroup/memory.high", "max\n"),
                ("sys/fs/cgroup/memory.current", "500\n"),
                ("sys/fs/cgroup/memory.stat", "anon 300\nfile 200\ninactive_file 200\n"),
                ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
                ("sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 250000\n"),
                ("sys/fs/cgroup/cpuset.cpus.effective", "0-1,4\n"),
            ],
            Read { quota: Some(1.5), stopped: Some(0.25), cpus: Some(3), ..memory },
        );
        let slurm = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n";
        let job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
        let task = format!("{job}/step_0/user/task_0");
        assert_read(
            "Slurm: the limits stand on the job, four folders above the process",
            &[
                ("proc/self/cgroup", slurm),
                ("proc/self/mountinfo", V2),
                (&format!("{job}/memory.max"), "1000"),
                (&format!("{job}/memory.current"), "300"),
                (&format!("{job}/cpu.max"), "max 100000"),
                (&format!("{job}/cpuset.cpus.effective"), "2-3"),
                (&format!("{task}/memory.max"), "max"),
                (&format!("{task}/memory.current"), "200"),
                (&format!("{task}/cpuset.cpus.effective"), "3"),
            ],
            Read { cpus: Some(1), memory: Some(1000), left: Some(700), ..Read::default() },
        );
        let pod =
            "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice";
        let container = format!("{pod}/cri-containerd-y.scope");
        assert_read(
            "Kubernetes without a namespace: the pod has less memory left than its container, and \
             the container has the smaller quota",
            &[
                (
                    "proc/self/cgroup",
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice/\
                     cri-containerd-y.scope\n",
                ),
                ("proc/self/mountinfo", V2),
                (&format!("{pod}/memory.max"), "4000"),
                (&format!("{pod}/memory.current"), "3900"),
                (&format!("{pod}/cpu.max"), "400000 100000"),
                (&format!("{container}/memory.max"), "2000"),
                (&format!("{container}/memory.high"), "1500"),
                (&format!("{container}/memory.current"), "1000"),
                (&format!("{container}/cpu.max"), "50000 100000"),
                (&format!("{container}/cpu.stat"), "throttled_usec 3000000"),
            ],
            Read {
                memory: Some(1500),
                left: Some(100),
                quota: Some(0.5),
                stopped: Some(3.0),
                ..Read::default()
            },
        );
    }

    #[test]
    fn the_smallest_limit_of_own_group_and_ancestors_holds_in_version_1() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "12:memory:/slurm/uid_1000/job_7/step_0/task_0\n\
                   5:cpu,cpuacct:/slurm/uid_1000/job_7/step_0/task_0\n\
                   4:cpuset:/slurm/uid_1000/job_7/step_0\n\
                   1:name=systemd:/user.slice\n\
                   0::/user.slice\n";
        let memory = "sys/fs/cgroup/memory/slurm/uid_1000/job_7";
        let cpu = "sys/fs/cgroup/cpu,cpuacct/slurm/uid_1000/job_7";
        assert_read(
            "Slurm on version 1 in hybrid mode: limits on the job",
            &[
                ("proc/self/cgroup", own),
                ("proc/self/mountinfo", mounts),
                (&format!("{memory}/memory.limit_in_bytes"), "1000"),
                (&format!("{memory}/memory.usage_in_bytes"), "600"),
                (&format!("{memory}/memory.stat"), "inactive_file 1\ntotal_inactive_file 300"),
                (&format!("{memory}/step_0/memory.limit_in_bytes"), "9223372036854771712"),
                (&format!("{memory}/step_0/memory.usage_in_bytes"), "600"),
                (&format!("{cpu}/cpu.cfs_quota_us"), "10000"),
                (&format!("{cpu}/cpu.cfs_period_us"), "100000"),
                (&format!("{cpu}/cpu.stat"), "nr_periods 10\nthrottled_time 900000000"),
                (&format!("{cpu}/step_0/task_0/cpu.cfs_quota_us"), "-1"),
                (&format!("{cpu}/step_0/task_0/cpu.cfs_period_us"), "100000"),
                ("sys/fs/cgroup/cpuset/slurm/uid_1000/job_7/cpuset.cpus", "0-3"),
                ("sys/fs/cgroup/cpuset/slurm/uid_1000/job_7/step_0/cpuset.cpus", "1"),
            ],
            Read {
                memory: Some(1000),
                left: Some(700),
                quota: Some(0.1),
                stopped: Some(0.9),
                cpus: Some(1),
                hidden: 0,
            },
        );
        assert_read(
            "Docker on version 1 without a namespace: the container's own group is mounted",
            &[
                ("proc/self/cgroup", "9:memory:/docker/abc\n3:cpu:/docker/abc/inner\n"),
                (
                    "proc/self/mountinfo",
                    "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:9 - cgroup cgroup \
                     rw,memory\n\
                     36 31 0:33 /docker/abc /my\\040groups ro - cgroup cgroup rw,cpu\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "300"),
                ("my groups/cpu.cfs_quota_us", "200000"),
                ("my groups/cpu.cfs_period_us", "100000"),
                ("my groups/inner/cpu.cfs_quota_us", "300000"),
                ("my groups/inner/cpu.cfs_period_us", "100000"),
            ],
            Read { memory: Some(1000), left: Some(700), quota: Some(2.0), ..Read::default() },
        );
    }

    #[test]
    fn a_group_that_is_not_below_the_mount_is_said_to_be_hidden() {
        let limit = ("sys/fs/cgroup/memory.max", "1000");
        for (own, mounts) in [
            // The namespace begins below what is mounted.
            ("0::/\n", V2.replace(" / /sys", " /../.. /sys")),
            // The process was moved out of its namespace.
            ("0::/../other\n", V2.to_owned()),
            // Another group is mounted.
            ("0::/mine\n", V2.replace(" / /sys", " /yours /sys")),
            // Nothing is mounted.
            ("0::/mine\n", String::new()),
        ] {
            assert_read(
                own,
                &[("proc/self/cgroup", own), ("proc/self/mountinfo", &mounts), limit],
                Read { hidden: 1, ..Read::default() },
            );
        }
        // A second mount shows it.
        let both = V2.replace(" / /sys/fs/cgroup", " /yours /elsewhere") + V2;
        assert_read(
            "two mounts",
            &[("proc/self/cgroup", "0::/mine\n"), ("proc/self/mountinfo", &both), limit],
            Read { memory: Some(1000), ..Read::default() },
        );
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        for text in ["", "max", "-1", "99999999999999999999999", "ten"] {
            assert_read(
                text,
                &[
                    ("proc/self/cgroup", "0::/\nno line of it\n"),
                    ("proc/self/mountinfo", &format!("not a mount\n{V2}")),
                    ("sys/fs/cgroup/memory.max", text),
                    ("sys/fs/cgroup/cpu.max", text),
                ],
                Read::default(),
            );
        }
    }
}
