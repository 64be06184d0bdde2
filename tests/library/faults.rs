//! Faults planted in a fake device: each ends in its named outcome, none in a panic.

use fizeau::session::one;
use fizeau_bench::{Rank, Unready, Workload};
use fizeau_comm::Alone;
use fizeau_device::{
    Backend, Buffer, Device, DeviceError, Function, Launch,
    fake::{Fake, Fault},
};
use fizeau_domain::{
    case::{Case, KernelName, Layout, Point, StreamOperation, StreamPoint},
    dtype::Dtype,
    kernel::{Operation, StreamParams},
    outcome::{Check, Failure, Invalidity, Measurement, Outcome, StopReason},
    spec::Yardstick,
    suite::MeasureSettings,
    units::{Bytes, Seconds},
};

/// Two arrays of so many elements are twice the last-level cache: its pins bound them.
const LENGTH: u64 = 1 << 17;
const SETTINGS: MeasureSettings = MeasureSettings {
    samples_min: 10,
    samples_max: 200,
    noise_max: 0.01,
    time_min: Seconds(0.01),
    time_max: Seconds(0.5),
    warmup_max: Seconds(0.05),
    sample_min: Seconds(0.000_1),
    deadline: Seconds(5.0),
    regime: None,
    beside: None,
};

/// `a = b` through the device's own kernel.
struct Copy<'d> {
    device: &'d dyn Device,
    function: Function,
    a: Buffer,
    b: Buffer,
}

