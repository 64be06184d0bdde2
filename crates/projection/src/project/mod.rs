//! From hardware to tokens: what a language model can do on a part of the catalogue, or on the
//! machine of a record. docs/project.md derives every formula.

pub mod costs;
pub mod hardware;
pub mod joined;
pub mod layout;
pub mod measured;
pub mod operation;
pub mod plan;
pub mod public;
pub mod remedy;
pub mod serving;
pub mod shapes;
pub mod step;
pub mod sweep;
pub mod symptom;
pub mod tier;
mod undisturbed;

pub use costs::{Start, Way};
pub use hardware::{Hardware, Limits, Link, Speed};
pub use layout::{Layout, Split};
pub use measured::{Measured, Whence};
pub use operation::{Kind, Operation, Phase, Routing, Work};
pub use plan::{
    Alternative, Demand, Offer, Projection, Seen, Side, Variant, project, project_with,
};
pub use public::{MediansFile, Public};
pub use serving::{Apart, DraftCost, Serving, Speculation};
pub use step::{Bound, Class, Row, Step, StepError, Unknown, step};
pub use sweep::{Fit, Point, Scenario, Slo, Tiers, point, served};
pub use tier::{By, Rests};
