//! The host's kernels beside their peers, by turns in one run, for `scripts/peers_host.sh`.
//!
//! Arguments: products by element type and shape (`f32/2048x2048x2048`), or `attention`. A product
//! of more than 16 rows stands beside the libraries. One of fewer rows and attention stand beside
//! this run's own stream of reads, its best product of 1024 rows, and the slower of both.
//!
//! `--probe LIBRARY` multiplies small matrices by one library alone and ends: a library that ends
//! the process does so here. `--without LIBRARY` leaves it out of what follows.

use anyhow::{Context, Result, ensure};
use fizeau_bench::{self as bench, Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, Device, host::Host};
use fizeau_domain::{
    case::{
        AttentionKind, AttentionPoint, Case, Contents, GemmPoint, KernelName, Layout, Lengths,
        Mask, Point, StreamOperation, StreamPoint, Work,
    },
    dtype::Dtype,
    kernel::Operation,
    units::{Bytes, Seconds},
};
use std::{env, thread, time::Duration};

/// Turns of each kernel.
const ROUNDS: usize = 11;

/// Of [`ROUNDS`] ratios the second and the last but one enclose the median with this probability:
/// 1 - 2 (1 + 11) / 2^11.
const COVERAGE: &str = "98.8 %";

/// Time at least that one turn measures.
const TURN: Seconds = Seconds(0.06);

/// Libraries' threads spin after a call; by then they sleep.
const REST: Duration = Duration::from_millis(60);

/// Rows up to which a product is set against the stream.
const FEW: u32 = 16;

/// One kernel of one case, and the time of each of its turns.
struct Rival<'d> {
    kernel: KernelName,
    work: Work,
    workload: Box<dyn Workload + 'd>,
    times: Vec<f64>,
}

fn main() -> Result<()> {
    let device = Host.open(0)?;
    let mut arguments = env::args().skip(1).peekable();
    let mut without = Vec::new();
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        let library = arguments.next().with_context(|| format!("{option} needs a library"))?;
        match &*option {
            "--probe" => return probe(&*device, &library),
            "--without" => without.push(KernelName(library)),
            _ => anyhow::bail!("{option} is neither --probe nor --without"),
        }
    }
    println!(
        "Medians of {ROUNDS} paired ratios of speeds, with intervals of {COVERAGE} coverage.\n"
    );
    println!("| case | threads | kernel | rate | beside | ratio | interval |");
    println!("| --- | ---: | --- | ---: | --- | ---: | --- |");
    for argument in arguments {
        if argument == "attention" {
            for (name, point) in attention() {
                compare(&*device, name, point, &without)?;
            }
        } else {
            compare(&*device, &argument, Point::Gemm(parse(&argument)?), &without)?;
        }
    }
    Ok(())
}

/// Multiplies small matrices by the library, in each type that it has.
fn probe(device: &dyn Device, library: &str) -> Result<()> {
    for dtype in Dtype::ALL {
        let kernels = device.kernels(Operation::Gemm(dtype, Layout::Nn));
        for kernel in kernels.iter().filter(|kernel| kernel.0 == library) {
            let point = GemmPoint {
                dtype,
                m: 96,
                n: 96,
                k: 96,
                layout: Layout::Nn,
                contents: Contents::Random,
            };
            let mut rival = rival(device, kernel, Point::Gemm(point))?;
            device.timed(&mut || rival.workload.enqueue(1))?;
            ensure!(rival.workload.verify()?.passed(), "{library} is wrong");
        }
    }
    Ok(())
}

fn parse(argument: &str) -> Result<GemmPoint> {
    let usage = || format!("{argument} is not like f32/2048x2048x2048 or f32/nt/2048x2048x2048");
    let (dtype, rest) = argument.split_once('/').with_context(usage)?;
    let (layout, shape) = match rest.strip_prefix("nt/") {
        Some(shape) => (Layout::Nt, shape),
        None => (Layout::Nn, rest),
    };
    let dtype = Dtype::ALL.into_iter().find(|known| known.name() == dtype).with_context(usage)?;
    let lengths: Vec<u32> = shape.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let &[m, n, k] = &lengths[..] else { anyhow::bail!(usage()) };
    Ok(GemmPoint { dtype, m, n, k, layout, contents: Contents::Random })
}

