//! Axes of matrix products, single and grouped.

use crate::{
    case::{Contents, GemmPoint, GroupedPoint, Layout, Routing},
    dtype::Dtype,
};
use serde::Deserialize;

/// The matrix products.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmAxes {
    /// Element types.
    pub dtypes: Vec<Dtype>,
    /// `[m, n, k]` each.
    pub shapes: Vec<[u32; 3]>,
    /// How B stands: each element type is measured in those of them that it has, or without a
    /// layout where it has none to choose.
    #[serde(default = "nn_alone")]
    pub layouts: Vec<Layout>,
    /// What stands in the operands.
    #[serde(default = "random_alone")]
    pub contents: Vec<Contents>,
}

impl GemmAxes {
    /// The layouts that the products of an element type are measured in.
    pub fn layouts_of(&self, dtype: Dtype) -> Vec<Layout> {
        match Layout::of(dtype) {
            [only] => vec![*only],
            _ => self.layouts.clone(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for &[m, n, k] in &self.shapes {
            let (dtype, contents, layout) = (Dtype::F32, Contents::Random, Layout::Nn);
            let point = GemmPoint { dtype, m, n, k, layout, contents };
            point.check().map_err(|why| format!("[gemm] shapes: {why}"))?;
        }
        if self.contents.is_empty() {
            return Err("[gemm] contents: at least one of random, integers and zeros".into());
        }
        if self.layouts.is_empty() {
            return Err("[gemm] layouts: at least one of nn and nt".into());
        }
        Ok(())
    }
}

/// The grouped products.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupedAxes {
    /// Element types.
    pub dtypes: Vec<Dtype>,
    /// `[m, n, k, groups]` each, with the rows of all groups together.
    pub shapes: Vec<[u32; 4]>,
    /// How rows are dealt to groups.
    pub routings: Vec<Routing>,
}

impl GroupedAxes {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.routings.is_empty() {
            return Err("[grouped] routings: at least one of balanced and skewed".into());
        }
        let (dtype, routing) = (Dtype::F32, Routing::Balanced);
        self.shapes.iter().try_for_each(|&[m, n, k, groups]| {
            let point = GroupedPoint { dtype, m, n, k, groups, routing };
            point.check().map_err(|why| format!("[grouped] shapes: {why}"))
        })
    }
}

fn nn_alone() -> Vec<Layout> {
    vec![Layout::Nn]
}

fn random_alone() -> Vec<Contents> {
    vec![Contents::Random]
}
