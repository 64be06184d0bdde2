//! One trial: products on a device of which a test build spoils some, and what the comparison of
//! bits says of them.

use anyhow::{Context as _, bail};
use fizeau_bench::{
    self as bench, Rank,
    sdc::planted::{self, Site},
};
use fizeau_comm::Alone;
use fizeau_device::Device;
use fizeau_domain::{case::Case, outcome::Integrity, stats::rate_seen, suite::Suite};
use std::collections::BTreeSet;

/// Element types, by the names of suites. Those that have no NaN are left out for payloads.
const FLOATS: &str = "\"f32\", \"bf16\", \"f64\"";
const ALL: &str = "\"f32\", \"bf16\", \"f64\", \"int8\"";

/// Cases of products by every kernel of the device whose sums have one order.
fn cases(device: &dyn Device, dtypes: &str, shape: [u32; 3], products: u32) -> Vec<Case> {
    let text = format!(
        "name = \"trial\"\ndescription = \"trial\"\n[measure]\nsamples_min = 1\nsamples_max = 1\n\
         noise_max = 0.0\ntime_min = 0.0\ntime_max = 1.0\nwarmup_max = 1.0\nsample_min = 0.0\n\
         deadline = 60.0\n[sdc]\ndtypes = [{dtypes}]\nshapes = [{shape:?}]\nproducts = {products}\n"
    );
    let suite = Suite::parse(&text).expect("a suite");
    bench::sdc::cases(&suite, Rank { device, peers: &Alone })
}

/// Makes a case ready under a script, runs its products, and takes what was found.
fn run(device: &dyn Device, case: &Case, script: Option<&str>) -> anyhow::Result<Integrity> {
    if !planted::plant(script) {
        bail!("a release build plants nothing: build this without --release");
    }
    let rank = Rank { device, peers: &Alone };
    let mut workload =
        bench::prepare(case, rank).map_err(|why| anyhow::anyhow!("{case}: {why}"))?;
    workload.enqueue(1)?;
    workload.integrity()?.with_context(|| format!("{case} compares no bits"))
}

/// Flips in one of each so many products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caught {
    /// Products that a flip changed, one for each seed.
    pub changed: u64,
    /// Those of them that were found to differ.
    pub caught: u64,
    /// Of those, such whose place was told: every word that differs.
    pub placed: u64,
    /// Flips that rounding swallowed: they changed no bit of a product, and were drawn anew.
    pub masked: u64,
    /// Products that were found to differ although nothing was flipped.
    pub false_alarms: u64,
    /// All products.
    pub products: u64,
    /// Kernels that made them.
    pub kernels: BTreeSet<String>,
}

/// One flip at a site for each seed, in one of `each` products.
///
/// # Errors
/// What the device refuses.
pub fn flips(
    device: &dyn Device,
    site: Site,
    seeds: impl Iterator<Item = u64>,
    each: u32,
) -> anyhow::Result<Caught> {
    let dtypes = if site == Site::Payload { FLOATS } else { ALL };
    // On the host longer than two stretches along k, so that there are unfinished sums.
    let shape = if device.properties().backend == "host" { [48, 64, 544] } else { [24, 32, 48] };
    let cases = cases(device, dtypes, shape, each);
    if cases.is_empty() {
        bail!("this device has no kernel for it");
    }
    let mut caught = Caught::default();
    for seed in seeds {
        let case = &cases[seed as usize % cases.len()];
        let script = format!("{}/{each},seed={seed}", site.name());
        let found = run(device, case, Some(&script))?;
        let flipped = planted::flipped();
        caught.changed += flipped.products;
        caught.masked += flipped.masked;
        caught.caught += found.mismatches.min(flipped.products);
        caught.placed += u64::from(!found.wrong.is_empty() && found.mismatches > 0);
        caught.false_alarms += found.mismatches.saturating_sub(flipped.products);
        caught.products += found.compared;
        caught.kernels.insert(format!("{}/{}", dtype_of(case), case.kernel.0));
    }
    Ok(caught)
}

fn dtype_of(case: &Case) -> String {
    case.to_string().split('/').nth(2).unwrap_or_default().to_owned()
}

/// Small products, by the device's first kernel for f32, none of them spoilt; then as many with one
/// flip among them: what was found in each.
///
/// # Errors
/// What the device refuses.
pub fn many(device: &dyn Device, count: u32) -> anyhow::Result<[Integrity; 2]> {
    let rounds = 1_000.min(count);
    let cases = cases(device, "\"f32\"", [16, 16, 16], rounds);
    let case = cases.first().context("this device has no kernel for it")?;
    let mut found = [Integrity::default(), Integrity::default()];
    let flip = format!("output/{count},seed=1");
    for (found, script) in found.iter_mut().zip([None, Some(&*flip)]) {
        planted::plant(script);
        let rank = Rank { device, peers: &Alone };
        let mut workload =
            bench::prepare(case, rank).map_err(|why| anyhow::anyhow!("{case}: {why}"))?;
        workload.enqueue(count / rounds)?;
        *found = workload.integrity()?.with_context(|| format!("{case} compares no bits"))?;
    }
    Ok(found)
}

/// Runs of so many products, each of which is spoilt with the rate that is stated for so many: the
/// share of runs that saw it. It should be 0.95.
///
/// # Errors
/// What the device refuses.
pub fn stated_rate(device: &dyn Device, products: u32, runs: u64) -> anyhow::Result<f64> {
    let cases = cases(device, "\"f32\"", [16, 16, 16], products);
    let case = cases.first().context("this device has no kernel for it")?;
    let mut seen = 0;
    for seed in 0..runs {
        let script = format!("output~{},seed={seed}", rate_seen(u64::from(products)));
        let found = run(device, case, Some(&script))?;
        seen += u64::from(found.mismatches > 0);
    }
    Ok(seen as f64 / runs as f64)
}
