//! A made-up node for `fizeau accept`: one small check of the host, and files as the kernel has
//! them. `scripts/forgeries.py` takes the same suite and profile.

use crate::program::{MEASURE, Place};
use std::fs;

/// One small product.
const SUITE: &str = include_str!("small_node/small.toml");

/// A host's check of it, whose floor only the grossly slow are below.
pub const PROFILE: &str = include_str!("small_node/profile.toml");

/// A directory with the profile `profile.toml`, its suite, and the folder `root` of a node.
pub fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("profile.toml"), PROFILE).expect("written");
    fs::write(place.path("small.toml"), format!("{SUITE}{MEASURE}")).expect("written");
    fs::create_dir(place.path("root")).expect("made");
    place
}

/// A file of a made-up tree of the kernel's files.
pub fn plant(place: &Place, file: &str, text: &str) {
    let path = place.path("root").join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}
