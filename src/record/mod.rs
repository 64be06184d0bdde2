//! The record: what a run leaves behind, and the only thing reports are made from.

pub mod store;
pub mod v1;

pub use v1 as current;
pub use v1::{Environment, Footer, Header, Line, Network, Record, Timer};

/// The JSON Schema of one line of a record, as docs/record-v1.schema.json publishes it.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}
