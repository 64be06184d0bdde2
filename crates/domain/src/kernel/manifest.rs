//! `kernels/kernels.toml`: what kernels there are, and how each is launched. kernels/README.md
//! explains the fields. A user's kernel comes with a section of the same fields
//! (docs/your-kernel.md).

use super::Operation;
use crate::text::counted;
use serde::Deserialize;

/// All kernels.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The files, better guesses first.
    pub file: Vec<File>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Below `kernels/`; of a user's kernel the path that was given, which its section leaves out.
    #[serde(default)]
    pub path: String,
    /// Targets that it is compiled to; none of a library for the host.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The virtual target whose text is kept for devices that came later.
    pub ptx: Option<String>,
    /// Whether its text is right for AMD's targets that are not listed, such as those that came
    /// later: it is then compiled for the device's own, since AMD has no virtual target.
    #[serde(default)]
    pub portable: bool,
    /// Its entries.
    pub kernels: Vec<KernelRow>,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRow {
    /// As the device lists it: `stream/copy`, `gemm/bf16`, `util/clock`.
    pub operation: Operation,
    /// The last segment of a case's id.
    pub name: String,
    /// The symbol.
    pub entry: String,
    /// Threads of a block; none on the host.
    #[serde(default)]
    pub threads: u32,
    /// How the number of blocks is found.
    #[serde(default)]
    pub grid: Grid,
    /// Blocks for each one that a launch asks for.
    #[serde(default = "one")]
    pub per_unit: u32,
    /// If set, grid = ceil(length / elements).
    pub elements: Option<u64>,
    /// Bytes of dynamic shared memory.
    #[serde(default)]
    pub shared: u32,
    /// Bytes of the device's memory for each block, zeros at first, which the kernel is given.
    #[serde(default)]
    pub scratch: u64,
    /// How a launch's repetitions are made.
    #[serde(default)]
    pub repeat: Repeat,
    /// Blocks of a cluster.
    #[serde(default = "one")]
    pub cluster: u32,
    /// Bytes that rows of matrices must be a multiple of.
    #[serde(default = "one")]
    pub alignment: u32,
    /// If set, one block for each tile of this many queries, head and sequence.
    pub tile: Option<u32>,
    /// Dimensions of queries and of values that it is made for, at most.
    pub dims_max: Option<[u32; 2]>,
    /// If set, one cluster for each tile of C of this many rows and columns.
    pub tiles: Option<[u32; 2]>,
    /// Rows of C that it is made for, at least and at most.
    pub rows_min: Option<u32>,
    /// See `rows_min`.
    pub rows_max: Option<u32>,
    /// How full the rounds of other kernels' tiles are, at most, in products that it is made for.
    pub rounds: Option<Rounds>,
    /// Columns of C that it is made for, at most.
    pub columns_max: Option<u32>,
    /// Tensor maps that follow the parameters.
    #[serde(default)]
    pub maps: Vec<Map>,
    /// Instructions that scripts/kernels.sh looks for.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Multiplications of attention's two products that it counts.
    pub products: Option<Products>,
    /// Exponentials that it counts.
    pub exps: Option<Exps>,
    /// Registers of a thread of each warpgroup, that it looks for where warpgroups exchange them.
    #[serde(default)]
    pub registers: Vec<u32>,
}

/// How many multiplications of attention's two products a kernel's machine code has, as
/// scripts/kernels.sh counts them: kernels/README.md has the formula.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// The instruction that multiplies queries and keys.
    pub scores: String,
    /// The one that multiplies weights and values.
    pub sums: String,
    /// Times that the text of either stands in the kernel.
    pub copies: [u32; 2],
    /// Keys of a tile, where they are not those of its exponentials.
    pub keys: Option<u32>,
    /// Times that a tile goes through the text of its scores.
    pub rounds: Option<u32>,
    /// Numbers whose sum an element of a left operand is, where it is not one.
    pub terms: Option<u32>,
}

/// How many exponentials a kernel's machine code has, as scripts/kernels.sh counts them:
/// `copies x rows x (keys + shared_by) / threads`, and at most `others` more.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exps {
    /// Rows of a tile of scores.
    pub rows: u32,
    /// Its columns.
    pub keys: u32,
    /// Threads that share the tile.
    pub threads: u32,
    /// Of them those that share a row: each makes the row's correction.
    pub shared_by: u32,
    /// Times that a tile's text stands in the kernel.
    pub copies: u32,
    /// At most, of other parts, such as combinations.
    #[serde(default)]
    pub others: u32,
}

/// Products whose tiles leave units of a device without work: made for kernels by which blocks
/// share tiles. All tiles are made in rounds, in each of which a unit makes one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Rows and columns of a tile of C.
    pub tile: [u32; 2],
    /// Tiles over the places of all rounds, at most.
    pub filled_max: f64,
}

