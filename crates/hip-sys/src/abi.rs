//! What this crate declares, against what AMD's headers say (`abi/`, see the README).
//!
//! Both are lists of lines: `fn NAME(KINDS) -> KIND`, `number NAME = VALUE`,
//! `field TYPE.NAME = OFFSET, SIZE` and `size TYPE = BYTES`. A kind is what decides how a value
//! travels: an integer's size (`i4`), `f4`, `void`, a struct's name, `*` before what a pointer
//! points to.

use crate::{hip, hipblaslt};
use std::{collections::BTreeMap, ffi::c_void};

/// How a value of a type travels.
pub(crate) trait Kind {
    fn kind() -> String;
}

macro_rules! kinds {
    ($($kind:literal: $($type:ty)*;)*) => { $( $(
        impl Kind for $type {
            fn kind() -> String {
                $kind.into()
            }
        }
    )* )* };
}
kinds! {
    "i1": i8 u8;
    "i4": i32 u32;
    "i8": i64 u64 usize;
    "f4": f32;
    "void": c_void;
    "hipUUID_t": hip::hipUUID_t;
    "hipDeviceProp_tR0600": hip::hipDeviceProp_tR0600;
    "hipDeviceProp_tR0000": hip::hipDeviceProp_tR0000;
    "hipblasLtMatmulAlgo_t": hipblaslt::hipblasLtMatmulAlgo_t;
    "hipblasLtMatmulHeuristicResult_t": hipblaslt::hipblasLtMatmulHeuristicResult_t;
}

impl<T: Kind> Kind for *mut T {
    fn kind() -> String {
        format!("*{}", T::kind())
    }
}

impl<T: Kind> Kind for *const T {
    fn kind() -> String {
        format!("*{}", T::kind())
    }
}

/// A function's line.
pub(crate) fn signature(name: &str, parameters: Vec<String>, result: String) -> String {
    format!("fn {name}({}) -> {result}", parameters.join(", "))
}

