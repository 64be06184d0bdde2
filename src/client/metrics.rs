//! Asks a server for `/metrics` while a level of load is sent.

use super::http::{Client, Connections};
use fizeau_device::clock::{self, Moment};
use fizeau_domain::units::Seconds;
use fizeau_projection::load::{
    metrics::{self, Quantity},
    row::Sample,
};
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
};

/// The least time between two questions.
const EVERY_MIN: Seconds = Seconds(0.05);

/// How often the end of the level is looked for.
const LOOK: Seconds = Seconds(0.05);

/// An answer that takes longer is left out: a question about the load is not to become one.
const PATIENCE: Seconds = Seconds(2.0);

/// A watch on a server's `/metrics`.
#[derive(Clone, Debug)]
pub struct Scraper {
    client: Client,
    connections: Connections,
    path: String,
    others: BTreeMap<String, Quantity>,
    every: Seconds,
}

impl Scraper {
    /// A watch that asks `path` again after `every`; `others` are names of metrics that the user
    /// gives. None where the server has no metrics of a known name.
    pub fn find(
        client: &Client,
        path: &str,
        others: BTreeMap<String, Quantity>,
        every: Seconds,
    ) -> Option<Scraper> {
        let mut client = client.clone();
        client.deadlines.connect = PATIENCE;
        client.deadlines.silence = PATIENCE;
        client.deadlines.request = PATIENCE;
        let connections = client.connections();
        let every = if every < EVERY_MIN { EVERY_MIN } else { every };
        let scraper = Scraper { client, connections, path: path.to_owned(), others, every };
        scraper.ask().map(|_| scraper)
    }

    fn ask(&self) -> Option<Sample> {
        let text = self.client.ask_text(&self.connections, &self.path).ok()?;
        metrics::read(&text, &self.others)
    }

    /// Asks until `is_over`, and tells each answer. Moments count from `start`.
    pub fn watch(&self, level: usize, start: Moment, is_over: &AtomicBool, told: &Sender<Sample>) {
        let mut due = 0.0;
        while !is_over.load(Ordering::Relaxed) {
            let left = due - start.elapsed().0;
            if left > 0.0 {
                clock::rest(Seconds(left.min(LOOK.0)));
                continue;
            }
            due = start.elapsed().0 + self.every.0;
            if let Some(sample) = self.ask() {
                let moment = start.elapsed().0;
                if told.send(Sample { level, moment, ..sample }).is_err() {
                    return;
                }
            }
        }
    }
}
