//! What a test does where a thing that it needs is missing: a library, a compiler, a right.

use std::{env, fmt::Display};

/// Says that a test is skipped, and why.
///
/// Where every check must run (`CI=true` or `FIZEAU_REQUIRE_ALL=1`), a skipped test fails instead,
/// unless `FIZEAU_ELSEWHERE` lists its need: a script installs that and runs the test again.
#[track_caller]
pub fn because(need: &str, why: impl Display) {
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    let elsewhere = env::var("FIZEAU_ELSEWHERE").unwrap_or_default();
    let allowed = elsewhere.split(' ').any(|name| name == need);
    let required = is("CI", "true") || is("FIZEAU_REQUIRE_ALL", "1");
    assert!(!required || allowed, "every check must run here, and this one needs {need}: {why}");
    println!("skipped: {why}");
}