impl<'d> Copy<'d> {
    fn prepare(device: &'d dyn Device) -> Result<Box<dyn Workload + 'd>, Unready> {
        let size = Bytes(LENGTH * 8);
        let (a, b) = (device.allocate(size)?, device.allocate(size)?);
        device.write(&b, Bytes(0), bytemuck::cast_slice(&operand()))?;
        let function =
            device.load(Operation::Stream(StreamOperation::Copy), &KernelName("fake".into()))?;
        Ok(Box::new(Copy { device, function, a, b }))
    }
}

fn operand() -> Vec<f64> {
    (0..LENGTH).map(|at| (at as f64).sin()).collect()
}

impl Workload for Copy<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let params = StreamParams {
            a: self.a.address,
            b: self.b.address,
            c: 0,
            partial: 0,
            length: LENGTH,
            scale: 1.0,
        };
        self.device.launch(&Launch {
            function: &self.function,
            blocks: 2,
            repeat,
            params: params.into(),
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.device.write(&self.a, Bytes(0), &vec![0xff; LENGTH as usize * 8])
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut found = vec![0.0f64; LENGTH as usize];
        self.device.read(&self.a, Bytes(0), bytemuck::cast_slice_mut(&mut found))?;
        let wrong = found.iter().zip(operand()).filter(|(found, wanted)| **found != *wanted);
        Ok(Check { error: 0.0, tolerance: 0.0, compared: LENGTH, wrong: wrong.count() as u64 })
    }
}

fn case() -> Case {
    let working_set = Bytes(LENGTH * 16);
    let point = StreamPoint { stream: StreamOperation::Copy, working_set, units: 2 };
    Case { kernel: KernelName("fake".into()), point: Point::Stream(point) }
}

fn outcome_with(backend: &dyn Backend, settings: &MeasureSettings) -> Outcome {
    let device = backend.open(0).expect("a fake device opens");
    let device = device.as_ref();
    let rank = Rank { device, peers: &Alone };
    one::measure_prepared(&case(), rank, &Yardstick::default(), (settings, None), || {
        Copy::prepare(device)
    })
}

fn outcome(fault: Fault) -> Outcome {
    outcome_with(&Fake::with(fault), &SETTINGS)
}

fn measured(outcome: Outcome) -> Measurement {
    match outcome {
        Outcome::Measured(measurement) => *measurement,
        other => panic!("not measured: {other:?}"),
    }
}

#[track_caller]
fn assert_fails(fault: Fault, wanted: Failure, words: &str) {
    match outcome(fault) {
        Outcome::Failed { case: of, failure, error, .. } => {
            assert_eq!((of, failure), (case(), wanted), "{error}");
            assert!(error.contains(words), "{error}");
        }
        other => panic!("{fault:?} was not seen: {other:?}"),
    }
}

#[track_caller]
fn assert_invalid(fault: Fault, wanted: Invalidity, words: &str) {
    match outcome(fault) {
        Outcome::Invalid { invalidity, reason, measurement } => {
            assert_eq!((measurement.case, invalidity), (case(), wanted), "{reason}");
            assert!(reason.contains(words), "{reason}");
        }
        other => panic!("{fault:?} was not seen: {other:?}"),
    }
}

#[test]
fn a_healthy_device_is_measured() {
    let found = measured(outcome_with(&Fake::default(), &SETTINGS));
    // 2 MiB at 40.96 GB/s: 51.2 us, in batches of at least 100 us.
    let wanted = (LENGTH * 16) as f64 / 40.96e9;
    assert!((found.summary.median.0 / wanted - 1.0).abs() < 0.005, "{:?}", found.summary);
    assert!(found.samples.batch >= 2, "{}", found.samples.batch);
    assert_eq!(found.samples.stop, StopReason::Quiet);
    assert!(found.samples.warmup.settled);
    assert_eq!(found.clock.map(|clock| clock.0), Some(1_000.0));
    assert_eq!((found.check.compared, found.check.wrong), (LENGTH, 0));
}

#[test]
fn a_wrong_result_is_a_failed_case() {
    assert_fails(Fault::WrongResult, Failure::WrongResult, "before timing, 1 of 131072");
}

#[test]
fn a_result_that_goes_wrong_later_is_found_after_the_loop() {
    assert_fails(Fault::LateWrongResult, Failure::WrongResult, "after timing, 1 of 131072");
}

#[test]
fn work_left_out_of_the_loop_is_a_wrong_result() {
    assert_fails(Fault::SkippedWork, Failure::WrongResult, "after timing, 131072 of 131072");
}

#[test]
fn drivers_errors_are_failures_of_their_kind() {
    assert_fails(Fault::LaunchError, Failure::Launch, "refuses");
    assert_fails(Fault::AllocationFailure, Failure::Allocation, "full");
    assert_fails(Fault::Hang, Failure::Hang, "never ends");
    assert_fails(Fault::DeviceLost, Failure::DeviceLost, "lost");
}

#[test]
fn a_panic_is_a_failed_case() {
    assert_fails(Fault::Panic, Failure::Other, "a planted panic");
}

#[test]
fn a_timer_that_stands_still_resolves_nothing() {
    assert_invalid(Fault::FrozenTimer, Invalidity::Unresolved, "no time passed");
}

#[test]
fn throttled_samples_are_marked_and_make_a_case_invalid() {
    assert_invalid(Fault::Throttling, Invalidity::Throttled, "throttled clock");
}

#[test]
fn a_case_that_others_disturbed_says_so() {
    let disturbed = measured(outcome(Fault::Disturbance));
    assert!(disturbed.disturbed() && disturbed.available == Some(0.5), "{disturbed:?}");
    assert!(!measured(outcome_with(&Fake::default(), &SETTINGS)).disturbed());
}

#[test]
fn an_impossible_time_is_never_a_result() {
    assert_invalid(Fault::ImpossibleTime, Invalidity::FasterThanLight, "times faster");
}

#[test]
fn work_that_ends_after_its_deadline_counts_as_hung() {
    let slow = Fake::scripted(vec![Seconds(6.0)]);
    match outcome_with(&slow, &SETTINGS) {
        Outcome::Failed { failure: Failure::Hang, error, .. } => {
            assert!(error.contains("no answer within 5.000 s"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_device_cannot_do_is_skipped() {
    let device = Fake::default().device();
    let rank = Rank { device: &device, peers: &Alone };
    let prepare = || {
        device.load(Operation::Gemm(Dtype::F32, Layout::Nn), &KernelName("fake".into()))?;
        Copy::prepare(&device)
    };
    match one::measure_prepared(&case(), rank, &Yardstick::default(), (&SETTINGS, None), prepare) {
        Outcome::Skipped { reason, .. } => assert!(reason.contains("gemm/f32/fake"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_reason_to_stop_is_kept() {
    let stop = |times: &[f64], settings: &MeasureSettings| {
        let times = times.iter().copied().map(Seconds).collect();
        measured(outcome_with(&Fake::scripted(times), settings)).samples.stop
    };
    let noisy: Vec<f64> = (0..50).map(|at| 1e-3 + 1e-5 * f64::from(at * 7 % 50)).collect();
    assert_eq!(stop(&[2e-3], &SETTINGS), StopReason::Quiet);
    assert_eq!(stop(&noisy, &SETTINGS), StopReason::NoiseSettled);
    let few = MeasureSettings { samples_max: 12, ..SETTINGS };
    assert_eq!(stop(&noisy, &few), StopReason::SampleBudget);
    let short = MeasureSettings { time_max: Seconds(0.02), ..SETTINGS };
    assert_eq!(stop(&noisy, &short), StopReason::TimeBudget);
}
