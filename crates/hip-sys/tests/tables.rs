//! Tables over libraries that lack functions, over functions of this test, and over the real
//! libraries where they are installed.

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use hip_sys::{Error, Hip, HipBlasLt, HipRtc, hipErrorNotReady, hipErrorOutOfMemory};
use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

/// What the functions below return.
static CODE: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" fn free(_: *mut c_void) -> c_int {
    CODE.load(Ordering::Relaxed)
}

unsafe extern "C" fn error_string(code: c_int) -> *const c_char {
    if code == 2 { c"out of memory".as_ptr() } else { ptr::null() }
}

fn hip() -> Hip {
    // SAFETY: each function has the parameters of the one that it stands for.
    unsafe {
        Hip::from_symbols(|symbol| match symbol {
            "hipFree" => free as *const c_void,
            "hipGetErrorString" => error_string as *const c_void,
            _ => ptr::null(),
        })
    }
}

#[test]
fn codes_stay_integers_known_or_not() {
    let returned = |code| {
        CODE.store(code, Ordering::Relaxed);
        // SAFETY: the function ignores its argument.
        unsafe { hip().hipFree(ptr::null_mut()) }
    };
    assert_eq!(returned(0), Ok(()));
    let named = |code, name| Err(Error::Code { call: "hipFree", code, name });
    assert_eq!(returned(hipErrorNotReady), named(600, Some("hipErrorNotReady")));
    assert_eq!(returned(98_765), named(98_765, None));
    assert_eq!(returned(i32::MIN), named(i32::MIN, None));
    let words = returned(hipErrorOutOfMemory).expect_err("a code").to_string();
    assert_eq!(words, "hipFree returned 2 (hipErrorOutOfMemory)");
    assert_eq!(returned(-7).expect_err("a code").to_string(), "hipFree returned -7");
}

#[test]
fn a_missing_function_is_an_error_where_it_is_called() {
    let hip = hip();
    // SAFETY: the function is not there.
    let error = unsafe { hip.hipInit(0) }.expect_err("it is not there");
    assert_eq!(error, Error::NoSymbol { call: "hipInit" });
    assert_eq!(error.to_string(), "the library has no hipInit");
    assert_eq!(hip.hipMalloc.get().err(), Some(Error::NoSymbol { call: "hipMalloc" }));
    assert_eq!(hip.hipGetErrorName(2), Err(Error::NoSymbol { call: "hipGetErrorName" }));
    let missing = hip.missing();
    assert!(missing.contains(&"hipInit") && !missing.contains(&"hipFree"), "{missing:?}");
    // A library that is none of AMD's has none of the functions.
    let other = HipRtc::open(["libc.so.6"]).expect("there is a C library");
    assert_eq!(other.missing().len(), 9);
}

#[test]
fn texts_of_the_library_may_be_none() {
    assert_eq!(hip().hipGetErrorString(2), Ok(Some("out of memory".into())));
    assert_eq!(hip().hipGetErrorString(-3), Ok(None));
}

#[test]
fn functions_are_asked_for_by_the_names_of_the_headers() {
    let mut asked = Vec::new();
    let mut ask = |symbol| {
        asked.push(symbol);
        ptr::null()
    };
    // SAFETY: no function is there.
    unsafe {
        Hip::from_symbols(&mut ask);
        HipRtc::from_symbols(&mut ask);
        HipBlasLt::from_symbols(&mut ask);
    }
    assert!(asked.iter().all(|name| name.starts_with("hip")), "{asked:?}");
    asked.sort_unstable();
    let count = asked.len();
    asked.dedup();
    assert_eq!(asked.len(), count, "each once");
}

/// The real library, where it is installed; scripts/check_hip.sh brings Debian's, of HIP 5.2, which
/// has hipRTC in it and opens without a GPU.
#[test]
fn the_real_library_has_every_function_and_says_that_there_is_no_device() {
    let hip = match Hip::open(hip_sys::HIP_FILES) {
        Ok(hip) => hip,
        Err(error) => return skipped::because("hip", error),
    };
    let rtc = HipRtc::open(hip_sys::HIPRTC_FILES).expect("before ROCm 7 in the same library");
    let mut version = 0;
    // SAFETY: the pointer is valid.
    unsafe { hip.hipRuntimeGetVersion(&raw mut version) }.expect("a version");
    let newer = if version < 60_000_000 { vec!["hipGetDevicePropertiesR0600"] } else { vec![] };
    assert_eq!(hip.missing(), newer, "HIP {version}");
    assert_eq!(rtc.missing(), [""; 0]);
    assert_eq!(hip.hipGetErrorName(600), Ok(Some("hipErrorNotReady".into())));
    // SAFETY: 0 is the only flag.
    if let Err(Error::Code { code, name, .. }) = unsafe { hip.hipInit(0) } {
        assert!([100, 101].contains(&code), "{code} {name:?}");
    }
}
