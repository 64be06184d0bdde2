//! The vendor's own library, where `NCCL_LIBRARY` names one: `scripts/check_nccl.sh` brings it as a
//! Python wheel. It opens without a GPU, and its errors without one are real.

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use nccl_rs::{Communicator, DataType, Error, Library, Version};
use std::{env, sync::Arc, time::Duration};

fn library(test: &str) -> Option<Arc<Library>> {
    let Some(path) = env::var_os("NCCL_LIBRARY") else {
        let why = "NCCL_LIBRARY names no libnccl.so.2; scripts/check_nccl.sh brings one";
        skipped::because("nccl", format!("{test}: {why}"));
        return None;
    };
    Some(Arc::new(Library::open([path]).expect("it can be opened")))
}

#[test]
fn version_id_and_functions_are_there() {
    let Some(library) = library("version_id_and_functions_are_there") else { return };
    let version = library.version();
    assert!(version > Version::new(2, 7, 0) && version.major < 10, "{version}");
    if let Ok(wanted) = env::var("NCCL_VERSION_WANTED") {
        assert_eq!(version.to_string(), wanted);
    }
    let has = |needed: [u32; 2]| version >= Version::new(needed[0], needed[1], 0);
    assert_eq!(library.native()[0], has([2, 28]), "{version}");
    assert_eq!(library.registers(), [has([2, 19]), has([2, 27])], "{version}");
    assert_eq!(library.knows(DataType::Float8E4M3).is_ok(), has([2, 24]));
    // Ids differ, and are more than an address.
    let ids = [library.unique_id().expect("an id"), library.unique_id().expect("an id")];
    assert_ne!(ids[0].0, ids[1].0);
}

#[test]
fn without_a_driver_errors_are_the_librarys_own() {
    let Some(library) = library("without_a_driver_errors_are_the_librarys_own") else { return };
    if std::path::Path::new("/dev/nvidiactl").exists() {
        println!("without_a_driver_errors_are_the_librarys_own: skipped, there is a driver");
        return;
    }
    let error = library.try_devices(&[0]).expect_err("there is no GPU");
    let Error::Code { call: "ncclCommInitAll", code, words, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(*code > 0 && words.contains("error"), "{error}");
    let id = library.unique_id().expect("an id");
    let joined = Communicator::new(&library, &id, 0, 1, Duration::from_secs(30)).map(|_| ());
    let error = joined.expect_err("there is no GPU");
    assert!(matches!(&error, Error::Code { code, .. } if *code > 0), "{error:?}");
}
