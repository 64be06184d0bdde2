//! Kernels that want more shared memory than a block of the device can have.

use super::machine::{Machine, NVIDIA};

const SUITE: &str = r#"
[[attention]]
attention = "mla"
dtype = "bf16"
batch = 1
heads = 2
kv_heads = 1
queries = 1
keys = 9
dim_qk = 576
dim_v = 512
mask = "full"
"#;

/// Each case by its kernel: measured, or why not.
fn run(capability: u32, suite: &str) -> Vec<(String, Result<(), String>)> {
    let machine = Machine::with(&NVIDIA);
    machine.suite(suite);
    let ended = machine.run_own(&format!("capability={capability}"), &[]);
    let kernel = |id: String| id.rsplit('/').next().unwrap_or_default().to_owned();
    ended.into_iter().map(|(id, ended)| (kernel(id), ended)).collect()
}

fn measured(kernels: &[&str]) -> Vec<(String, Result<(), String>)> {
    kernels.iter().map(|&kernel| (kernel.to_owned(), Ok(()))).collect()
}

#[test]
fn a_block_has_no_more_shared_memory_than_the_device_says() {
    // 163 KiB of a block hold 64 rows.
    assert_eq!(run(80, SUITE), measured(&["sm80_mma", "sm80_mma_32", "portable"]));
    // 99 KiB do not: 32 rows are measured in their place.
    for capability in [86, 89] {
        let outcomes = run(capability, SUITE);
        let [(kernel, Err(reason)), others @ ..] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(
            (kernel.as_str(), others),
            ("sm80_mma", &measured(&["sm80_mma_32", "portable"])[..])
        );
        assert!(reason.contains("159 KiB of shared memory for a block"), "{reason}");
        assert!(reason.contains("this device has 99"), "{reason}");
    }
    // Nor are they compiled for targets none of whose devices has so much.
    for capability in [120, 121] {
        assert_eq!(run(capability, SUITE), measured(&["sm80_mma_32", "portable"]));
    }
}

#[test]
fn an_8_bit_latent_cache_is_read_by_each_generation_that_can() {
    let suite = SUITE.replace("bf16", "fp8") + SUITE;
    let of_cache = |capability| {
        let outcomes = run(capability, &suite);
        let end = outcomes.iter().position(|(kernel, _)| kernel == "portable");
        outcomes[..end.expect("the portable kernel")].to_vec()
    };
    assert_eq!(of_cache(80), []);
    for capability in [89, 120, 121] {
        assert_eq!(of_cache(capability), measured(&["sm89_mma_32"]));
    }
    assert_eq!(of_cache(90), measured(&["sm90_wgmma", "sm89_mma"]));
    for capability in [100, 103] {
        assert_eq!(of_cache(capability), measured(&["sm100_tcgen05", "sm89_mma"]));
    }
}