impl Rounds {
    /// Tiles of a product of `m` rows and `n` columns over the places that their rounds have on a
    /// device of `units` units.
    pub fn filled(&self, m: u32, n: u32, units: u32) -> f64 {
        let [rows, columns] = self.tile.map(u64::from);
        let tiles = u64::from(m).div_ceil(rows) * u64::from(n).div_ceil(columns);
        let places = tiles.next_multiple_of(u64::from(units.max(1)));
        tiles as f64 / places.max(1) as f64
    }

    /// What the kernel needs of a product that it is not made for.
    pub fn needs(&self, m: u32, n: u32, units: u32) -> Option<String> {
        let Rounds { tile: [rows, columns], filled_max } = self;
        let filled = self.filled(m, n, units);
        let percent = |share: f64| (share * 100.0).round();
        (filled > *filled_max).then(|| {
            format!(
                "tiles of {rows} x {columns} that fill {} % of their rounds on {} or less; \
                 these fill {} %",
                percent(*filled_max),
                counted(units as usize, "unit"),
                percent(filled),
            )
        })
    }
}

/// How the number of blocks is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grid {
    /// As the launch asks for.
    #[default]
    Units,
    /// One.
    One,
}

/// How a launch's repetitions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// By one launch for each repetition.
    #[default]
    Launches,
    /// By the kernel itself, which is told their number.
    Inside,
}

/// A tensor map.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Of which matrix.
    pub operand: Operand,
    /// Elements that one copy moves, along the row first.
    #[serde(rename = "box")]
    pub size: [u32; 2],
    /// Bytes of the pattern in which rows are stored in shared memory: 0, 32, 64 or 128.
    #[serde(default)]
    pub swizzle: u32,
    /// Bytes that stay together in that pattern: 16, or 32 in one of 128.
    #[serde(default = "sixteen")]
    pub atom: u32,
}

fn sixteen() -> u32 {
    16
}

/// A matrix of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// Left.
    A,
    /// Right.
    B,
    /// Their product.
    C,
    /// Queries of attention: a row for each token, all heads beside each other.
    Q,
    /// Its keys.
    K,
    /// Its values.
    V,
}

fn one() -> u32 {
    1
}

impl File {
    /// The targets to load the file for on a device that runs `targets`, its own first: best first,
    /// since a compiler may not know one. None where the file has no kernel for the device.
    pub fn images<'t>(&'t self, targets: &'t [String]) -> Vec<&'t str> {
        let mut images: Vec<&str> = self.made_for(targets).collect();
        if let Some(ptx) = self.ptx.as_deref() {
            let own = targets.iter().find(|target| number(target).is_some());
            let later = own.filter(|own| number(own) >= number(ptx));
            images.extend(later.filter(|_| images.is_empty()).map(String::as_str));
            images.extend(later.map(|_| ptx));
        }
        if self.portable && images.is_empty() {
            images.extend(targets.iter().find(|target| is_amd(target)).map(String::as_str));
        }
        images
    }

    /// Its name without its folder and its ending: `sm90_wgmma`.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    /// Those of the file's own targets that a device runs.
    fn made_for<'t>(&'t self, targets: &'t [String]) -> impl Iterator<Item = &'t str> {
        let families = self.targets.iter().filter_map(|target| family(target));
        let all = families.chain(self.targets.iter().map(String::as_str));
        all.filter(|target| targets.iter().any(|runs| runs == target))
    }

    /// Whether the file was written with a device in mind that runs `targets`, and not for older
    /// ones alone.
    pub fn is_made_for(&self, targets: &[String]) -> bool {
        self.made_for(targets).next().is_some()
    }
}

/// The target whose binaries run on every device of a family, where a file that is written for one
/// of them is right for all: machine code for `sm_120f` is that for `sm_120a` and `sm_121a`, byte
/// by byte, in every kernel that is listed for `sm_120a`. Compute capability 10.0 and 10.3 have
/// products of FP4 that differ.
pub fn family(target: &str) -> Option<&'static str> {
    (target == "sm_120a").then_some("sm_120f")
}

/// 80 of `sm_80` and of `compute_80`; none of targets that only one device or family runs, such as
/// `sm_90a`.
pub fn number(target: &str) -> Option<u32> {
    target.split_once('_')?.1.parse().ok()
}