/// Size of what a function that borrows a field gives.
fn size_of_field<T, F>(_: impl Fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Lines of structs' sizes and fields.
macro_rules! layouts {
    ($lines:ident: $( $([$sized:ident])? $type:ident { $($field:ident)* } )*) => { $(
        $( $lines.push(format!("{} {} = {}", stringify!($sized), stringify!($type),
                               size_of::<$type>())); )?
        $( $lines.push(format!(
            "field {}.{} = {}, {}",
            stringify!($type),
            stringify!($field),
            std::mem::offset_of!($type, $field),
            $crate::abi::size_of_field(|value: &$type| &value.$field),
        )); )*
    )* };
}

/// Lines of the structs that HIP 6 and newer have.
macro_rules! layouts_of_hip {
    ($lines:ident) => {
        layouts! { $lines:
            [size] hipUUID_t { bytes }
            [size] hipDeviceProp_tR0600 { name gcnArchName }
        }
    };
}

/// Lines of hipBLASLt's structs.
macro_rules! layouts_of_hipblaslt {
    ($lines:ident) => {
        layouts! { $lines:
            [size] hipblasLtMatmulAlgo_t { data max_workspace_bytes }
            [size] hipblasLtMatmulHeuristicResult_t {
                algo workspaceSize state wavesCount reserved
            }
        }
    };
}

// Behind the macros that it uses.
#[cfg(feature = "abi")]
mod bindings;

fn numbers(list: &[(&str, i64)]) -> Vec<String> {
    list.iter().map(|(name, value)| format!("number {name} = {value}")).collect()
}

/// What this crate declares.
fn declared() -> Vec<String> {
    use crate::*;
    let mut lines = [Hip::signatures(), HipRtc::signatures(), HipBlasLt::signatures()].concat();
    let all = [hip::CODES, hip::CONSTANTS, hiprtc::CODES, hipblaslt::CODES, hipblaslt::CONSTANTS];
    lines.extend(all.into_iter().flat_map(numbers));
    layouts_of_hip! { lines }
    // This one has more room than any version fills: its size is this crate's own.
    layouts! { lines: hipDeviceProp_tR0000 { name gcnArchName } }
    layouts_of_hipblaslt! { lines }
    lines
}

/// The name that a line is about.
fn name(line: &str) -> &str {
    let after = line.split_once(' ').map_or("", |(_, after)| after);
    let end = after.find(['(', ' ']).unwrap_or(after.len());
    &after[..end]
}

/// The lines of `ours` that `headers` contradict or do not know. An `unknown` name is one that
/// this source does not have or was not asked for; so are the fields of an unknown struct.
fn differences(ours: &[String], headers: &str) -> Vec<String> {
    // A size and a name may be of the same thing.
    let key =
        |line: &str| (line.split(' ').next().unwrap_or_default().to_owned(), name(line).to_owned());
    let lines = headers.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let known: BTreeMap<_, _> = lines.map(|line| (key(line), line)).collect();
    let unknown = |line: &str| {
        let whole = name(line).split('.').next().unwrap_or_default();
        known.contains_key(&("unknown".to_owned(), whole.to_owned()))
    };
    let mut faults = Vec::new();
    for line in ours {
        match known.get(&key(line)) {
            Some(theirs) if theirs == line => {}
            Some(theirs) => faults.push(format!("declared: {line}; the headers: {theirs}")),
            None if unknown(line) => {}
            None => faults.push(format!("declared: {line}; nothing in the headers")),
        }
    }
    faults
}

/// What versions of the headers say.
const HEADERS: &[(&str, &str)] = &[
    ("hip-5.2.txt", include_str!("../abi/hip-5.2.txt")),
    ("rocm-6.4.txt", include_str!("../abi/rocm-6.4.txt")),
    ("rocm-7.2.txt", include_str!("../abi/rocm-7.2.txt")),
    ("hip-7.14.txt", include_str!("../abi/hip-7.14.txt")),
];

#[test]
fn declarations_are_those_of_every_version_of_the_headers() {
    for (file, headers) in HEADERS {
        let faults = differences(&declared(), headers);
        assert!(faults.is_empty(), "abi/{file}:\n{}", faults.join("\n"));
    }
}

#[test]
fn everything_that_is_declared_is_known_to_some_version() {
    for line in declared() {
        let known = HEADERS.iter().any(|(_, headers)| headers.lines().any(|their| their == line));
        assert!(known, "no file in abi/ has: {line}");
    }
}

/// Declarations with one fault each, made in the same way as the crate's own.
#[expect(dead_code, reason = "what is declared is compared and never used")]
mod planted {
    use crate::table::{constants, functions};
    use std::ffi::{c_char, c_int, c_void};

    functions! {
        /// Two wrong signatures, and a right one.
        Wrong, crate::error_name:
        /// Its size is a `usize`.
        fn hipMalloc(address: *mut *mut c_void, bytes: u32);
        /// It takes an event and a stream.
        fn hipEventRecord(event: crate::hipStream_t, stream: crate::hipEvent_t);
        /// As it is.
        fn hipFree(address: *mut c_void);
        texts:
    }

    constants! {
        /// A wrong number, and a right one.
        Numbers = c_int {
            hipErrorNotReady = 601: "It is 600.",
            hipMemcpyDefault = 4: "As it is.",
        }
    }

    /// A struct whose last field is 4 bytes too far.
    #[repr(C)]
    pub(super) struct hipDeviceProp_tR0600 {
        pub name: [c_char; 256],
        pub between: [u8; 908],
        pub gcnArchName: [c_char; 256],
        pub rest: [u8; 52],
    }
}

#[test]
fn a_planted_wrong_signature_number_or_offset_is_a_fault() {
    use planted::hipDeviceProp_tR0600;
    let mut lines = planted::Wrong::signatures();
    lines.extend(numbers(planted::CONSTANTS));
    layouts! { lines: [size] hipDeviceProp_tR0600 { name gcnArchName } }
    for (file, headers) in &HEADERS[1..] {
        let faults = differences(&lines, headers);
        let wrong = [
            "fn hipMalloc(**void, i4) -> i4; the headers: fn hipMalloc(**void, i8) -> i4",
            "fn hipEventRecord(*ihipStream_t, *ihipEvent_t) -> i4; the headers: \
             fn hipEventRecord(*ihipEvent_t, *ihipStream_t) -> i4",
            "number hipErrorNotReady = 601; the headers: number hipErrorNotReady = 600",
            "field hipDeviceProp_tR0600.gcnArchName = 1164, 256; the headers: \
             field hipDeviceProp_tR0600.gcnArchName = 1160, 256",
        ];
        assert_eq!(faults, wrong.map(|words| format!("declared: {words}")), "{file}");
    }
}

#[test]
fn a_name_that_no_header_has_is_a_fault_unless_it_is_marked_unknown() {
    let ours = ["fn hipNew(i4) -> i4".to_owned(), "field New.place = 8, 4".to_owned()];
    assert_eq!(differences(&ours, "# nothing\n").len(), 2);
    assert_eq!(differences(&ours, "unknown hipNew\n").len(), 1);
    assert_eq!(differences(&ours, "unknown hipNew\nunknown New\n").len(), 0);
}
