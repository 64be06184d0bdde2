//! `fizeau`: see the crate's documentation.

fn main() {}
