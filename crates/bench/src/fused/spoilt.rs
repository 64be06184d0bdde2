//! Errors that kernels make, each planted and found by the verification.

use super::Rows;
use crate::{Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, host::Host};
use fizeau_domain::{
    case::{
        Fused::{self, Norm, Swiglu},
        FusedPoint,
    },
    dtype::Dtype::{self, Bf16, Fp8, Fp8Block},
    kernel::Operation,
    outcome::Check,
};

/// Rows and width of the points: two whole blocks of scales and a part of one, more rows than
/// repeat.
const ROWS: u32 = 70;
const WIDTH: u32 = 300;

/// A kernel that does a part of its work wrong.
enum Error {
    /// Before it runs.
    Before(fn(&mut Rows<'_>)),
    /// What it leaves.
    After(fn(&mut Rows<'_>)),
}

/// Elements of an array of rows of the point's width.
const CELLS: usize = (ROWS * WIDTH) as usize;
/// Scales of all rows.
const SCALES: usize = (ROWS * 3) as usize;

fn check(fused: Fused, output: Dtype, error: Option<&Error>) -> Vec<Check> {
    let device = Host.open(0).expect("there is always a host");
    let rank = Rank { device: device.as_ref(), peers: &Alone };
    let point = FusedPoint { fused, output, rows: ROWS, width: WIDTH };
    let kernels = device.kernels(Operation::Fused(fused, output));
    assert!(!kernels.is_empty(), "the host has kernels of {fused}/{output}");
    let of = |kernel| {
        let mut rows = Rows::new(&point, kernel, rank).expect("it is made ready");
        rows.poison().expect("it is poisoned");
        if let Some(Error::Before(plant)) = error {
            plant(&mut rows);
        }
        rows.enqueue(1).expect("it runs");
        if let Some(Error::After(plant)) = error {
            plant(&mut rows);
        }
        rows.verify().expect("it is read back")
    };
    kernels.iter().map(of).collect()
}

#[test]
fn what_is_right_passes() {
    for (fused, outputs) in
        [(Fused::Norm, &FusedPoint::OUTPUTS[..]), (Fused::Swiglu, &[Dtype::Bf16, Dtype::Fp8Block])]
    {
        for &output in outputs {
            for found in check(fused, output, None) {
                assert!(found.passed(), "{fused}/{output}: {found:?}");
                assert!(found.compared >= CELLS as u64, "{fused}/{output}: {found:?}");
            }
        }
    }
}

/// What is planted, and in which operation.
type Planted = (&'static str, Fused, Dtype, Error);

/// What kernels do wrong.
fn errors_of_kernels() -> Vec<Planted> {
    vec![
        (
            "epsilon is left out",
            Norm,
            Bf16,
            Error::Before(|rows| rows.turns.params[0].epsilon = 0.0),
        ),
        (
            "the residual is not written back",
            Norm,
            Bf16,
            // It is updated where it was read.
            Error::Before(|rows| rows.turns.params[0].updated = rows.turns.params[0].residual),
        ),
        (
            "the residual is the input",
            Norm,
            Bf16,
            Error::Before(|rows| rows.turns.params[0].residual = rows.turns.params[0].input),
        ),
        (
            "weights are those of the next column",
            Norm,
            Fp8,
            Error::Before(|rows| rows.turns.params[0].weight += 2),
        ),
        (
            "the scale is not divided by",
            Norm,
            Fp8,
            Error::Before(|rows| rows.turns.params[0].inverse = 1.0),
        ),
        (
            "gate and up are exchanged",
            Swiglu,
            Bf16,
            Error::Before(|rows| {
                let input = &rows.inputs[0];
                input.change(rows.turns.device, 2 * CELLS, |all: &mut [u16]| {
                    all.chunks_mut(2 * WIDTH as usize)
                        .for_each(|row| row.rotate_left(WIDTH as usize));
                });
            }),
        ),
        (
            "the last row is left out",
            Swiglu,
            Bf16,
            Error::Before(|rows| rows.turns.params[0].rows -= 1),
        ),
    ]
}

/// What they leave wrong.
fn errors_in_results() -> Vec<Planted> {
    vec![
        ("nothing was done", Norm, Bf16, Error::After(|rows| rows.poison().expect("poison"))),
        (
            "a scale is that of the next block",
            Norm,
            Fp8Block,
            Error::After(|rows| {
                rows.scales.change(rows.turns.device, SCALES, |all: &mut [f32]| {
                    all[100] = all[101];
                })
            }),
        ),
        (
            "all of a row has the scale of its first block",
            Swiglu,
            Fp8Block,
            Error::After(|rows| {
                rows.scales.change(rows.turns.device, SCALES, |all: &mut [f32]| {
                    all.chunks_mut(3).for_each(|row| row.fill(row[0]));
                })
            }),
        ),
        (
            "a code is the next one",
            Norm,
            Fp8Block,
            Error::After(|rows| {
                rows.output.change(rows.turns.device, CELLS, |all: &mut [u8]| {
                    all[4_321] ^= 1;
                })
            }),
        ),
        (
            "an output is the next number",
            Norm,
            Bf16,
            Error::After(|rows| {
                rows.output.change(rows.turns.device, CELLS, |all: &mut [u16]| {
                    all[4_321] ^= 1;
                })
            }),
        ),
        (
            "a sum with the residual is off by a bit",
            Norm,
            Fp8,
            Error::After(|rows| {
                rows.updated.change(rows.turns.device, CELLS, |all: &mut [u16]| {
                    all[CELLS - 1] ^= 1;
                })
            }),
        ),
        (
            "two rows are exchanged",
            Swiglu,
            Fp8Block,
            Error::After(|rows| {
                rows.output.change(rows.turns.device, CELLS, |all: &mut [u8]| {
                    let (one, other) = all.split_at_mut(WIDTH as usize);
                    one.swap_with_slice(&mut other[..WIDTH as usize]);
                })
            }),
        ),
    ]
}

#[test]
fn each_planted_error_is_found() {
    for (what, fused, output, error) in errors_of_kernels().iter().chain(&errors_in_results()) {
        for found in check(*fused, *output, Some(error)) {
            assert!(!found.passed() && found.wrong > 0, "{what}: {found:?}");
        }
    }
}
