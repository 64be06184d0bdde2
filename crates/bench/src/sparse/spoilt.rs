//! Errors that kernels make, each planted and found by the verification.

use super::decode::Decode;
use crate::{Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, Buffer, host::Host};
use fizeau_domain::{
    case::{Sparse, SparseDecode},
    kernel::Operation,
    outcome::Check,
    units::Bytes,
};

/// Heads and selected tokens that no tile divides, of a context that a cache repeats.
const POINT: SparseDecode = SparseDecode { batch: 3, heads: 5, selected: 335, context: 2100 };

/// Elements of an output, and bytes of a token.
const LATENT: usize = SparseDecode::LATENT as usize;
const ROW: usize = SparseDecode::ROW as usize;
/// Where scales and elements of RoPE begin in a token.
const SCALES: usize = LATENT;
const ROPE: usize = SCALES + 16;

/// What a kernel does wrong before it runs, and what it leaves wrong.
struct Planted {
    what: &'static str,
    before: fn(&mut Decode<'_>),
    after: fn(&mut Decode<'_>),
}

/// What is found of the contents whose sums are exact, and of random ones, by each kernel.
fn check(planted: Option<&Planted>) -> Vec<[Check; 2]> {
    let device = Host.open(0).expect("there is always a host");
    let rank = Rank { device: device.as_ref(), peers: &Alone };
    let kernels = device.kernels(Operation::Sparse(Sparse::Decode));
    assert!(!kernels.is_empty(), "the host has kernels of sparse/decode");
    let check = |kernel| {
        let mut decode = Decode::with_exact(&POINT, kernel, rank).expect("it is made ready");
        let params = decode.params;
        let run = |decode: &mut Decode<'_>| {
            decode.params = params;
            decode.poison().expect("it is poisoned");
            planted.inspect(|planted| (planted.before)(decode));
            decode.launch(1).expect("it runs");
            planted.inspect(|planted| (planted.after)(decode));
        };
        run(&mut decode);
        let exact = decode.check_exact().expect("it is read back");
        decode.lay_random().expect("it is written");
        run(&mut decode);
        [exact, decode.check_random().expect("it is read back")]
    };
    kernels.iter().map(check).collect()
}

#[test]
fn what_is_right_passes() {
    for found in check(None) {
        for found in found {
            assert!(found.passed(), "{found:?}");
            assert_eq!(found.compared, 3 * 5 * LATENT as u64);
        }
    }
}

/// Changes all of an array.
fn change(decode: &Decode<'_>, buffer: &Buffer, with: impl Fn(&mut [u8])) {
    let mut bytes = vec![0; buffer.size.0 as usize];
    decode.device.read(buffer, Bytes(0), &mut bytes).expect("it is read");
    with(&mut bytes);
    decode.device.write(buffer, Bytes(0), &bytes).expect("it is written");
}

/// Changes the numbers of the selected tokens.
fn change_indices(decode: &Decode<'_>, with: impl Fn(&mut [u32])) {
    change(decode, &decode.indices, |bytes| {
        let mut words: Vec<u32> = bytes.chunks(4).map(bytemuck::pod_read_unaligned).collect();
        with(&mut words);
        bytes.copy_from_slice(bytemuck::cast_slice(&words));
    });
}

/// Changes a single selected token; of contents whose sums are exact one that weighs: the last of
/// its elements of RoPE is zero. It stands in the cache from byte `at` on.
fn change_token(decode: &Decode<'_>, with: impl Fn(&mut [u8], usize)) {
    let mut bytes = vec![0; decode.indices.size.0 as usize];
    decode.device.read(&decode.indices, Bytes(0), &mut bytes).expect("it is read");
    let indices: Vec<u32> = bytes.chunks(4).map(bytemuck::pod_read_unaligned).collect();
    change(decode, &decode.cache, |all| {
        let mut places = indices.iter().skip(7).map(|&index| index as usize * ROW);
        let weighs = |at: &usize| all[at + ROW - 2..][..2] == [0; 2];
        let first = places.clone().next().expect("tokens are selected");
        with(all, places.find(weighs).unwrap_or(first));
    });
}

/// What kernels do wrong, as contents or parameters that make a right kernel do it.
fn errors_of_kernels() -> Vec<Planted> {
    let of = |what, before: fn(&mut Decode<'_>)| Planted { what, before, after: |_| () };
    vec![
        of("scales are those of the next block", |decode| {
            change(decode, &decode.cache, |bytes| {
                bytes.chunks_mut(ROW).for_each(|row| row[SCALES..ROPE].rotate_left(4));
            });
        }),
        of("scales of all tokens are those of the token before", |decode| {
            change(decode, &decode.cache, |bytes| {
                for row in (1..bytes.len() / ROW).rev() {
                    let from = (row - 1) * ROW + SCALES;
                    bytes.copy_within(from..from + 16, row * ROW + SCALES);
                }
            });
        }),
        of("scales are left out", |decode| {
            change(decode, &decode.cache, |bytes| {
                for row in bytes.chunks_mut(ROW) {
                    row[SCALES..ROPE].copy_from_slice(bytemuck::cast_slice(&[1f32; 4]));
                }
            });
        }),
        of("RoPE is left out", |decode| {
            change(decode, &decode.cache, |bytes| {
                bytes.chunks_mut(ROW).for_each(|row| row[ROPE..].fill(0));
            });
        }),
        of("a tile of tokens is stale: those of the tile before", |decode| {
            change_indices(decode, |all| all.copy_within(0..16, 16));
        }),
        of("a token is taken for the one before it in memory", |decode| {
            change_indices(decode, |all| {
                all[..335].iter_mut().step_by(16).for_each(|one| *one = one.saturating_sub(1));
            });
        }),
        of("all sequences have the tokens of the first", |decode| {
            change_indices(decode, |all| {
                let (first, others) = all.split_at_mut(335);
                others.chunks_mut(335).for_each(|one| one.copy_from_slice(first));
            });
        }),
        of("tokens of all sequences are counted from the first", |decode| {
            change_indices(decode, |all| all.iter_mut().for_each(|one| *one %= 2100));
        }),
        of("a scale of one token is that of the next block", |decode| {
            change_token(decode, |all, at| all[at + SCALES..at + ROPE].rotate_left(4));
        }),
        of("one token is stale: the one before it in memory", |decode| {
            change_token(decode, |all, at| all.copy_within(at - ROW..at, at));
        }),
        of("one token is left out: its weight is nothing", |decode| {
            // -256, where queries are 256.
            change_token(decode, |all, at| all[at + ROW - 2..][..2].copy_from_slice(&[0x80, 0xc3]));
        }),
        of("scores are not scaled", |decode| decode.params.scale = 1.0 / 22.0),
        of("the last sequence is left out", |decode| decode.params.batch -= 1),
    ]
}

/// What they leave wrong.
fn errors_in_results() -> Vec<Planted> {
    let of = |what, after: fn(&mut Decode<'_>)| Planted { what, before: |_| (), after };
    vec![
        of("nothing was done", |decode| decode.poison().expect("poison")),
        of("the last head is missing", |decode| {
            change(decode, &decode.output, |bytes| {
                let last = bytes.len() - 2 * LATENT;
                bytes[last..].fill(0);
            });
        }),
        of("two heads are exchanged", |decode| {
            change(decode, &decode.output, |bytes| {
                let (one, other) = bytes.split_at_mut(2 * LATENT);
                one.swap_with_slice(&mut other[..2 * LATENT]);
            });
        }),
        of("two panels of columns are exchanged", |decode| {
            change(decode, &decode.output, |bytes| bytes[..256].rotate_left(128));
        }),
    ]
}

#[test]
fn each_planted_error_is_found() {
    for planted in errors_of_kernels().iter().chain(&errors_in_results()) {
        for found in check(Some(planted)) {
            let is_found = found.iter().any(|found| !found.passed() && found.wrong > 0);
            assert!(is_found, "{}: {found:?}", planted.what);
        }
    }
}
