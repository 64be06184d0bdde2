//! The lines of SuperBench's `results-summary.jsonl`, one node each, which `sb result diagnosis`
//! reads (its `docs/user-tutorial/data-diagnosis.md`). They have no place for a mark, so that
//! records of a stub driver are not for them.

use crate::superbench::NodeResults;
use fizeau_domain::text::escaped;
use serde_json::{Map, Value};

/// One node's line.
pub fn line(of: &NodeResults) -> String {
    let mut object = Map::new();
    object.insert("node".into(), of.node.as_str().into());
    let metrics = of.metrics.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
    object.extend(metrics);
    escaped(Value::Object(object).to_string()) + "\n"
}
