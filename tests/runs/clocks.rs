//! The machine's clock is set while the program measures: by years, forwards and back. What was
//! measured does not depend on it, no deadline comes early or never, and an honest bundle is no
//! forgery.

use super::{evidence::verify, small_node};
use crate::{
    program::{Place, say},
    skipped,
};
use fizeau_domain::outcome::Outcome;
use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A library that is loaded before the C library's, in which the clock of the day is another one
/// each time that it is looked at: ten years ahead and ten years back.
const JUMPING: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int looks;
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) {
        time->tv_sec += (__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED) % 2 ? 1 : -1) * 315360000L;
    }
    return failed;
}
"#;

/// The library, made by the C compiler; none where there is no compiler.
fn jumping(place: &Place) -> Option<PathBuf> {
    fs::write(place.path("jumping.c"), JUMPING).expect("written");
    let library = place.path("jumping.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(place.path("jumping.c"));
    compile.status().is_ok_and(|status| status.success()).then_some(library)
}

/// None of what is started here takes longer, also on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_clock_that_is_set_while_it_measures_changes_no_measurement() {
    let place = small_node::place();
    let Some(library) = jumping(&place) else {
        return skipped::because("cc", "no C compiler makes the library that sets the clock");
    };
    let began = Instant::now();
    let mut run = place.fizeau(["run", "--suite", "tiny.toml", "--backend", "fake:", "--out", "a"]);
    let said = say(run.env("LD_PRELOAD", &library));
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let record = place.record("a");
    let measured = |one: &Outcome| matches!(one, Outcome::Measured(_));
    assert!(!record.outcomes.is_empty() && record.outcomes.iter().all(measured));
    let footer = record.footer.expect("it came to its end");
    assert!(footer.elapsed.0 > 0.0 && footer.elapsed.0 < LONG.as_secs_f64(), "{footer:?}");
    // What it says of the day is ten years from now: the library was loaded.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let year = 1970.0 + now / 31_556_952.0;
    let told: f64 = record.header.started[..4].parse().expect("a year");
    assert!((told - year).abs() > 8.0, "{told} {year}");
    let report = say(&mut place.fizeau(["report", "a", "--summary"]));
    assert_eq!(report.code, Some(0), "{}{}", report.out, report.err);
    // An acceptance ends by its budget, and is no forgery.
    let words = ["--root", "root", "--profile", "profile.toml", "--device", "host"];
    let more = ["--out", "out", "--budget", "5min"];
    let mut accept = place.fizeau(["accept"].iter().chain(&words).chain(&more));
    let said = say(accept.env("LD_PRELOAD", &library));
    assert!(matches!(said.code, Some(0 | 4)), "{}{}", said.out, said.err);
    let verified = verify(&place, &[]);
    assert_eq!(verified.code, Some(4), "{}{}", verified.out, verified.err);
    assert!(!verified.out.contains("FAIL"), "{}", verified.out);
    // Who surveys it never takes it for a pass: its date is none that can be, or ran backwards.
    let survey = say(&mut place.fizeau(["fleet", "survey", "out"]));
    assert!(matches!(survey.code, Some(3 | 4)), "{}{}", survey.out, survey.err);
    // A client keeps its deadlines.
    let args = ["load", "self-test", "--rate", "40", "--tokens", "5", "--duration", "1s"];
    let said = say(place.fizeau(args).env("LD_PRELOAD", &library));
    // How late it is tells how busy the machine is.
    assert!(matches!(said.code, Some(0 | 1)), "{}{}", said.out, said.err);
    assert_eq!(said.out.matches("150 of 150").count(), 2, "{}{}", said.out, said.err);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}
