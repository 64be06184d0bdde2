//! The bundled matrix products beside the vendor libraries, by turns in one run: the table of
//! `scripts/peers_gemm.sh`. Arguments: cases by element type and shape, `f32/2048x2048x2048`.

use anyhow::{Context, Result, ensure};
use fizeau::{
    bench::{self, Rank, Workload},
    case::{Case, Contents, GemmPoint, KernelName, Point},
    comm::Alone,
    device::{Backend, Device, host::Host},
    dtype::Dtype,
    kernel::Operation,
    units::{FlopsPerSecond, Seconds},
};
use std::{env, thread, time::Duration};

/// Turns of each kernel.
const ROUNDS: usize = 7;

/// Time at least that one turn measures.
const TURN: Seconds = Seconds(0.08);

/// Libraries' threads spin after a call; by then they sleep.
const REST: Duration = Duration::from_millis(60);

fn main() -> Result<()> {
    let device = Host.open(0)?;
    println!("| product | threads | kernel | median | of the best library |");
    println!("| --- | ---: | --- | ---: | ---: |");
    for argument in env::args().skip(1) {
        compare(&*device, parse(&argument)?)?;
    }
    Ok(())
}

fn parse(argument: &str) -> Result<GemmPoint> {
    let usage = || format!("{argument} is not like f32/2048x2048x2048");
    let (dtype, shape) = argument.split_once('/').with_context(usage)?;
    let dtype = Dtype::ALL.into_iter().find(|known| known.name() == dtype).with_context(usage)?;
    let lengths: Vec<u32> = shape.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let &[m, n, k] = &lengths[..] else { anyhow::bail!(usage()) };
    Ok(GemmPoint { dtype, m, n, k, contents: Contents::Random })
}

fn compare(device: &dyn Device, point: GemmPoint) -> Result<()> {
    let rank = Rank { device, peers: &Alone };
    let mut kernels = device.kernels(Operation::Gemm(point.dtype));
    kernels.retain(|kernel| kernel.0 != "portable" || kernels_are_few(device, point));
    let mut rivals = Vec::new();
    for kernel in kernels {
        let case = Case { kernel: kernel.clone(), point: Point::Gemm(point) };
        rivals.push((kernel, bench::prepare(&case, rank)?, Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, workload, times) in &mut rivals {
            times.push(turn(device, &mut **workload)?);
        }
    }
    let flops = Point::Gemm(point).work().flops;
    let mut rates: Vec<(KernelName, FlopsPerSecond)> = Vec::new();
    for (kernel, mut workload, mut times) in rivals {
        ensure!(workload.verify()?.passed(), "{} is wrong", kernel.0);
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        rates.push((kernel, flops / times[ROUNDS / 2]));
    }
    let libraries = rates.iter().filter(|(kernel, _)| !bundled(kernel)).map(|(_, rate)| rate.0);
    let best = libraries.fold(0.0, f64::max);
    for (kernel, rate) in rates {
        let share = if best > 0.0 { format!("{:.3}", rate.0 / best) } else { "-".into() };
        let (units, name) = (device.properties().units, kernel.0);
        let GemmPoint { dtype, m, n, k, .. } = point;
        println!("| {dtype} {m}x{n}x{k} | {units} | {name} | {rate} | {share} |");
    }
    Ok(())
}

fn bundled(kernel: &KernelName) -> bool {
    ["portable", "avx2", "avx512"].contains(&&*kernel.0)
}

/// The plain kernel is of interest only where little else is there: it takes long.
fn kernels_are_few(device: &dyn Device, point: GemmPoint) -> bool {
    device.kernels(Operation::Gemm(point.dtype)).len() < 3
}

fn turn(device: &dyn Device, workload: &mut dyn Workload) -> Result<Seconds> {
    thread::sleep(REST);
    let first = device.timed(&mut || workload.enqueue(1))?.time;
    let repeat = (TURN / first).ceil().max(1.0) as u32;
    Ok(device.timed(&mut || workload.enqueue(repeat))?.time * (1.0 / f64::from(repeat)))
}
