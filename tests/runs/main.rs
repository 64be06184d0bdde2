//! The program itself, in processes of its own: what it says, keeps and survives.

#[path = "../gpus/mod.rs"]
mod gpus;
#[path = "../program/mod.rs"]
mod program;
#[path = "../skipped/mod.rs"]
mod skipped;

mod ab;
mod accept;
mod accept_faults;
mod between;
mod children;
mod cli;
mod clocks;
mod evidence;
mod explained;
mod fleet;
mod fleet_again;
mod fleet_hostile;
mod fleet_retest;
mod fleet_ways;
mod fleet_whose;
mod frontier;
mod hang;
mod inputs;
mod kill;
mod load;
mod load_ab;
mod load_send;
mod localise;
mod mistakes;
mod mpi;
mod nccl;
mod other_user;
mod record;
mod reduced;
mod regimes;
mod reproduce;
mod resumed;
mod schedulers;
mod search;
mod small_node;
mod starved;
mod stops;
mod user_kernels;
