//! Attention by its definition, from the bytes of a launch.

use crate::{
    kernels::{Parameters, narrowed, widened},
    memory::Memory,
};

/// Element types of Q, K and V, and O, by the name of an entry; none where it is no attention.
pub fn dtypes(name: &str) -> Option<[Dtype; 3]> {
    let words: Vec<&str> = name.strip_prefix("attention_")?.split('_').collect();
    let cache = ["cache", "decode", "mla"].iter().any(|word| words.contains(word));
    words.iter().find_map(|word| match *word {
        "f32" => Some([Dtype::F32; 3]),
        "f16" => Some([Dtype::F16; 3]),
        "bf16" => Some([Dtype::Bf16; 3]),
        "fp8" if cache => Some([Dtype::Bf16, Dtype::E4m3, Dtype::Bf16]),
        "fp8" => Some([Dtype::E4m3, Dtype::E4m3, Dtype::Bf16]),
        _ => None,
    })
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dtype {
    /// 32 bits.
    F32,
    /// 16 bits, 5 of them exponent.
    F16,
    /// The upper half of 32 bits.
    Bf16,
    /// 8 bits, 4 of them exponent.
    E4m3,
}

/// A float of so many exponent and fraction bits; no infinities are asked for.
fn small_float(bits: u32, exponents: u32, fractions: u32) -> f64 {
    let (exponent, fraction) =
        (bits >> fractions & ((1 << exponents) - 1), bits & ((1 << fractions) - 1));
    let bias = (1 << (exponents - 1)) - 1;
    let unit = 2f64.powi(exponent.max(1) as i32 - bias - fractions as i32);
    let size = f64::from(if exponent == 0 { fraction } else { fraction + (1 << fractions) }) * unit;
    if bits >> (exponents + fractions) & 1 == 1 { -size } else { size }
}

/// The nearest of the same kind, ties to even, as its bits.
fn to_small_float(value: f64, exponents: u32, fractions: u32) -> u32 {
    let bias = (1 << (exponents - 1)) - 1;
    let exponent = (value.abs().log2().floor() as i32).max(1 - bias);
    let units = (value.abs() * 2f64.powi(fractions as i32 - exponent)).round_ties_even() as u32;
    let size = units + (((exponent + bias - 1) as u32) << fractions);
    if value < 0.0 { size | 1 << (exponents + fractions) } else { size }
}

fn load(memory: &mut Memory, address: u64, count: u64, dtype: Dtype) -> Option<Vec<f64>> {
    Some(match dtype {
        Dtype::F32 => memory.load::<f32>(address, count)?.into_iter().map(f64::from).collect(),
        Dtype::Bf16 => memory.load::<u16>(address, count)?.into_iter().map(widened).collect(),
        Dtype::F16 => {
            let bits = memory.load::<u16>(address, count)?;
            bits.into_iter().map(|bits| small_float(bits.into(), 5, 10)).collect()
        }
        Dtype::E4m3 => {
            let bits = memory.load::<u8>(address, count)?;
            bits.into_iter().map(|bits| small_float(bits.into(), 4, 3)).collect()
        }
    })
}

fn store(memory: &mut Memory, address: u64, values: &[f64], dtype: Dtype) -> Option<()> {
    match dtype {
        Dtype::F32 => memory.store(address, &values.iter().map(|&v| v as f32).collect::<Vec<_>>()),
        Dtype::Bf16 => {
            memory.store(address, &values.iter().map(|&v| narrowed(v)).collect::<Vec<_>>())
        }
        Dtype::F16 | Dtype::E4m3 => {
            let bits = values.iter().map(|&v| to_small_float(v, 5, 10) as u16);
            memory.store(address, &bits.collect::<Vec<_>>())
        }
    }
}

/// Does it; how many multiply-adds it took. The schedule is not looked at.
pub fn run(params: Parameters<'_>, of: [Dtype; 3], memory: &mut Memory) -> Option<f64> {
    let word = |at: usize| params.u32(at);
    let [batch, heads, kv_heads, dim_qk, dim_v] =
        [84, 88, 92, 104, 108].map(|at| word(at).map(|word| word as usize));
    let (batch, heads, kv_heads, dim_qk, dim_v) = (batch?, heads?, kv_heads?, dim_qk?, dim_v?);
    let (causal, page, queries, keys) = (word(112)?, word(120)?, word(128)?, word(132)?);
    let scale = f64::from(f32::from_bits(word(124)? as u32));
    let q = load(memory, params.u64(0)?, queries * (heads * dim_qk) as u64, of[0])?;
    let k = load(memory, params.u64(8)?, keys * (kv_heads * dim_qk) as u64, of[1])?;
    let (v, stride) = match params.u64(16)? {
        0 => (k.clone(), dim_qk),
        at => (load(memory, at, keys * (kv_heads * dim_v) as u64, of[1])?, dim_v),
    };
    let sequences = memory.load::<u32>(params.u64(32)?, 4 * batch as u64)?;
    let pages = match params.u64(40)? {
        0 => Vec::new(),
        at => memory.load::<u32>(at, keys / page)?,
    };
    let token = |at: u32| match pages.get((at as usize).checked_div(page as usize).unwrap_or(0)) {
        Some(&number) => number as usize * page as usize + at as usize % page as usize,
        None => at as usize,
    };
    let mut output = vec![0.0; queries as usize * heads * dim_v];
    let mut done = 0.0;
    for sequence in sequences.chunks(4) {
        let [query_first, queries, key_first, keys] = sequence else { return None };
        for (query, head) in
            (0..*queries).flat_map(|query| (0..heads).map(move |head| (query, head)))
        {
            let row = (*query_first + query) as usize * heads + head;
            let kv_head = head / (heads / kv_heads);
            let seen =
                if causal == 0 { *keys } else { (keys + query + 1).saturating_sub(*queries) };
            let place = |key: u32| token(key_first + key) * kv_heads + kv_head;
            let dot = |key: u32| -> f64 {
                let (q, k) = (&q[row * dim_qk..][..dim_qk], &k[place(key) * dim_qk..][..dim_qk]);
                q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() * scale
            };
            let scores: Vec<f64> = (0..seen).map(dot).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let sums = &mut output[row * dim_v..][..dim_v];
            for (key, weight) in (0..seen).zip(&weights) {
                for (sum, v) in sums.iter_mut().zip(&v[place(key) * stride..]) {
                    *sum += weight / total * v;
                }
            }
            done += f64::from(seen) * (dim_qk + dim_v) as f64;
        }
    }
    store(memory, params.u64(24)?, &output, of[2])?;
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_their_types() {
        use Dtype::{Bf16, E4m3, F16};
        assert_eq!(dtypes("attention_prefill_f16_64_mma"), Some([F16; 3]));
        assert_eq!(dtypes("attention_fp8"), Some([E4m3, E4m3, Bf16]));
        assert_eq!(dtypes("attention_fp8_cache"), Some([Bf16, E4m3, Bf16]));
        assert_eq!(dtypes("attention_prefill_fp8_64_mma"), Some([E4m3, E4m3, Bf16]));
        assert_eq!(dtypes("gemm_bf16"), None);
    }

    #[test]
    fn small_floats_go_there_and_back() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24))] {
            assert_eq!((small_float(bits, 5, 10), to_small_float(value, 5, 10)), (value, bits));
        }
        assert_eq!(small_float(0x7e, 4, 3), 448.0);
    }
}
