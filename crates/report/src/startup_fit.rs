//! The start-up model of messages, t = a + S / b: a fixed cost, then a rate (Hockney 1994).

use fizeau_domain::units::{Bytes, BytesPerSecond, Seconds};

/// Above this largest relative error the machine does not follow the model: neither of its numbers
/// is quoted.
pub const FIT_ERROR_MAX: f64 = 0.3;

/// A fitted start-up model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartupFit {
    /// The fixed cost a.
    pub startup: Seconds,
    /// The rate b that long messages approach.
    pub rate: BytesPerSecond,
    /// Largest relative difference between a measured time and the fitted one.
    pub error_max: f64,
}

impl StartupFit {
    /// Whether the machine follows the model, so that its numbers may be quoted.
    pub fn holds(&self) -> bool {
        self.error_max <= FIT_ERROR_MAX
    }

    /// The message size at which half of `rate` is reached: a b.
    pub fn half_performance(&self) -> Bytes {
        Bytes((self.startup.0 * self.rate.0).round() as u64)
    }

    /// Time the model gives a message.
    pub fn time(&self, message: Bytes) -> Seconds {
        Seconds(self.startup.0 + message.0 as f64 / self.rate.0)
    }
}

/// Least squares of *relative* errors, so that a message of 4 KiB weighs as much as one of 1 GiB.
/// None below three sizes, or where the best model has no positive rate.
pub fn fit_startup(times: &[(Bytes, Seconds)]) -> Option<StartupFit> {
    if times.len() < 3 || times.iter().any(|(_, time)| time.0 <= 0.0 || !time.0.is_finite()) {
        return None;
    }
    // Divided by t, the model is 1 = a (1 / t) + c (S / t), with c = 1 / b: two normal equations.
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (message, time) in times {
        let (u, v) = (1.0 / time.0, message.0 as f64 / time.0);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    let determinant = uu * vv - uv * uv;
    if determinant <= 0.0 {
        return None;
    }
    let mut startup = (u1 * vv - v1 * uv) / determinant;
    let mut inverse_rate = (uu * v1 - uv * u1) / determinant;
    if startup < 0.0 {
        startup = 0.0;
        inverse_rate = v1 / vv;
    }
    if inverse_rate <= 0.0 || !inverse_rate.is_finite() {
        return None;
    }
    let mut fit = StartupFit {
        startup: Seconds(startup),
        rate: BytesPerSecond(1.0 / inverse_rate),
        error_max: 0.0,
    };
    fit.error_max = times
        .iter()
        .map(|(message, time)| (fit.time(*message) / *time - 1.0).abs())
        .fold(0.0, f64::max);
    Some(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_again() {
        let truth =
            StartupFit { startup: Seconds(5e-6), rate: BytesPerSecond(20e9), error_max: 0.0 };
        let times: Vec<_> = (12..30)
            .step_by(2)
            .map(|shift| (Bytes(1 << shift), truth.time(Bytes(1 << shift))))
            .collect();
        let fit = fit_startup(&times).expect("nine sizes");
        assert!((fit.startup / truth.startup - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.rate / truth.rate - 1.0).abs() < 1e-6, "{fit:?}");
        assert_eq!(fit.half_performance(), Bytes(100_000));
        assert!(fit.error_max < 1e-6 && fit.holds());
    }

    /// A cache that long messages leave makes two slopes of what the model takes for one.
    #[test]
    fn a_machine_that_does_not_follow_the_model_is_told() {
        let time = |shift: u32| {
            let rate = if shift < 24 { 50e9 } else { 5e9 };
            (Bytes(1 << shift), Seconds(5e-6 + f64::from(1u32 << shift) / rate))
        };
        let fit = fit_startup(&(12..30).step_by(2).map(time).collect::<Vec<_>>());
        assert!(!fit.expect("nine sizes").holds());
    }

    #[test]
    fn too_little_gives_no_model() {
        let flat = [(Bytes(1), Seconds(1.0)); 2];
        assert_eq!(fit_startup(&flat), None);
        let falling = [
            (Bytes(1 << 10), Seconds(3.0)),
            (Bytes(1 << 20), Seconds(2.0)),
            (Bytes(1 << 30), Seconds(1.0)),
        ];
        assert_eq!(fit_startup(&falling), None);
    }
}
