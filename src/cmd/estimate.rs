//! How long cases take, estimated before they run: for `list`, `suites` and a run's remaining time.

use crate::measure::regime;
use fizeau_bench as bench;
use fizeau_domain::{
    case::{Case, Collective, CollectivePoint, Contents, GemmPoint, Layout, Point, SdcPoint},
    dtype::Dtype,
    outcome::Regime,
    spec::{self, Conditions, Part, Properties},
    suite::MeasureSettings,
    units::Seconds,
};

/// Arithmetic and bytes that one core of a host is taken to manage. Better ones only end sooner.
const FLOPS_PER_UNIT: f64 = 20e9;
const BYTES_PER_UNIT: f64 = 10e9;

/// Bytes that a GPU's memory and its link to the host are taken to move in a second.
const BYTES_OF_GPU: f64 = 1e12;
const BYTES_OF_LINK: f64 = 20e9;

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
        let asked = settings.regime.filter(|_| case.point.depends_on_power());
        let rests = (least * regime::REST)
            .min(regime::REST_MAX.0 * f64::from(settings.samples_min))
            .min(settings.time_max.0);
        let (least, settling) = match asked {
            Some(Regime::Burst) if settings.beside.is_some() => (least + rests, regime::SETTLING.0),
            Some(Regime::Burst) => (least + rests, 0.0),
            Some(Regime::Settled) => (least, regime::SETTLING.0),
            None => (least, 0.0),
        };
        let sampling = (settings.time_min.0 + settings.time_max.0) / 2.0 + settling;
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
    if let Point::Sdc(point) = &case.point {
        return of_rounds(point, case, properties, part);
    }
    let work = case.point.work();
    if let Some(limit) = limit_on_gpu(case, properties, part) {
        return limit / GPU_SHARE;
    }
    let units = f64::from(properties.units.max(1));
    let bytes = (work.memory.0 + work.link.0) as f64;
    (work.flops.0 / (FLOPS_PER_UNIT * units)).max(bytes / (BYTES_PER_UNIT * units))
}

/// Seconds of one iteration that looks for silent corruption. Each word of memory is written and
/// read up to three times in a round, and a copy is made three times.
fn of_rounds(point: &SdcPoint, case: &Case, properties: &Properties, part: Option<&Part>) -> f64 {
    let host = BYTES_PER_UNIT * f64::from(properties.units.max(1));
    let memory = if properties.backend == "host" { host } else { BYTES_OF_GPU };
    let seconds = match *point {
        SdcPoint::Product { dtype, m, n, k, .. } => {
            let point = Point::Gemm(GemmPoint {
                dtype,
                m,
                n,
                k,
                layout: Layout::Nn,
                contents: Contents::Random,
            });
            iteration(&Case { kernel: case.kernel.clone(), point }, properties, part)
        }
        SdcPoint::Memory { size, .. } => 6.0 * size.0 as f64 / memory,
        SdcPoint::Copy { size, .. } => 3.0 * size.0 as f64 / BYTES_OF_LINK,
        SdcPoint::AllReduce { dtype, size, ranks, .. } => {
            let point = CollectivePoint::new(Collective::AllReduce, dtype, size, ranks);
            let point = Point::Collective(point);
            iteration(&Case { kernel: case.kernel.clone(), point }, properties, part)
        }
    };
    seconds * f64::from(point.rounds())
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
