//! A whole projection: a model, what is asked of it, and each hardware with its points.

use super::{
    hardware::Hardware,
    layout::Layout,
    serving::Serving,
    step::StepError,
    sweep::{self, Point, Scenario, Slo, Tiers},
    tier::By,
};
use fizeau_domain::{model::Model, units::Seconds};

/// What is to be projected.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The model.
    pub model: Model,
    /// How its weights are stored where that was asked for, in the words of the command line.
    pub precision: Option<String>,
    /// What is asked of it.
    pub scenario: Scenario,
    /// How requests are served.
    pub serving: Serving,
    /// Requests at once, in ascending order.
    pub concurrency: Vec<u32>,
    /// Limits of the service.
    pub slo: Slo,
    /// What a service that runs shows, to be set beside what is expected.
    pub seen: Seen,
}

/// Times that a service shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// To the first token.
    pub first_token: Option<Seconds>,
    /// Of one token more.
    pub token: Option<Seconds>,
}

/// Something that could be otherwise, to be set beside what is.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What is otherwise, in the words of the command line.
    pub name: String,
    /// What is asked.
    pub demand: Demand,
    /// The hardware, and what it costs.
    pub offer: Offer,
    /// The user's own figure of how good the answers are; larger is better.
    pub accuracy: Option<f64>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// What an alternative comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// What is otherwise, in the words of the command line.
    pub name: String,
    /// What was asked.
    pub demand: Demand,
    /// What its hardware comes to.
    pub side: Side,
    /// The user's own figure of how good the answers are; larger is better.
    pub accuracy: Option<f64>,
    /// What to know of it.
    pub notes: Vec<String>,
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
    /// Tokens a second of one request by context, in the first layout, of contexts that fit.
    pub decay: Vec<(u64, Tiers)>,
}

/// A whole projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// What was asked.
    pub demand: Demand,
    /// What each hardware comes to, in the order given.
    pub sides: Vec<Side>,
    /// What could be otherwise, in the order given, each beside the first hardware.
    pub variants: Vec<Variant>,
}

impl Offer {
    /// Watts of one device, and where they are from.
    pub fn watts(&self) -> Option<(f64, &'static str)> {
        let stated = self.hardware.power.map(|power| (power.0, "stated for the part"));
        let limit = self.hardware.power_limit.map(|power| (power.0, "the record's power limit"));
        self.power.map(|power| (power, "given")).or(limit).or(stated)
    }
}

impl Side {
    /// The point to run at: the most tokens a second of a device within the limits, by the best
    /// tier that is known of this hardware.
    pub fn operating_point(&self, demand: &Demand) -> Option<&Point> {
        self.operating_point_by(demand, By::BestKnown)
    }

    /// Whether anything that was asked fits.
    pub fn fits(&self) -> bool {
        self.points.iter().any(Point::fits)
    }

    /// Whether a point of this side is ranked among its others: see [`sweep::is_ranked`].
    pub fn is_ranked(&self, point: &Point) -> bool {
        sweep::is_ranked(point, &self.points)
    }

    /// The point to run at by a tier, for comparisons with other hardware.
    pub fn operating_point_by(&self, demand: &Demand, by: By) -> Option<&Point> {
        sweep::operating_point(&self.points, &demand.slo, demand.scenario.output, by)
    }

    /// Dollars for a million output tokens at a point.
    pub fn cost(&self, point: &Point, output: u32, by: By) -> Option<f64> {
        let rate = point.device_rate_with_prefill(output).by(by);
        Some(sweep::cost_of_million(self.offer.price?, rate))
    }

    /// Joules for an output token at a point.
    pub fn energy(&self, point: &Point, output: u32, by: By) -> Option<f64> {
        let rate = point.device_rate_with_prefill(output).by(by);
        Some(self.offer.watts()?.0 / rate)
    }
}

/// Computes a projection.
///
/// # Errors
/// Where a hardware lacks a number that is needed.
pub fn project(demand: Demand, offers: Vec<Offer>) -> Result<Projection, StepError> {
    project_with(demand, offers, Vec::new())
}

/// Computes a projection with what could be otherwise.
///
/// # Errors
/// Where a hardware lacks a number that is needed.
pub fn project_with(
    demand: Demand,
    offers: Vec<Offer>,
    alternatives: Vec<Alternative>,
) -> Result<Projection, StepError> {
    let sides: Result<_, StepError> =
        offers.into_iter().map(|offer| side(&demand, offer)).collect();
    let variant = |one: Alternative| {
        let Alternative { name, demand, offer, accuracy, notes } = one;
        let side = side(&demand, offer)?;
        Ok(Variant { name, demand, side, accuracy, notes })
    };
    let variants: Result<_, StepError> = alternatives.into_iter().map(variant).collect();
    Ok(Projection { sides: sides?, variants: variants?, demand })
}

fn side(demand: &Demand, offer: Offer) -> Result<Side, StepError> {
    let Demand { model, scenario, serving, .. } = demand;
    let asked = (scenario, serving);
    let mut points = Vec::new();
    for layout in &offer.layouts {
        for requests in &demand.concurrency {
            points.push(sweep::served(model, &offer.hardware, *layout, asked, *requests)?);
        }
    }
    let decay = match offer.layouts.first() {
        Some(layout) => {
            let memory = (scenario.kv, scenario.memory_share);
            sweep::decay(model, &offer.hardware, layout.split, memory)?
        }
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

/// The front among the points that are ranked.
fn front(points: &[Point], of: impl Fn(&Point) -> (f64, f64)) -> Vec<bool> {
    let never = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let ranked: Vec<_> = points.iter().map(|one| sweep::is_ranked(one, points)).collect();
    let values: Vec<_> = points
        .iter()
        .zip(&ranked)
        .map(|(one, is_ranked)| if *is_ranked { of(one) } else { never })
        .collect();
    let front = sweep::front(&values);
    ranked.iter().zip(front).map(|(is_ranked, is_front)| is_front && *is_ranked).collect()
}
