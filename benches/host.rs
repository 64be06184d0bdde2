//! The host's own hot code: what a launch costs before any kernel does anything.

use criterion::{Criterion, criterion_group, criterion_main};
use fizeau_device::host::pool::Pool;
use fizeau_domain::kernel::Params;
use std::hint::black_box;

fn launches(criterion: &mut Criterion) {
    let mut pool = Pool::new();
    let mut group = criterion.benchmark_group("launch");
    for blocks in [1, 2] {
        group.bench_function(format!("{blocks} blocks"), |bencher| {
            bencher
                .iter(|| pool.run(blocks, 1, &Params::None, &|block| _ = black_box(block.index)));
        });
    }
    group.finish();
}

criterion_group!(benches, launches);
criterion_main!(benches);
