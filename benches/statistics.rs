//! What Fizeau's own statistics cost: they run between cases, and a look at the noise runs between
//! samples.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fizeau::measure::stop::Rule;
use fizeau_device::clock;
use fizeau_domain::{
    stats::{Summary, interval},
    suite::MeasureSettings,
    units::Seconds,
};
use std::hint::black_box;

fn times(count: usize) -> Vec<Seconds> {
    let mut random = oorandom::Rand64::new(1);
    (0..count).map(|_| Seconds(1e-3 * (1.0 + random.rand_float()))).collect()
}

fn summaries(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("summary");
    for count in [10, 100, 1_000, 10_000] {
        let times = times(count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &times, |bencher, times| {
            bencher.iter(|| Summary::of(black_box(times)));
        });
    }
    group.finish();
}

fn ratios(criterion: &mut Criterion) {
    let values: Vec<f64> = times(100).iter().map(|time| time.0).collect();
    criterion.bench_function("ratio/100", |bencher| {
        bencher.iter(|| interval::ratio_interval(black_box(&values), black_box(&values)));
    });
}

fn looks(criterion: &mut Criterion) {
    let settings = MeasureSettings {
        samples_min: 10,
        samples_max: 10_000,
        noise_max: 0.0,
        time_min: Seconds(0.0),
        time_max: Seconds(1e9),
        warmup_max: Seconds(0.0),
        sample_min: Seconds(0.0),
        deadline: Seconds(1.0),
        regime: None,
        beside: None,
    };
    let times = times(1_000);
    criterion.bench_function("look/1000", |bencher| {
        bencher.iter(|| Rule::new(&settings).stop(black_box(&times), Seconds(1.0)));
    });
}

fn timer(criterion: &mut Criterion) {
    criterion.bench_function("empty region", |bencher| bencher.iter(|| clock::now().elapsed()));
}

criterion_group!(benches, summaries, ratios, looks, timer);
criterion_main!(benches);
