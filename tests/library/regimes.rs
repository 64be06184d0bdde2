//! A regulator of power that lowers the clock in steps, as those of H100 and H200 were seen to:
//! what is reported of each regime does not depend on when sampling ends.

use fizeau::measure::{self, regime};
use fizeau_bench::Rank;
use fizeau_comm::Alone;
use fizeau_device::{
    Device as _, DeviceError, Launch,
    fake::{Fake, Step},
};
use fizeau_domain::{
    case::{KernelName, StreamOperation},
    kernel::{Operation, StreamParams},
    outcome::{Cache, Regime},
    stats::quantile,
    suite::MeasureSettings,
    units::{Bytes, Seconds},
};
use oorandom::Rand64;

/// Of one iteration without a regulator, and the slowdown behind its last step.
const ITERATION: Seconds = Seconds(0.000_6);
const SLOWEST: f64 = 1.21;

/// The steps that were seen, each up to a tenth earlier or later.
fn steps(seed: u64) -> Vec<Step> {
    let mut random = Rand64::new(u128::from(seed));
    let mut step = |after: f64, slowdown| {
        let jitter = 1.0 + 0.1 * (2.0 * random.rand_float() - 1.0);
        Step { after: Seconds(after * jitter), slowdown }
    };
    vec![step(0.024, 1.05), step(0.045, 1.10), step(0.070, 1.16), step(0.120, SLOWEST)]
}

/// The median that is reported where sampling ends after so much time.
fn reported(seed: u64, regime: Option<Regime>, time_max: f64) -> f64 {
    let settings = MeasureSettings {
        samples_min: 5,
        samples_max: 5_000,
        // Nothing but the time ends it.
        noise_max: -1.0,
        time_min: Seconds(0.0),
        time_max: Seconds(time_max),
        warmup_max: Seconds(0.008),
        sample_min: Seconds(0.000_2),
        deadline: Seconds(5.0),
        regime,
        beside: None,
    };
    let device = Fake::scripted(vec![ITERATION]).regulated(steps(seed)).device();
    let rank = Rank { device: &device, peers: &Alone };
    let [a, b] = [(); 2].map(|()| device.allocate(Bytes(64)).expect("memory"));
    let copy = Operation::Stream(StreamOperation::Copy);
    let function = device.load(copy, &KernelName("fake".into())).expect("a kernel");
    let mut enqueue = |repeat| -> Result<(), DeviceError> {
        let (a, b) = (a.address, b.address);
        let params = StreamParams { a, b, c: 0, partial: 0, length: 8, scale: 1.0 };
        device.launch(&Launch { function: &function, blocks: 2, repeat, params: params.into() })
    };
    let ready = measure::warm_up(rank, &mut enqueue, Cache::Hot, &settings).expect("no fault");
    let taken =
        measure::sample(rank, &mut enqueue, Cache::Hot, ready, (regime, Seconds(0.0)), &settings);
    let times = taken.expect("no fault").samples.times;
    quantile::median(&times.iter().map(|time| time.0).collect::<Vec<f64>>())
}

/// The most that reports of one regime differ by, over seeds and moments at which sampling ends.
fn spread(regime: Option<Regime>) -> (f64, f64) {
    let ends = [0.003, 0.02, 0.03, 0.05, 0.08, 0.15, 0.4];
    let all = (0..20).flat_map(|seed| ends.map(|end| reported(seed, regime, end)));
    all.fold((f64::INFINITY, 0.0), |(low, high), one| (low.min(one), high.max(one)))
}

#[test]
fn a_regime_has_one_answer_whenever_sampling_ends() {
    for (regime, slowdown) in [(Regime::Burst, 1.0), (Regime::Settled, SLOWEST)] {
        let (low, high) = spread(Some(regime));
        assert!(high / low < 1.02, "{regime}: from {low} to {high}");
        let wanted = ITERATION.0 * slowdown;
        assert!((high / wanted - 1.0).abs() < 0.02, "{regime}: {high}, wanted {wanted}");
    }
}

/// What the two regimes are for: the same steps without them.
#[test]
fn without_a_regime_the_moment_of_the_end_decides() {
    let (low, high) = spread(None);
    assert!(high / low > 1.10, "from {low} to {high}");
}

#[test]
fn ranks_that_work_together_are_settled() {
    let possible = regime::possible;
    for (asked, alone, together) in [
        (None, None, None),
        (Some(Regime::Burst), Some(Regime::Burst), Some(Regime::Settled)),
        (Some(Regime::Settled), Some(Regime::Settled), Some(Regime::Settled)),
    ] {
        assert_eq!([possible(asked, 1), possible(asked, 2)], [alone, together]);
    }
}
