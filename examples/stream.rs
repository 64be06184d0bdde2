//! One stream operation by every kernel of the host: `stream OPERATION WORKING_SET UNITS SECONDS`
//! prints a line `kernel GB/s` for each. For scripts/peers_stream.sh, which sets it beside
//! another program's figures; `fizeau run` is what measures by the rules.

use fizeau_bench::{self as bench, Rank};
use fizeau_comm::Alone;
use fizeau_device::{Backend, host::Host};
use fizeau_domain::{
    case::{Case, Point, StreamOperation, StreamPoint},
    kernel::Operation,
    units::{Bytes, Seconds},
};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, working_set, units, seconds, wanted @ ..] = &arguments[..] else {
        anyhow::bail!("usage: stream OPERATION WORKING_SET UNITS SECONDS [KERNEL ..]");
    };
    let stream = StreamOperation::ALL
        .into_iter()
        .find(|stream| stream.name() == operation)
        .ok_or_else(|| anyhow::anyhow!("no stream operation is called {operation}"))?;
    let working_set: Bytes = working_set.parse()?;
    let point = Point::Stream(StreamPoint { stream, working_set, units: units.parse()? });
    let budget = Seconds(seconds.parse()?);

    let device = Host.open(0)?;
    let mut kernels = device.kernels(Operation::Stream(stream));
    kernels.retain(|kernel| wanted.is_empty() || wanted.contains(&kernel.0));
    for kernel in kernels {
        let case = Case { kernel, point };
        let mut workload = bench::prepare(&case, Rank { device: &*device, peers: &Alone })?;
        workload.enqueue(1)?;
        let once = device.timed(&mut || workload.enqueue(1))?.time;
        let repeat = (budget / once).ceil().max(1.0) as u32;
        let time = device.timed(&mut || workload.enqueue(repeat))?.time;
        anyhow::ensure!(workload.verify()?.passed(), "{case} is wrong");
        let rate = point.work().memory / (time * (1.0 / f64::from(repeat)));
        println!("{} {:.2}", case.kernel.0, rate.0 / 1e9);
    }
    Ok(())
}