/// Prefill of 2048 tokens, and decoding with more keys and values than caches hold.
fn attention() -> [(&'static str, Point); 4] {
    let point = |name, dtype, attention| {
        let is_prefill = attention == AttentionKind::Prefill;
        let (batch, kv_heads, queries, keys) =
            if is_prefill { (1, 8, 2048, 2048) } else { (8, 4, 1, 4096) };
        let point = AttentionPoint {
            attention,
            dtype,
            batch,
            heads: 8,
            kv_heads,
            queries,
            keys,
            dim_qk: 128,
            dim_v: 128,
            mask: Mask::Full,
            lengths: Lengths::Equal,
            page: None,
        };
        (name, Point::Attention(point))
    };
    [
        point("prefill f32", Dtype::F32, AttentionKind::Prefill),
        point("prefill bf16", Dtype::Bf16, AttentionKind::Prefill),
        point("decode f32", Dtype::F32, AttentionKind::Decode),
        point("decode bf16", Dtype::Bf16, AttentionKind::Decode),
    ]
}

fn compare(device: &dyn Device, name: &str, point: Point, without: &[KernelName]) -> Result<()> {
    let units = device.properties().units;
    let is_many = matches!(point, Point::Gemm(point) if point.m > FEW);
    let dtype = point.dtype().context("a type")?;
    let mut rivals = vec![];
    let mut kernels = device.kernels(match point {
        Point::Attention(_) => Operation::any_attention(dtype),
        Point::Gemm(point) => Operation::Gemm(dtype, point.layout),
        _ => Operation::Gemm(dtype, Layout::Nn),
    });
    kernels.retain(|kernel| !without.contains(kernel));
    let ours = kernels.first().context("no kernel")?;
    rivals.push(rival(device, ours, point)?);
    if is_many {
        for library in kernels.iter().filter(|kernel| !bundled(kernel)) {
            rivals.push(rival(device, library, point)?);
        }
    } else {
        let working_set = Bytes((device.properties().last_level_cache() * 4).0.max(256 << 20));
        let stream = StreamOperation::Read;
        let read = Point::Stream(StreamPoint { stream, working_set, units });
        let kernels = device.kernels(Operation::Stream(stream));
        rivals.push(rival(device, kernels.first().context("no stream")?, read)?);
        let side = 1024;
        let contents = Contents::Random;
        let product = Point::Gemm(GemmPoint {
            dtype,
            m: side,
            n: side,
            k: side,
            layout: Layout::Nn,
            contents,
        });
        for kernel in device.kernels(Operation::Gemm(dtype, Layout::Nn)) {
            if kernel.0 != "portable" && !without.contains(&kernel) {
                rivals.push(rival(device, &kernel, product)?);
            }
        }
    }
    for _ in 0..ROUNDS {
        for rival in &mut rivals {
            let time = turn(device, &mut *rival.workload)?;
            rival.times.push(time.0);
        }
    }
    for rival in &mut rivals {
        ensure!(rival.workload.verify()?.passed(), "{} is wrong", rival.kernel.0);
    }
    let (ours, others) = rivals.split_first().context("nothing was measured")?;
    let rate = rate(ours);
    let row = |beside: &str, ratios: Vec<f64>| {
        let [median, low, high] = interval(ratios);
        let kernel = &ours.kernel.0;
        let interval = format!("{low:.3} to {high:.3}");
        println!("| {name} | {units} | {kernel} | {rate} | {beside} | {median:.3} | {interval} |");
    };
    if is_many {
        for other in others {
            row(&other.kernel.0, ratios(ours, |round| other.times[round]));
        }
        return Ok(());
    }
    let (read, products) = others.split_first().context("no stream")?;
    let of_memory =
        |round: usize| ours.work.memory.0 as f64 / read.work.memory.0 as f64 * read.times[round];
    let of_product = |round: usize| {
        let times =
            products.iter().map(|one| ours.work.flops.0 / one.work.flops.0 * one.times[round]);
        times.fold(f64::INFINITY, f64::min)
    };
    row("stream/read", ratios(ours, of_memory));
    row("best product", ratios(ours, of_product));
    row("the slower of both", ratios(ours, |round| of_memory(round).max(of_product(round))));
    Ok(())
}

fn rival<'d>(device: &'d dyn Device, kernel: &KernelName, point: Point) -> Result<Rival<'d>> {
    let case = Case { kernel: kernel.clone(), point };
    let mut workload = bench::prepare(&case, Rank { device, peers: &Alone })?;
    workload.take_turns(workload.copies() > 1);
    Ok(Rival { kernel: kernel.clone(), work: point.work(), workload, times: Vec::new() })
}

/// The limit's time over ours, round by round.
fn ratios(ours: &Rival<'_>, limit: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..ROUNDS).map(|round| limit(round) / ours.times[round]).collect()
}

/// The median, the second and the last but one.
fn interval(mut ratios: Vec<f64>) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    [ratios[ROUNDS / 2], ratios[1], ratios[ROUNDS - 2]]
}

fn rate(rival: &Rival<'_>) -> String {
    let mut times = rival.times.clone();
    times.sort_by(f64::total_cmp);
    let time = Seconds(times[ROUNDS / 2]);
    format!("{}, {}", rival.work.flops / time, rival.work.memory / time)
}

fn bundled(kernel: &KernelName) -> bool {
    ["portable", "avx2", "avxvnni", "avx512", "amx"].contains(&&*kernel.0)
}

fn turn(device: &dyn Device, workload: &mut dyn Workload) -> Result<Seconds> {
    thread::sleep(REST);
    let first = device.timed(&mut || workload.enqueue(1))?.time;
    let repeat = (TURN / first).ceil().max(1.0) as u32;
    Ok(device.timed(&mut || workload.enqueue(repeat))?.time * (1.0 / f64::from(repeat)))
}
