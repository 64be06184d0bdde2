//! How long cases take, estimated before they run: for `list`, `suites` and a run's remaining time.

use crate::{
    bench,
    case::{Case, Point},
    dtype::Dtype,
    spec::{self, Conditions, Part, Properties},
    suite::MeasureSettings,
    units::Seconds,
};

/// Arithmetic and bytes that one core of a host is taken to manage. Better ones only end sooner.
const FLOPS_PER_UNIT: f64 = 20e9;
const BYTES_PER_UNIT: f64 = 10e9;

/// The share of its limits that a kernel on a GPU is taken to reach.
const GPU_SHARE: f64 = 0.25;

/// Elements of collectives that one core makes and compares.
const ELEMENTS_PER_SECOND: f64 = 500e6;

/// Bytes that are filled, compared and given a reference in a second.
const PREPARED_PER_SECOND: f64 = 1e9;

/// The time of each case: preparing and verifying, warming up, sampling.
pub fn all(
    cases: &[Case],
    properties: &Properties,
    part: Option<&Part>,
    settings: &MeasureSettings,
) -> Vec<Seconds> {
    let of = |(at, case): (usize, &Case)| {
        let before = at.checked_sub(1).and_then(|before| cases.get(before));
        // Kernels of one product share its operands and its reference.
        let shares = matches!(case.point, Point::Gemm(_))
            && before.is_some_and(|before| before.point == case.point);
        let setup = setup(case, properties).0 * if shares { 0.5 } else { 1.0 };
        let iteration = iteration(case, properties, part);
        let least = f64::from(settings.samples_min) * iteration;
        let sampling = (settings.time_min.0 + settings.time_max.0) / 2.0;
        Seconds(sampling.max(least) + settings.warmup_max.0 / 2.0 + 2.0 * iteration + setup)
    };
    cases.iter().enumerate().map(of).collect()
}

fn setup(case: &Case, properties: &Properties) -> Seconds {
    let setup = bench::memory_needed(case, properties).0 as f64 / PREPARED_PER_SECOND;
    Seconds(match &case.point {
        Point::Collective(point) => {
            setup + bench::collective::elements_made(point) as f64 / ELEMENTS_PER_SECOND
        }
        _ => setup,
    })
}

/// Seconds of one iteration.
fn iteration(case: &Case, properties: &Properties, part: Option<&Part>) -> f64 {
    let work = case.point.work();
    if let Some(limit) = limit_on_gpu(case, properties, part) {
        return limit / GPU_SHARE;
    }
    let units = f64::from(properties.units.max(1));
    let bytes = (work.memory.0 + work.link.0) as f64;
    (work.flops.0 / (FLOPS_PER_UNIT * units)).max(bytes / (BYTES_PER_UNIT * units))
}

/// The least seconds of one iteration on a GPU, where its limits are known. Portable kernels
/// multiply on vector units, whatever the element type.
fn limit_on_gpu(case: &Case, properties: &Properties, part: Option<&Part>) -> Option<f64> {
    if !matches!(properties.backend.as_str(), "cuda" | "hip") {
        return None;
    }
    let conditions = Conditions { clock: properties.clock, copies: 1, ..Conditions::default() };
    let lights = spec::lights(&case.point, properties, part, &conditions);
    let tier = spec::headline(&lights)?;
    let limit = lights.iter().find(|light| light.tier == tier)?.time.0;
    let vector = || {
        let per_clock = properties.flops_per_clock.get(&Dtype::F32)?;
        let clock = properties.clock?.0 * 1e6;
        Some(case.point.work().flops.0 / (per_clock * clock * f64::from(properties.units.max(1))))
    };
    let is_product = matches!(case.point, Point::Gemm(_) | Point::Grouped(_) | Point::Attention(_));
    let slow = vector().filter(|_| is_product && case.kernel.0 == "portable");
    Some(limit.max(slow.unwrap_or(0.0)))
}