/// Whether it is a target of AMD's compilers, and no other feature of a device.
fn is_amd(target: &str) -> bool {
    target.starts_with("gfx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_names_each_kernel_once() {
        let manifest: Manifest =
            toml::from_str(include_str!("../../../../kernels/kernels.toml")).expect("kernels.toml");
        let mut names: Vec<_> = manifest
            .file
            .iter()
            .flat_map(|file| &file.kernels)
            .map(|row| (row.operation.to_string(), &row.name))
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert!(count > 0 && names.len() == count);
        for file in &manifest.file {
            assert!(!file.path.is_empty() && !file.targets.is_empty());
            assert!(file.kernels.iter().all(|row| row.threads > 0), "{}", file.path);
        }
    }

    #[test]
    fn products_that_leave_units_without_work_are_for_tiles_that_blocks_share() {
        let rounds = Rounds { tile: [128, 256], filled_max: 0.7 };
        // MI300X has 304 units: 128, 32, 512, 2048 and 648 tiles.
        for ([m, n], filled, is_for) in [
            ([2048, 2048], 128.0 / 304.0, true),
            ([256, 4096], 32.0 / 304.0, true),
            ([4096, 4096], 512.0 / 608.0, false),
            ([8192, 8192], 2048.0 / 2128.0, false),
            ([4608, 4608], 648.0 / 912.0, false),
            ([4096, 5120], 640.0 / 912.0, false),
            ([2304, 4608], 324.0 / 608.0, true),
            ([1, 1], 1.0 / 304.0, true),
        ] {
            assert_eq!(rounds.filled(m, n, 304), filled, "{m} x {n}");
            assert_eq!(rounds.needs(m, n, 304).is_none(), is_for, "{m} x {n}");
        }
        assert_eq!(rounds.filled(128, 256, 1), 1.0);
        let needs = rounds.needs(4096, 4096, 304);
        let says = "tiles of 128 x 256 that fill 70 % of their rounds on 304 units or less; these \
                    fill 84 %";
        assert_eq!(needs.as_deref(), Some(says));
    }

    #[test]
    fn a_device_gets_its_own_target_else_a_compatible_one_else_the_virtual_one() {
        let file = |targets: &[&str], ptx: Option<&str>| File {
            path: String::new(),
            targets: targets.iter().map(|target| (*target).into()).collect(),
            ptx: ptx.map(str::to_owned),
            portable: false,
            kernels: Vec::new(),
        };
        let device = |targets: &[&str]| -> Vec<String> {
            targets.iter().map(|target| (*target).to_owned()).collect()
        };
        let portable = file(&["sm_80", "sm_90a", "sm_120a"], Some("compute_80"));
        let special = file(&["sm_90a"], None);
        let hopper = device(&["sm_90a", "sm_90"]);
        assert_eq!(portable.images(&hopper), ["sm_90a", "compute_80"]);
        assert_eq!(special.images(&hopper), ["sm_90a"]);
        let ada = device(&["sm_89", "sm_87", "sm_86", "sm_80"]);
        assert_eq!(portable.images(&ada), ["sm_80", "compute_80"]);
        assert_eq!(special.images(&ada), Vec::<&str>::new());
        // A family shares its binaries; a compiler that does not know it knows the device's own.
        let blackwell = device(&["sm_120a", "sm_120f", "sm_120"]);
        assert_eq!(portable.images(&blackwell), ["sm_120f", "sm_120a", "compute_80"]);
        let spark = device(&["sm_121a", "sm_120f", "sm_121", "sm_120"]);
        assert_eq!(portable.images(&spark), ["sm_120f", "compute_80"]);
        assert!(portable.is_made_for(&spark) && !special.is_made_for(&spark));
        // No compiler knows it yet: its own target, then what its driver compiles.
        let unknown = device(&["sm_130a", "sm_130"]);
        assert_eq!(portable.images(&unknown), ["sm_130", "compute_80"]);
        assert!(special.images(&unknown).is_empty() && !portable.is_made_for(&unknown));
        let volta = device(&["sm_70"]);
        assert!(portable.images(&volta).is_empty());
    }

    #[test]
    fn a_portable_text_is_compiled_for_a_target_of_amd_that_is_not_listed() {
        let file = |portable| File {
            path: "stream/portable.cu".into(),
            targets: vec!["gfx90a".into(), "gfx942".into()],
            ptx: None,
            portable,
            kernels: Vec::new(),
        };
        let device = |target: &str| vec![target.to_owned(), "wave32".to_owned()];
        assert_eq!(file(true).images(&device("gfx942")), ["gfx942"]);
        assert_eq!(file(true).images(&device("gfx1350")), ["gfx1350"]);
        assert!(!file(true).is_made_for(&device("gfx1350")));
        assert!(file(false).images(&device("gfx1350")).is_empty());
        // A driver that tells no target: nothing can be compiled.
        assert!(file(true).images(&["wave32".to_owned()]).is_empty());
        assert_eq!(file(true).stem(), "portable");
    }
}
