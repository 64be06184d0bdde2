//! How a hardware claim is run: what is measured, and the conditions that it was stated for.

use fizeau_domain::{outcome::Cache, suite::Suite};
use serde::Deserialize;

/// By which share a measurement may be below the figure and still reproduces it, where a claim
/// states none: good machines of one kind differ by two or three percent.
pub const TOLERANCE: f64 = 0.05;

/// How long a case is sampled where a claim does not say: long enough for power limits and clocks
/// to answer the load. Arithmetic is settled, with bursts beside it, since published rates of both
/// kinds exist.
const MEASURE: &str = "samples_min = 20\nsamples_max = 20000\nnoise_max = 0.003\ntime_min = 0.5\n\
                       time_max = 2.0\nwarmup_max = 1.0\nsample_min = 0.001\ndeadline = 120.0\n\
                       regime = \"settled\"\nbeside = \"burst\"\n";

/// What `fizeau reproduce` does with a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The tables of a suite, as `data/suites` has them: `gemm`, `stream`, `collective`, ...
    /// `measure` may be left out.
    pub suite: toml::Table,
    /// The cases of that suite that count, as selectors; the fastest of them is the measurement.
    /// Empty: all.
    #[serde(default)]
    pub cases: Vec<String>,
    /// By which share a measurement may be below the figure; absent: 0.05.
    pub tolerance: Option<f64>,
    /// The conditions that the figure was stated for.
    #[serde(default)]
    pub conditions: Conditions,
}

/// Conditions of a claim, beside the part that it names. What is absent is not stated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// Whether the part has to be the one that the claim names.
    pub part: PartNamed,
    /// Who makes the device: `Intel`, `AMD`, `NVIDIA`.
    pub vendor: Option<String>,
    /// Instruction sets or targets that the device must have: `avx512f`, `sm_90a`.
    pub features: Vec<String>,
    /// Units (cores, SMs, CUs) that work at least.
    pub units: Option<u32>,
    /// Sockets of the host.
    pub sockets: Option<u32>,
    /// Whether all cores of its sockets work, outside of a virtual machine: memory's bandwidth is
    /// stated for whole sockets.
    pub whole: bool,
    /// Rate of the memory modules, MT/s.
    pub memory_mts: Option<f64>,
    /// Clock of the units meanwhile, MHz.
    pub clock_mhz: Option<f64>,
    /// Power limit of the device, watts, at least.
    pub power_limit_w: Option<f64>,
    /// Whether errors of memory are corrected.
    pub ecc: Option<bool>,
    /// Whether operands were in the caches.
    pub cache: Option<CacheState>,
    /// The driver, or the beginning of its version as records name it: `NVML 550`.
    pub driver: Option<String>,
    /// A vendor's library, or the beginning of its version: `cublaslt 12.4`.
    pub library: Option<String>,
}

/// Whether a claim is about the part that it names alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartNamed {
    /// It is.
    #[default]
    Named,
    /// It is about every device that keeps the other conditions; the part that it names is one of
    /// them, by which `fizeau claim` judges it.
    Any,
}

/// A state of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Evicted.
    Cold,
    /// As the iteration before left them.
    Hot,
}

impl From<CacheState> for Cache {
    fn from(state: CacheState) -> Cache {
        match state {
            CacheState::Cold => Cache::Cold,
            CacheState::Hot => Cache::Hot,
        }
    }
}

impl Conditions {
    /// Whether each number can be.
    ///
    /// # Errors
    /// In words: which one cannot.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("memory_mts", self.memory_mts),
            ("clock_mhz", self.clock_mhz),
            ("power_limit_w", self.power_limit_w),
        ];
        for (name, value) in numbers {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
                return Err(format!("{name} = {value}: a number above 0"));
            }
        }
        for (name, count) in [("units", self.units), ("sockets", self.sockets)] {
            if count == Some(0) {
                return Err(format!("{name} = 0: it is 1 at least"));
            }
        }
        Ok(())
    }
}

impl Run {
    /// By which share a measurement may be below the figure.
    pub fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(TOLERANCE)
    }

    /// The suite that `fizeau run` takes, as text.
    ///
    /// # Errors
    /// In words: what of it is no suite, or which number cannot be.
    pub fn suite_text(&self, name: &str) -> Result<String, String> {
        if !(0.0..1.0).contains(&self.tolerance()) {
            return Err("[run] tolerance is a share from 0 to below 1".into());
        }
        let mut suite = self.suite.clone();
        for (field, text) in [("name", format!("claim-{name}")), ("description", "a claim".into())]
        {
            if suite.insert(field.into(), toml::Value::String(text)).is_some() {
                return Err(format!("[run.suite] {field}: a claim's suite has none of its own"));
            }
        }
        if !self.suite.keys().any(|key| key != "measure") {
            let why =
                "[run.suite] has no cases: give it a table such as gemm, stream or collective";
            return Err(why.into());
        }
        if !suite.contains_key("measure") {
            let measure = MEASURE.parse::<toml::Table>().map_err(|error| error.to_string())?;
            suite.insert("measure".into(), toml::Value::Table(measure));
        }
        let text = toml::to_string(&suite).map_err(|error| error.to_string())?;
        Suite::parse(&text).map_err(|why| format!("[run.suite] {why}"))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Run {
        toml::from_str(text).expect("a run")
    }

    #[test]
    fn a_claims_suite_is_one_that_run_takes() {
        let of = run("[suite.gemm]\ndtypes = [\"bf16\"]\nshapes = [[8, 8, 8]]\n");
        let suite = Suite::parse(&of.suite_text("x").expect("text")).expect("a suite");
        assert_eq!((suite.name.as_str(), suite.measure.samples_min), ("claim-x", 20));
        assert!(suite.gemm.is_some() && suite.stream.is_none());
        let own = "[suite.measure]\nsamples_min = 0\n";
        assert!(run(own).suite_text("x").expect_err("not whole").contains("[run.suite]"));
        assert!(run("[suite]\n").suite_text("x").expect_err("empty").contains("no cases"));
        let named = run("[suite]\nname = \"y\"\n");
        assert!(named.suite_text("x").expect_err("named").contains("name"));
        let far = run("tolerance = 1.5\n[suite]\n");
        assert!(far.suite_text("x").expect_err("no share").contains("tolerance"));
        for text in [
            "clock_mhz = nan",
            "clock_mhz = -1000.0",
            "power_limit_w = inf",
            "memory_mts = 0.0",
            "units = 0",
            "sockets = 0",
        ] {
            let of = run(&format!("[suite]\n[conditions]\n{text}\n"));
            let why = of.conditions.check().expect_err(text);
            assert!(text.starts_with(why.split(' ').next().unwrap_or_default()), "{text}: {why}");
        }
        assert!(toml::from_str::<Run>("[suite]\n[conditions]\nmoon = \"full\"\n").is_err());
    }
}
