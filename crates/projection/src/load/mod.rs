//! Serving under load: what a client measured of each request, and how far the server is from what
//! its hardware allows; and what a client needs to be sure of, without its effects: what is asked
//! and when, what an answer means, what a server with known laws would do. docs/load.md explains
//! each number.

pub mod ab;
mod aiperf;
pub mod arrivals;
pub mod capacity;
mod clients;
mod compact;
pub mod join;
pub mod late;
pub mod lengths;
pub mod level;
pub mod metrics;
pub mod over_time;
mod possible;
pub mod prompt;
pub mod queue;
pub mod random;
pub mod read;
pub mod received;
pub mod row;
pub mod search;
pub mod sse;
mod summary;
pub mod target;
pub mod times;
pub mod trace;
pub mod vllm;

pub use join::{Basis, Engine, Explained, Joined, Share, join};
pub use level::{Level, Offered, Request};
pub use read::{Source, read};
pub use row::{Ending, Header, Line, Plan, Row, Sample, Stop};
pub use times::{Quantile, Times};
