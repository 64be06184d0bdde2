//! Serving under load: what a client measured of each request, and how far the server is from what
//! its hardware allows. docs/load.md explains each number.

mod aiperf;
pub mod join;
pub mod level;
pub mod read;
pub mod row;
pub mod times;
mod vllm;

pub use join::{Basis, Engine, Explained, Joined, Share, join};
pub use level::{Level, Offered, Request};
pub use read::{Source, read};
pub use row::{Ending, Header, Line, Plan, Row, Stop};
pub use times::{Quantile, Times};
