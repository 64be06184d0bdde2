//! `kernels/kernels.toml`: what kernels there are, and how each is launched. kernels/README.md
//! explains the fields.

use crate::kernel::Operation;
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
    /// Below `kernels/`.
    pub path: String,
    /// Targets that it is compiled to.
    pub targets: Vec<String>,
    /// The virtual target whose text is kept for devices that came later.
    pub ptx: Option<String>,
    /// Its entries.
    pub kernels: Vec<Row>,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// As the device lists it: `stream/copy`, `gemm/bf16`, `util/clock`.
    pub operation: Operation,
    /// The last segment of a case's id.
    pub name: String,
    /// The symbol.
    pub entry: String,
    /// Threads of a block.
    pub threads: u32,
    /// How the number of blocks is found.
    #[serde(default)]
    pub grid: Grid,
    /// Blocks for each one that a launch asks for.
    #[serde(default = "one")]
    pub per_unit: u32,
    /// One block for each so many elements instead.
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
    /// One block for each so many queries of each head and sequence instead.
    pub tile: Option<u32>,
    /// Dimensions of queries and of values that it is made for, at most.
    pub dims_max: Option<[u32; 2]>,
    /// Rows of C that it is made for, at most.
    pub rows_max: Option<u32>,
    /// Tensor maps that follow the parameters.
    #[serde(default)]
    pub maps: Vec<Map>,
    /// Instructions that scripts/kernels.sh looks for.
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
    /// By so many launches.
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
    /// The target to compile to for a device that runs `targets`, its own first; none where the
    /// file has no kernel for it.
    pub fn target<'t>(&'t self, targets: &'t [String]) -> Option<&'t str> {
        let exact = self.targets.iter().find(|target| targets.contains(target));
        let own = targets.iter().find(|target| number(target).is_some());
        let later = || {
            let oldest = number(self.ptx.as_deref()?)?;
            own.filter(|own| number(own).is_some_and(|own| own >= oldest))
        };
        exact.or_else(later).map(String::as_str)
    }
}

/// 80 of `sm_80` and of `compute_80`; none of targets that only one device runs, such as `sm_90a`.
fn number(target: &str) -> Option<u32> {
    target.split_once('_')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_names_each_kernel_once() {
        let manifest: Manifest =
            toml::from_str(include_str!("../../../kernels/kernels.toml")).expect("kernels.toml");
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
    }

    #[test]
    fn a_device_gets_its_own_target_else_a_compatible_one_else_the_virtual_one() {
        let file = |targets: &[&str], ptx: Option<&str>| File {
            path: String::new(),
            targets: targets.iter().map(|target| (*target).into()).collect(),
            ptx: ptx.map(str::to_owned),
            kernels: Vec::new(),
        };
        let device = |targets: &[&str]| -> Vec<String> {
            targets.iter().map(|target| (*target).to_owned()).collect()
        };
        let portable = file(&["sm_80", "sm_90a", "sm_120a"], Some("compute_80"));
        let special = file(&["sm_90a"], None);
        let hopper = device(&["sm_90a", "sm_90"]);
        assert_eq!(portable.target(&hopper), Some("sm_90a"));
        assert_eq!(special.target(&hopper), Some("sm_90a"));
        let ada = device(&["sm_89", "sm_87", "sm_86", "sm_80"]);
        assert_eq!((portable.target(&ada), special.target(&ada)), (Some("sm_80"), None));
        let spark = device(&["sm_121a", "sm_121", "sm_120"]);
        assert_eq!(portable.target(&spark), Some("sm_121"));
        let volta = device(&["sm_70"]);
        assert_eq!(portable.target(&volta), None);
    }
}
