//! Errors that kernels of `top_k` make, each planted and found by the verification.

use super::top_k::TopK;
use crate::{Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, host::Host};
use fizeau_domain::{
    case::{Sparse, SparseTopK},
    kernel::Operation,
    outcome::Check,
    units::Bytes,
};

/// More rows than repeat, and lengths that no vector divides.
const POINT: SparseTopK = SparseTopK { rows: 9, context: 5003, selected: 301 };
const CONTEXT: usize = 5003;
const SELECTED: usize = 301;

/// What a kernel does wrong before it runs, and what it leaves wrong.
struct Planted {
    what: &'static str,
    before: fn(&mut TopK<'_>),
    after: fn(&mut TopK<'_>),
}

fn check(point: &SparseTopK, planted: Option<&Planted>) -> Vec<Check> {
    let device = Host.open(0).expect("there is always a host");
    let rank = Rank { device: device.as_ref(), peers: &Alone };
    let kernels = device.kernels(Operation::Sparse(Sparse::TopK));
    assert!(!kernels.is_empty(), "the host has kernels of sparse/top_k");
    let check = |kernel| {
        let mut top_k = TopK::new(point, kernel, rank).expect("it is made ready");
        top_k.poison().expect("it is poisoned");
        planted.inspect(|planted| (planted.before)(&mut top_k));
        top_k.enqueue(1).expect("it runs");
        planted.inspect(|planted| (planted.after)(&mut top_k));
        top_k.verify().expect("it is read back")
    };
    kernels.iter().map(check).collect()
}

#[test]
fn what_is_right_passes() {
    // Whole rows and parts of one, rows of which all is wanted, and one number.
    for (rows, context, selected) in [
        (9, 5003, 301),
        (1, 70_001, 2048),
        (2, 40_000, 100),
        (3, 2048, 2048),
        (5, 17, 16),
        (1, 1, 1),
        (4, 9000, 1),
    ] {
        for found in check(&SparseTopK { rows, context, selected }, None) {
            assert!(found.passed(), "{rows} x {context}, {selected}: {found:?}");
            assert_eq!(found.compared, u64::from(rows * selected));
        }
    }
}

/// All of an array of words.
fn words(top_k: &TopK<'_>, logits: bool) -> Vec<u32> {
    let buffer = if logits { &top_k.logits } else { &top_k.selection };
    let mut words = vec![0; buffer.size.0 as usize / 4];
    let bytes = bytemuck::cast_slice_mut(&mut words);
    top_k.device.read(buffer, Bytes(0), bytes).expect("it is read");
    words
}

/// Changes the places that were left.
fn change(top_k: &TopK<'_>, with: impl Fn(&mut [u32])) {
    let mut places = words(top_k, false);
    with(&mut places);
    let bytes = bytemuck::cast_slice(&places);
    top_k.device.write(&top_k.selection, Bytes(0), bytes).expect("it is written");
}

/// Of the numbers that equal the least selected one of the first row, one that was selected and one
/// that was not.
fn tie(top_k: &TopK<'_>) -> (u32, u32) {
    let logits = words(top_k, true)[..CONTEXT].to_vec();
    let selected = words(top_k, false)[..SELECTED].to_vec();
    let value = |place: u32| f32::from_bits(logits[place as usize]);
    let least = selected.iter().copied().min_by(|&a, &b| value(a).total_cmp(&value(b)));
    let least = value(least.expect("places are selected"));
    let equal = (0..CONTEXT as u32).filter(|&place| value(place) == least);
    let (inside, outside): (Vec<u32>, Vec<u32>) = equal.partition(|place| selected.contains(place));
    (*inside.last().expect("one is"), *outside.last().expect("others are equal to it"))
}

fn table() -> Vec<Planted> {
    let before = |what, before: fn(&mut TopK<'_>)| Planted { what, before, after: |_| () };
    let after = |what, after: fn(&mut TopK<'_>)| Planted { what, before: |_| (), after };
    vec![
        before("the last number is left out", |top_k| {
            // It is the greatest of all now, and the reference does not know.
            let last = Bytes(4 * (CONTEXT as u64 - 1));
            let bytes = 1e9f32.to_le_bytes();
            top_k.device.write(&top_k.logits, last, &bytes).expect("it is written");
        }),
        before("the last row is left out", |top_k| top_k.params.rows -= 1),
        before("one is selected too few", |top_k| top_k.params.selected -= 1),
        before("rows begin where the one before ends", |top_k| top_k.params.context -= 1),
        after("a tie is dropped: a later number is taken for an equal one", |top_k| {
            let (inside, outside) = tie(top_k);
            change(top_k, |places| {
                let first = places[..SELECTED].iter_mut().find(|place| **place == inside);
                *first.expect("it was selected") = outside;
            });
        }),
        after("a place is left twice", |top_k| change(top_k, |places| places[1] = places[0])),
        after("two rows are exchanged", |top_k| {
            change(top_k, |places| {
                let (one, other) = places.split_at_mut(SELECTED);
                one.swap_with_slice(&mut other[..SELECTED]);
            });
        }),
        after("the last place is missing", |top_k| {
            change(top_k, |places| places[SELECTED - 1] = u32::MAX);
        }),
        after("nothing was done", |top_k| top_k.poison().expect("poison")),
    ]
}

#[test]
fn each_planted_error_is_found() {
    for planted in &table() {
        for found in check(&POINT, Some(planted)) {
            assert!(!found.passed() && found.wrong > 0, "{}: {found:?}", planted.what);
        }
    }
}
