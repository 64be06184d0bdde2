//! The versions of the record format.

use super::{Line, mirror::Mirror, v1};
use schemars::{JsonSchema, schema_for};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The versions that this program reads, oldest first.
pub(super) const VERSIONS: &[Version] = &[Version::of::<v1::Line>(v1::VERSION)];

/// The version that this program writes.
pub const CURRENT: &Version = VERSIONS.last().expect("there is a first version");

/// A version of the format: how one line of a record is read and written.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    number: u32,
    read: fn(Value) -> serde_json::Result<Line>,
    write: fn(&Line) -> serde_json::Result<String>,
    schema: fn() -> Value,
}

impl Version {
    /// The version whose lines are `W` on the wire.
    pub(super) const fn of<W>(number: u32) -> Version
    where
        W: Mirror<Domain = Line> + Serialize + DeserializeOwned + JsonSchema,
    {
        Version {
            number,
            read: |line| serde_json::from_value(line).map(W::into_domain),
            write: |line| serde_json::to_string(&W::from_domain(line)),
            schema: || schema_for!(W).to_value(),
        }
    }

    /// The number that headers carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Reads one line.
    ///
    /// # Errors
    /// Where it is no line of this version.
    pub fn read(&self, line: Value) -> serde_json::Result<Line> {
        (self.read)(line)
    }

    /// Writes one line, without its end.
    ///
    /// # Errors
    /// Where `serde_json` cannot write it.
    pub fn write(&self, line: &Line) -> serde_json::Result<String> {
        (self.write)(line)
    }

    /// The JSON Schema of one line, as docs/record-v1.schema.json publishes it.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Record,
        store::{self, RecordError},
    };
    use std::path::Path;

    const GOLDEN: &str = include_str!("../../../tests/golden/v1.jsonl");

    /// A made-up version 2. It tags lines by another word and another name, lays out the header in
    /// another order, and its footer says the opposite. It uses the other types of version 1.
    mod v2 {
        use crate::{self as record, mirror::Mirror, mirror::mirror, v1};
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case", tag = "kind")]
        pub enum Line {
            #[serde(rename = "start")]
            Header(Box<Header>),
            Outcome(v1::Outcome),
            Footer(Footer),
        }

        mirror!(enum Line of record::Line { Header(header), Outcome(outcome), Footer(footer) });

        #[derive(Serialize, Deserialize, JsonSchema)]
        pub struct Header {
            version: u32,
            started: String,
            fizeau: String,
            run: String,
            build: Option<String>,
            command: Vec<String>,
            label: Option<String>,
            suite: String,
            suite_text: String,
            selectors: Vec<String>,
            suite_cases: Option<u64>,
            user_kernels: Vec<v1::UserKernels>,
            device: v1::Properties,
            part: Option<String>,
            environment: v1::Environment,
            timer: v1::Timer,
            plan: Vec<v1::Case>,
        }

        mirror!(Header of record::Header {
            run, fizeau, build, command, started, label, suite, suite_text, selectors, suite_cases,
            user_kernels, device, part, environment, timer, plan; version = 2
        });

        #[derive(Serialize, Deserialize, JsonSchema)]
        pub struct Footer {
            ended: String,
            elapsed: fizeau_domain::units::Seconds,
            whole: bool,
        }

        impl Mirror for Footer {
            type Domain = record::Footer;

            fn from_domain(footer: &record::Footer) -> Footer {
                let record::Footer { ended, elapsed, interrupted } = footer;
                Footer { ended: ended.clone(), elapsed: *elapsed, whole: !interrupted }
            }

            fn into_domain(self) -> record::Footer {
                let Footer { ended, elapsed, whole } = self;
                record::Footer { ended, elapsed, interrupted: !whole }
            }
        }
    }

    fn read(versions: &[Version], text: &str) -> Result<Record, RecordError> {
        store::parse(versions, Path::new("record"), text.as_bytes())
    }

    #[test]
    fn a_second_version_needs_no_change_to_the_first() {
        let versions = [VERSIONS[0], Version::of::<v2::Line>(2)];
        let golden = read(VERSIONS, GOLDEN).expect("the golden record");
        let lines = GOLDEN.lines().map(|line| {
            let line = versions[0].read(serde_json::from_str(line).expect("JSON"));
            versions[1].write(&line.expect("a line of the record")).expect("JSON")
        });
        let lines: Vec<String> = lines.collect();
        let second = lines.join("\n") + "\n";
        assert!(second.starts_with(r#"{"kind":"start","version":2,"#), "{second:.80}");
        assert_eq!(read(&versions, &second).expect("version 2"), golden);
        assert_eq!(read(&versions, GOLDEN).expect("version 1"), golden);
        // Gone on with by a newer program: each header says in which version what follows is.
        let resumed = GOLDEN.lines().skip(1).position(|line| line.contains(r#""line":"header""#));
        let resumed = resumed.expect("it was resumed") + 1;
        let first = GOLDEN.lines().take(resumed).map(String::from);
        let both: Vec<String> = first.chain(lines.into_iter().skip(resumed)).collect();
        assert_eq!(read(&versions, &(both.join("\n") + "\n")).expect("both"), golden);
        let refused = read(VERSIONS, &second);
        assert!(matches!(refused, Err(RecordError::Newer { found: 2, newest: 1, .. })));
    }
}
