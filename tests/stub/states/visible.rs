//! Variables by which users hide GPUs from their driver are obeyed, and named where something is
//! refused because of them.

use crate::{
    machine::{AMD, Machine, NVIDIA},
    program::say,
};
use std::fs;

/// The places of the boards that are left, in the order in which the driver numbers them.
fn left(libraries: &[&str], script: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let machine = Machine::with(libraries);
    fs::create_dir(machine.place.path("root")).expect("made");
    let args = ["accept", "--root", "root", "--level", "passive", "--out", "out"];
    say(machine.fizeau(script, &args).envs(variables.iter().copied()));
    let boards = machine.place.json("out/verdict.json")["boards"].clone();
    let gpus = boards.as_object().map_or(0, serde_json::Map::len);
    let name = |at| format!("{}:{at}", if libraries == NVIDIA { "cuda" } else { "hip" });
    let place = |at| boards[name(at)]["pci"].as_str().expect("a place").to_owned();
    (0..gpus).map(place).collect()
}

#[test]
fn nvidias_variable_takes_indices_uuids_and_slices() {
    let of = |script, list| left(&NVIDIA, script, &[("CUDA_VISIBLE_DEVICES", list)]);
    let (first, second, third) = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0");
    assert_eq!(of("devices=4", "2,0"), [third, first]);
    assert_eq!(of("devices=4", "GPU-58585858,0"), [second, first]);
    assert_eq!(of("devices=4,serial=X9", "GPU-X9-2"), [third]);
    assert_eq!(of("devices=4,mig", "MIG-59595959-5959-5959-5959-595959595959"), [third]);
    assert_eq!(of("devices=4", "1,7,0"), [second], "the list ends at what is no device");
    assert_eq!(of("devices=4", "-1"), [""; 0]);
}

#[test]
fn amds_variables_narrow_each_other() {
    let (second, fourth) = ("0000:02:00.0", "0000:04:00.0");
    let both = [("ROCR_VISIBLE_DEVICES", "3,1"), ("HIP_VISIBLE_DEVICES", "1")];
    assert_eq!(left(&AMD, "devices=4", &both), [second]);
    assert_eq!(left(&AMD, "devices=4", &[("CUDA_VISIBLE_DEVICES", "3")]), [fourth]);
}

#[test]
fn a_refusal_says_which_variable_hides_what() {
    for (libraries, variable, device) in [
        (&NVIDIA[..], "CUDA_VISIBLE_DEVICES", "cuda"),
        (&AMD[..], "HIP_VISIBLE_DEVICES", "hip"),
        (&AMD[..], "ROCR_VISIBLE_DEVICES", "hip"),
    ] {
        let machine = Machine::with(libraries);
        let beyond = format!("{device}:2");
        let args = ["list", "--suite", "stub.toml", "--device", &beyond];
        let said = say(machine.fizeau("devices=4", &args).env(variable, "1,3"));
        assert_eq!(said.code, Some(2), "{}", said.err);
        let words = format!("{device} has 2, counted from 0; {variable}=1,3 says which");
        assert!(said.err.contains(&words), "{}", said.err);
        let args = ["accept", "--level", "passive", "--device", &beyond];
        let said = say(machine.fizeau("devices=4", &args).env(variable, "1,3"));
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(&format!("{variable}=1,3 says which")), "{}", said.err);
        let args = ["list", "--suite", "stub.toml", "--device", device];
        let said = say(machine.fizeau("devices=4", &args).env(variable, ""));
        assert_eq!(said.code, Some(3), "{}", said.err);
        assert!(said.err.contains(&format!("{variable}=")), "{}", said.err);
    }
}
