//! What the library computes, called as functions. Nothing here takes all cores or starts the
//! program.

#[path = "../../build/commit.rs"]
mod commit;
#[path = "../sha256/mod.rs"]
mod sha256;
#[path = "../synthetic/mod.rs"]
mod synthetic;
#[path = "../tightness/mod.rs"]
mod tightness;
#[path = "../zoo/mod.rs"]
mod zoo;

mod ab;
mod accept_rates;
mod claim_energy;
mod claim_laws;
mod claim_links;
mod claim_sentences;
mod claims;
mod colours;
mod comparison;
mod consistency;
mod corruption;
mod data;
mod dcgm;
mod discover;
mod divisions;
mod error_rates;
mod faults;
mod fleet;
mod fleet_drift;
mod fleet_floors;
mod fleet_retest;
mod fleet_survey;
mod fleet_zoo;
mod floors;
mod formats;
mod frontier;
mod fuzz;
mod generations;
mod headings;
mod histories;
mod hosts;
mod kernels;
mod limits;
mod load;
mod load_ab;
mod localise;
mod localise_groups;
mod many_rows;
mod models;
mod native;
mod nccl_tests;
mod parts;
mod profiles;
mod project;
mod projected_records;
mod quota;
mod readers;
mod regimes;
mod report;
mod reproduction;
mod selectors;
mod serving;
mod statistics;
mod tiers;
mod token_formats;
mod tokens;
mod validate;
mod what_if;
mod wire;
mod world;
