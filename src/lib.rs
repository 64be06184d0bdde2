//! Fizeau tells how close a machine runs to the speed of light.
//!
//! A [case](fizeau_domain::case) is planned, prepared into a [workload](fizeau_bench::Workload) on
//! a [rank](fizeau_bench::Rank), timed into [samples](fizeau_domain::outcome::Samples),
//! [summarised](fizeau_domain::stats::Summary), set against the
//! [speed of light](fizeau_domain::spec) of a part, kept in a [record](fizeau_record), and only
//! then shown in a [document](fizeau_report::Document).
//!
//! This crate is the program: what measures, and what talks to a person. The crates below it hold
//! data, judgement, devices and documents; docs/architecture.md says what each may know.
//! What a crate below refuses to compile, because it stands above that crate, compiles here:
//!
//! ```
//! use fizeau::session;
//! use fizeau_bench::Workload;
//! use fizeau_comm::Communicator;
//! use fizeau_device::Device;
//! use fizeau_judge::compare;
//! use fizeau_projection::project;
//! use fizeau_record::Record;
//! use fizeau_report::Document;
//! ```

pub mod client;
pub mod cmd;
pub mod data;
pub mod kernels;
pub mod measure;
pub mod session;
pub mod world;
