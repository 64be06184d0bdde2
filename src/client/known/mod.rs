//! A server with known laws, to prove a client by: c slots that serve requests in the order in
//! which they come, each for a fixed or an exponential time, tokens at equal distances. What it
//! does with a request follows from the moment at which that came: a recursion gives it
//! ([`fizeau_projection::load::queue`]). It keeps its own stamps, and fails as it is told to.

mod fault;
mod laws;
pub mod request;
mod serve;

pub use fault::{Fault, FaultKind};
pub use laws::{Laws, Service, Stamp, tokens_of};
pub use serve::Server;
