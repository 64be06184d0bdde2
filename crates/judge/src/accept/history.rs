//! All that the decision on some devices was told, in order: with the records it says the same
//! again, on any machine.

use super::{
    Level,
    cause::Cause,
    node::{Device, Node},
    profile::Profile,
};
use fizeau_record::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing that a [`Node`] was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// What one repeat has measured.
    Record {
        /// The device, by its number in the list of devices.
        device: usize,
        /// The record, by the name of its run ([`fizeau_record::Header::run`]).
        run: String,
    },
    /// The same of an acceptance that is continued: that a device did not answer then does not
    /// count.
    Earlier {
        /// The device, by its number in the list of devices.
        device: usize,
        /// The record, by the name of its run.
        run: String,
    },
    /// A device can be measured no more.
    Lost {
        /// Which.
        device: usize,
        /// Why, in words.
        why: String,
        /// What is to blame, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
    /// It was asked to judge.
    Judge,
    /// The budget or the user ended it.
    End,
}

/// Tells a node the same again; `records` are by the names of their runs.
///
/// # Errors
/// In words, where a record or a device is not there.
pub fn again<'p>(
    profile: &'p Profile,
    level: Level,
    devices: Vec<Device>,
    events: &[Event],
    records: &BTreeMap<String, Record>,
) -> Result<Node<'p>, String> {
    let count = devices.len();
    let known = |device: usize| match device < count {
        true => Ok(device),
        false => Err(format!("device {device} is told of, and there are {count}")),
    };
    let record = |run: &String| {
        records.get(run).ok_or_else(|| format!("the record of run {run} is missing"))
    };
    let mut node = Node::new(profile, level, devices);
    for event in events {
        match event {
            Event::Record { device, run } => node.add(known(*device)?, record(run)?),
            Event::Earlier { device, run } => node.add_earlier(known(*device)?, record(run)?),
            Event::Lost { device, why, cause } => {
                node.lose(known(*device)?, why.clone(), *cause);
            }
            Event::Judge => node.judge(),
            Event::End => node.end(),
        }
    }
    Ok(node)
}
