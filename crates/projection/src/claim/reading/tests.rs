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

/// Memory, links, clocks and loads that stand beside a figure.
#[test]
fn what_stands_beside_a_figure_is_read() {
    use crate::claim::wire::{Fabric, Kind, Ways};
    let of = |text: &str| read(text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(of("141GB HBM3e at 4.8 TB/s").beside.capacity.map(|it| it.value), Some(141e9));
    assert_eq!(of("141GB HBM3e at 4.8 TB/s").beside.memory, ["hbm3e"]);
    assert_eq!(of("141GB HBM3e at 4.8 TB/s").statement, Statement::Memory(4.8e12));
    assert_eq!(of("28 Gbps GDDR7").statement, Statement::Transfers(28e9));
    assert_eq!(of("6.25 Gbit/s per pin").statement, Statement::Transfers(6.25e9));
    assert_eq!(of("DDR5-5600 8 channels").statement, Statement::Transfers(5.6e9));
    assert_eq!(of("DDR5-5600 8 channels").beside.channels, Some(8));
    assert_eq!(of("21 Gbps GDDR6X, 384-bit, 1008 GB/s").beside.transfers, Some(21e9));
    assert_eq!(of("2P 614.4 GB/s").devices, Some(2));
    assert_eq!(of("614.4 GB/s on 2 sockets").devices, Some(2));
    assert_eq!(of("8200 tok/s at batch 256").beside.batch, Some(256));
    assert_eq!(of("8200 tok/s with batch size of 256").beside.batch, Some(256));
    assert_eq!(of("8200 tok/s for 64 concurrent users").beside.batch, Some(64));
    assert_eq!(of("154 tok/s INT4").beside.format, Some("int4-g128"));
    assert_eq!(of("88 TFLOPS fp32 at 2.7 GHz").beside.clock, Some(2.7e9));
    for (text, kind, generation, ways) in [
        ("900 GB/s NVLink", Kind::Nvlink, None, None),
        ("NVLink 5: 1.8 TB/s both ways", Kind::Nvlink, Some(5), Some(Ways::Both)),
        ("fifth-generation NVLink 1.8TB/s", Kind::Nvlink, Some(5), None),
        ("NVLink5 900 GB/s in each direction", Kind::Nvlink, Some(5), Some(Ways::One)),
        ("NVLink-C2C 900 GB/s", Kind::ChipToChip, None, None),
        ("Infinity Fabric 896 GB/s", Kind::Xgmi, None, None),
        ("PCIe Gen5 x16: 63 GB/s per direction", Kind::Pcie, Some(5), Some(Ways::One)),
        ("PCI Express 4.0 x8 15.75 GB/s", Kind::Pcie, Some(4), None),
        ("InfiniBand NDR 400 Gb/s", Kind::InfiniBand, Some(400), None),
        ("400G InfiniBand", Kind::InfiniBand, None, None),
        ("400 GbE", Kind::Ethernet, Some(400), None),
        ("ConnectX-7 400 Gb/s", Kind::ConnectX, Some(7), None),
        ("host_to_device_memcpy_ce 55 GB/s", Kind::Host, None, Some(Ways::One)),
        ("900 GB/s bidirectional", Kind::Any, None, Some(Ways::Both)),
    ] {
        let found = of(text);
        let Fabric { kind: read, generation: its, .. } = found.beside.link.expect(text);
        assert_eq!((read, its, found.beside.ways), (kind, generation, ways), "{text}");
        assert!(matches!(found.statement, Statement::Link(_)), "{text}");
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
        ("B200 reaches 2.2 PFLOP/s dense bf16", "\"B200\" (a part is named by --on"),
        ("9 tok/s of unicorn-3.1-70b", "a model by --model"),
        ("less than 4.8 TB/s", "\"less\" is not"),
        ("4.8 TB/s fp8", "\"fp8\" is not"),
        ("4.8 TB/s dense", "\"sparsity\" is not"),
        ("9 tok/s of memory", "\"memory\" is not"),
        ("4.8 TB/s per user", "\"per user\" is not"),
        ("1,979 TFLOP/s fp8 bf16", "\"bf16\" is not"),
        ("154 tok/s/user bunch 8", "\"bunch\", \"8\" are not"),
        ("4.8 TB/s at batch 8", "\"requests at once\" is not"),
        ("4.8 TB/s at 1980 MHz", "\"a clock\" is not"),
        ("1,979 TFLOP/s fp8 over NVLink", "\"a link\" is not"),
        ("9 tok/s batch 8 at batch 9", "batch is 8, and 9"),
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
