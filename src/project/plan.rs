//! A whole projection: a model, what is asked of it, and each hardware with its points.

use super::{
    hardware::Hardware,
    layout::Layout,
    step::StepError,
    sweep::{self, Point, Scenario, Slo, Tiers},
};
use crate::model::Model;

/// What is to be projected.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The model.
    pub model: Model,
    /// What is asked of it.
    pub scenario: Scenario,
    /// Requests at once, in ascending order.
    pub concurrency: Vec<u32>,
    /// Limits of the service.
    pub slo: Slo,
}

/// One hardware, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The hardware.
    pub hardware: Hardware,
    /// Layouts to look at.
    pub layouts: Vec<Layout>,
    /// Dollars of one device for an hour.
    pub price: Option<f64>,
    /// Watts of one device, where it is given; else those of the part.
    pub power: Option<f64>,
}

/// What one hardware comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The hardware, and what it costs.
    pub offer: Offer,
    /// By layout and requests at once.
    pub points: Vec<Point>,
    /// Whether nothing beats a point in tokens a second of a user and of a device; never of one
    /// that does not fit.
    pub is_front: Vec<bool>,
    /// The same in time from end to end and requests a second of a device.
    pub is_front_end_to_end: Vec<bool>,
    /// Tokens a second of one request by context, in the first layout.
    pub decay: Vec<(u64, Tiers)>,
}

/// A whole projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// What was asked.
    pub demand: Demand,
    /// What each hardware comes to, in the order given.
    pub sides: Vec<Side>,
}

impl Offer {
    /// Watts of one device, and whether they were given.
    pub fn watts(&self) -> Option<(f64, bool)> {
        let stated = self.hardware.power.map(|power| (power.0, false));
        self.power.map(|power| (power, true)).or(stated)
    }
}

impl Side {
    /// The point to run at: the most tokens a second of a device within the limits.
    pub fn operating_point(&self, demand: &Demand) -> Option<&Point> {
        sweep::operating_point(&self.points, &demand.slo, demand.scenario.output)
    }

    /// Dollars for a million output tokens at a point.
    pub fn cost(&self, point: &Point, output: u32) -> Option<f64> {
        let rate = point.device_rate_with_prefill(output).best_known();
        Some(sweep::cost_of_million(self.offer.price?, rate))
    }

    /// Joules for an output token at a point.
    pub fn energy(&self, point: &Point, output: u32) -> Option<f64> {
        let rate = point.device_rate_with_prefill(output).best_known();
        Some(self.offer.watts()?.0 / rate)
    }
}

/// Computes a projection.
///
/// # Errors
/// Where a hardware lacks a number that is needed.
pub fn project(demand: Demand, offers: Vec<Offer>) -> Result<Projection, StepError> {
    let sides: Result<_, StepError> =
        offers.into_iter().map(|offer| side(&demand, offer)).collect();
    Ok(Projection { sides: sides?, demand })
}

fn side(demand: &Demand, offer: Offer) -> Result<Side, StepError> {
    let Demand { model, scenario, .. } = demand;
    let mut points = Vec::new();
    for layout in &offer.layouts {
        for requests in &demand.concurrency {
            points.push(sweep::point(model, &offer.hardware, *layout, scenario, *requests)?);
        }
    }
    let decay = match offer.layouts.first() {
        Some(layout) => sweep::decay(model, &offer.hardware, layout.split, scenario.kv)?,
        None => Vec::new(),
    };
    let of_users = |one: &Point| (one.user_rate().best_known(), one.device_rate().best_known());
    let of_requests = |one: &Point| {
        let rate = one.requests.best_known() / one.devices();
        (-one.end_to_end(scenario.output).best_known(), rate)
    };
    Ok(Side {
        is_front: front(&points, of_users),
        is_front_end_to_end: front(&points, of_requests),
        offer,
        points,
        decay,
    })
}

/// The front among the points that fit.
fn front(points: &[Point], of: impl Fn(&Point) -> (f64, f64)) -> Vec<bool> {
    let never = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let values: Vec<_> =
        points.iter().map(|one| if one.fits() { of(one) } else { never }).collect();
    let front = sweep::front(&values);
    points.iter().zip(front).map(|(one, is_front)| is_front && one.fits()).collect()
}
