use super::*;

fn read(text: &str) -> Result<Reading, String> {
    Reading::of(text, &["h200-sxm", "NVIDIA", "llama-3.1-70b"])
}

fn statement(text: &str) -> Statement {
    read(text).unwrap_or_else(|why| panic!("{why}")).statement
}

#[test]
fn figures_are_read_with_their_units() {
    let tokens = |per, rate, devices| Statement::Tokens { per, rate, devices };
    for (text, expected) in [
        ("154 tok/s/user", tokens(Per::User, 154.0, None)),
        ("154 tokens per second per user", tokens(Per::User, 154.0, None)),
        ("154 TPS/user", tokens(Per::User, 154.0, None)),
        ("6,200 tokens/s on 8 GPUs", tokens(Per::System, 6200.0, Some(8))),
        ("6.2k tok/s", tokens(Per::System, 6200.0, None)),
        ("1.2 million tokens/sec", tokens(Per::System, 1.2e6, None)),
        ("Output token throughput (tok/s): 2582.3", tokens(Per::System, 2582.3, None)),
        ("2582 tok/s per GPU", tokens(Per::Device, 2582.0, None)),
        ("4.8 TB/s", Statement::Memory(4.8e12)),
        ("4,800 GB/s", Statement::Memory(4.8e12)),
        ("4 800 GB/s", Statement::Memory(4.8e12)),
        ("4.8TB/s on 1 GPU", Statement::Memory(4.8e12)),
        ("H200: up to ~4.8 TB/sec of HBM3e bandwidth", Statement::Memory(4.8e12)),
        ("4.8 TB per second", Statement::Memory(4.8e12)),
        ("NVIDIA H200 reaches 4.8 terabytes per second", Statement::Memory(4.8e12)),
        ("1 TiB/s", Statement::Memory(1024f64.powi(4))),
        ("800 Gbit/s", Statement::Memory(1e11)),
        ("800 Gbps", Statement::Memory(1e11)),
        ("400 Gb/s", Statement::Memory(5e10)),
        ("100 GBps", Statement::Memory(1e11)),
        ("3.0-3.3 TB/s", Statement::Memory(3.3e12)),
        ("between 3.0 and 3.3 TB/s", Statement::Memory(3.3e12)),
        ("3.0 TB/s – 3.3 TB/s", Statement::Memory(3.3e12)),
        ("1,979 TFLOP/s fp8", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
        ("1 979 TFLOP/s fp8", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
        ("1'979 TFLOPs of FP8", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
        ("fp8 1979 tflops", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
        ("9 PF FP4", Statement::Arithmetic(9e15, Some(Dtype::Fp4))),
        ("9 petaflops nvfp4", Statement::Arithmetic(9e15, Some(Dtype::Fp4))),
        ("3,958 TOPS INT8", Statement::Arithmetic(3.958e15, Some(Dtype::Int8))),
        ("busbw 480 on 8 GPUs", Statement::Bus(4.8e11, Some(8))),
        ("480 GB/s busbw", Statement::Bus(4.8e11, None)),
        ("32 FLOP/clock f64", Statement::PerClock(32.0, Some(Dtype::F64))),
        ("4096 FLOPs/clk/SM bf16", Statement::PerClock(4096.0, Some(Dtype::Bf16))),
    ] {
        assert_eq!(statement(text), expected, "{text}");
    }
}

#[test]
fn conditions_are_read() {
    let of = |text: &str| read(text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(of("9 PFLOPS fp4 dense").is_sparse, Some(false));
    assert_eq!(of("9 PFLOPS fp4 without sparsity").is_sparse, Some(false));
    assert_eq!(of("9 PFLOPS fp4 (with 2:4 sparsity)").is_sparse, Some(true));
    assert_eq!(of("9 PFLOPS fp4").is_sparse, None);
    assert_eq!(of("67 TFLOPS FP64 tensor cores").is_matrix, Some(true));
    assert_eq!(of("67 TFLOPS FP32 non-tensor").is_matrix, Some(false));
    assert_eq!(of("142 TFLOPS fp16 with FP32 accumulate").accumulate, Some(Dtype::F32));
    assert_eq!(of("72 PFLOPS fp8 on 8").devices, Some(8));
    assert_eq!(of("8x 4.8 TB/s each").devices, Some(8));
    assert_eq!(of("8x 4.8 TB/s each").is_each, Some(true));
    assert_eq!(of("8xH200: 38.4 TB/s aggregate").is_each, Some(false));
    assert_eq!(of("4.8 TB/s/GPU").is_each, Some(true));
    assert_eq!(of("3.0-3.3 TB/s").low, Some(3.0e12));
    assert!(of("~3 TB/s").is_rough && of("about 3 TB/s").is_rough && !of("3 TB/s").is_rough);
    assert!(of("3 TB/s triad").is_measured && !of("3 TB/s peak").is_measured);
    assert_eq!(of("17.2 TB/s Infinity Cache").is_of_cache, Some(true));
    assert_eq!(of("90 gb/s").in_bytes, Some(9e10));
    for (text, counted) in [
        ("9 tok/s", None),
        ("9 output tok/s", Some(Counted::Output)),
        ("9 input tok/s/GPU", Some(Counted::Input)),
        ("9 prefill tokens/s", Some(Counted::Input)),
        ("Total Token throughput (tok/s): 9", Some(Counted::Total)),
        ("9 input + output tok/s", Some(Counted::Total)),
    ] {
        assert_eq!(of(text).counted, counted, "{text}");
    }
}

/// Half of the last digit's place; zeros before the point may be no digits.
#[test]
fn a_figure_says_how_precisely_it_is_meant() {
    for (text, half) in [("4.8 TB/s", 5e10), ("8 TB/s", 5e11), ("4,770 GB/s", 5e9)] {
        let found = read(text).expect(text).half_place;
        assert!((found / half - 1.0).abs() < 1e-9, "{text}: {found}");
    }
}

/// A word that changes what is meant, such as "unicorn", is never dropped.
#[test]
fn what_is_not_understood_is_refused_by_name() {
    for (text, named) in [
        ("4.8 TB/s write on 3 GPUs of unicorn", "\"unicorn\" is not"),
        ("4.8 TB/s on mi300x", "\"on mi300x\" (the part is named by --on"),
        ("4.8 TB/s bidirectional", "\"bidirectional\" is not"),
        ("less than 4.8 TB/s", "\"less\" is not"),
        ("4.8 TB/s fp8", "\"fp8\" is not"),
        ("4.8 TB/s dense", "\"sparsity\" is not"),
        ("9 tok/s of memory", "\"memory\" is not"),
        ("4.8 TB/s per user", "\"per user\" is not"),
        ("1,979 TFLOP/s fp8 bf16", "\"bf16\" is not"),
        ("154 tok/s/user batch 8", "\"batch\", \"8\" are not"),
        ("4.8 TB/s 5 TB/s", "not understood"),
        ("3.3-3.0 TB/s", "lower end is first"),
        ("busbw 480 on 0 GPUs", "on 0 GPUs"),
        ("480 parsecs", "\"parsecs\" is no unit"),
        ("480", "has no unit"),
        ("busbw 480 tok/s", "bus bandwidth is in GB/s"),
        ("4,8 TB/s", "may mean 4.8 or 48"),
        ("-5 tok/s", "\"-5\""),
        ("0 GB/s", "not above 0"),
        ("9 tokens", "tokens of what time"),
        ("4.8 TB", "bytes of what time"),
        ("fast", "\"fast\""),
        ("", "no number"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(named), "{text}: {why}");
    }
}
