//! The program itself on stub drivers of both vendors: its real way through their libraries, with
//! no GPU. No number comes from them, and none is shown.

#[expect(dead_code, reason = "a fake device's part of it is for other tests")]
#[path = "../program/mod.rs"]
mod program;
#[path = "../skipped/mod.rs"]
mod skipped;
#[path = "../stub_cache/mod.rs"]
mod stub_cache;

mod accept;
mod accept_ends;
mod broken;
mod cache;
mod corruption;
mod cuda;
mod discover;
mod drivers;
mod first_day;
mod frontier;
mod hip;
mod machine;
mod memory;
mod scaled;
mod side_by_side;
mod sides;
mod speed;
mod states;
mod timing;
mod tune;
mod tuned;
mod unknown;
mod user_kernels;
mod verify;
