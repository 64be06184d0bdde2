//! From hardware to tokens: what a language model can do on a part of the catalogue, or on the
//! machine of a record. docs/project.md derives every formula.

pub mod hardware;
pub mod layout;
pub mod measured;
pub mod operation;
pub mod plan;
pub mod shapes;
pub mod step;
pub mod sweep;

pub use hardware::{Hardware, Link};
pub use layout::{Layout, Split};
pub use operation::{Kind, Operation, Phase, Routing, Work};
pub use plan::{Demand, Offer, Projection, Side, project};
pub use step::{Bound, Class, Row, Step, StepError, step};
pub use sweep::{Fit, Point, Scenario, Slo, Tiers, point};
