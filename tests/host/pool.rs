//! The host's threads: every block runs, once, also where there are more of them than cores, and a
//! panic ends a launch instead of hanging it.

use fizeau_device::{
    DeviceError,
    host::pool::{Block, Pool, give_up},
};
use fizeau_domain::{
    kernel::{LatencyParams, Params},
    units::Bytes,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread,
    time::Duration,
};

const POSITION: LatencyParams = LatencyParams { position: 7 };
const PARAMS: Params = Params::Latency(POSITION);

/// How often each of some blocks ran.
fn counts(pool: &mut Pool, blocks: u32, repeat: u32) -> Vec<u32> {
    let ran: Vec<AtomicU32> = (0..blocks).map(|_| AtomicU32::new(0)).collect();
    pool.run(blocks, repeat, &PARAMS, &|block: &Block<'_>| {
        assert_eq!(
            (block.count, block.repeat, *block.params::<LatencyParams>()),
            (blocks, repeat, POSITION)
        );
        ran[block.index as usize].fetch_add(1, Ordering::Relaxed);
    })
    .expect("it runs");
    ran.into_iter().map(AtomicU32::into_inner).collect()
}

#[test]
fn every_block_runs_once_in_every_launch() {
    let mut pool = Pool::new();
    for launch in 0..5_000u32 {
        // Fewer and more than before: threads without a block must miss nothing afterwards.
        let blocks = 1 + launch * 7 % 5;
        assert_eq!(counts(&mut pool, blocks, launch), vec![1; blocks as usize], "launch {launch}");
    }
}

#[test]
fn threads_wake_after_a_long_sleep() {
    let mut pool = Pool::new();
    for blocks in [2, 4, 2, 1, 4, 3] {
        thread::sleep(Duration::from_millis(3));
        assert_eq!(counts(&mut pool, blocks, 1), vec![1; blocks as usize]);
    }
}

#[test]
fn blocks_meet_at_barriers_also_when_cores_are_few() {
    const BLOCKS: u32 = 8;
    const ROUNDS: u64 = 200;
    let mut pool = Pool::new();
    let arrived = AtomicU64::new(0);
    pool.run(BLOCKS, 1, &Params::None, &|block: &Block<'_>| {
        for round in 1..=ROUNDS {
            arrived.fetch_add(1, Ordering::Relaxed);
            block.synchronise();
            let seen = arrived.load(Ordering::Relaxed);
            assert!(seen >= round * u64::from(BLOCKS), "a block left the barrier alone");
            block.synchronise();
        }
    })
    .expect("it runs");
    assert_eq!(arrived.into_inner(), ROUNDS * u64::from(BLOCKS));
}

#[test]
fn a_panic_ends_the_launch_and_not_the_pool() {
    let mut pool = Pool::new();
    for culprit in [0, 1, 3] {
        let launch = AssertUnwindSafe(|| {
            pool.run(4, 1, &Params::None, &|block: &Block<'_>| {
                assert_ne!(block.index, culprit, "planted");
                // Nobody else comes: they would wait here without end.
                block.synchronise();
            })
            .expect("it runs");
        });
        assert!(catch_unwind(launch).is_err(), "block {culprit} panicked unheard");
        assert_eq!(counts(&mut pool, 4, 1), [1; 4], "after a panic of block {culprit}");
        let meets = AtomicU32::new(0);
        pool.run(4, 1, &Params::None, &|block: &Block<'_>| {
            meets.fetch_add(1, Ordering::Relaxed);
            block.synchronise();
            assert_eq!(meets.load(Ordering::Relaxed), 4);
        })
        .expect("it runs");
    }
}

#[test]
fn what_a_block_gives_up_for_is_the_error_of_the_launch() {
    let mut pool = Pool::new();
    for blocks in [1, 4] {
        let error = pool.run(blocks, 1, &Params::None, &|block: &Block<'_>| {
            if block.index + 1 == blocks {
                give_up(DeviceError::Allocation { size: Bytes(1 << 40), why: "planted".into() });
            }
            block.synchronise();
        });
        assert!(matches!(error, Err(DeviceError::Allocation { .. })), "{blocks}: {error:?}");
        assert_eq!(counts(&mut pool, 4, 1), [1; 4], "after {blocks} gave up");
    }
    let error =
        pool.run_unpinned(2, 1, &Params::None, &|_| give_up(DeviceError::Lost("it".into())));
    assert_eq!(error, Err(DeviceError::Lost("it".into())));
}

#[test]
fn parts_cover_everything_once() {
    let mut pool = Pool::new();
    for length in [0, 1, 511, 512, 513, 4096, 100_001] {
        let touched: Vec<AtomicU32> = (0..length).map(|_| AtomicU32::new(0)).collect();
        pool.run(3, 1, &Params::None, &|block: &Block<'_>| {
            let part = block.part(length, 512);
            assert!(part.start == length || part.start.is_multiple_of(512));
            part.for_each(|at| _ = touched[at].fetch_add(1, Ordering::Relaxed));
        })
        .expect("it runs");
        assert!(touched.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{length}");
    }
}
