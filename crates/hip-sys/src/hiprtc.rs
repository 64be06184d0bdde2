//! hipRTC, `libhiprtc.so`: `hip/hiprtc.h`. Before ROCm 7 `libamdhip64.so` exports it as well.

use crate::table::{codes, functions, handles};
use std::ffi::{c_char, c_int};

codes! {
    /// What hipRTC's functions return. An integer, because a newer library may return codes that
    /// are not listed here.
    hiprtcResult, result_name:
    HIPRTC_SUCCESS = 0: "Success.",
    HIPRTC_ERROR_OUT_OF_MEMORY = 1: "Not enough memory.",
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2: "The program could not be made.",
    HIPRTC_ERROR_INVALID_INPUT = 3: "An argument is not valid.",
    HIPRTC_ERROR_INVALID_PROGRAM = 4: "The program's handle is not valid.",
    HIPRTC_ERROR_INVALID_OPTION = 5: "An option is not valid.",
    HIPRTC_ERROR_COMPILATION = 6: "The text does not compile: the log says why.",
    HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7: "A built-in operation failed.",
    HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8:
        "A name was added after the compilation.",
    HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9:
        "A lowered name was asked for before the compilation.",
    HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10: "A name expression is not valid.",
    HIPRTC_ERROR_INTERNAL_ERROR = 11: "The library failed.",
}

handles! {
    /// A program: a text with its headers, and what was compiled from it.
    hiprtcProgram = *mut _hiprtcProgram;
}

/// File names of the compiler, newest major version first; those of the runtime that has it too
/// come last.
pub const HIPRTC_FILES: &[&str] = &[
    "libhiprtc.so.10",
    "libhiprtc.so.9",
    "libhiprtc.so.8",
    "libhiprtc.so.7",
    "libhiprtc.so.6",
    "libhiprtc.so.5",
    "libhiprtc.so",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
];

functions! {
    /// The functions of `libhiprtc.so`. Each method calls the function of its name.
    HipRtc, result_name:
    /// Version of the compiler.
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int);
    /// Makes a program from a text and `headers` texts with the names that it includes them by.
    fn hiprtcCreateProgram(
        program: *mut hiprtcProgram, source: *const c_char, name: *const c_char, headers: c_int,
        texts: *const *const c_char, names: *const *const c_char,
    );
    /// Compiles a program with `count` options.
    fn hiprtcCompileProgram(program: hiprtcProgram, count: c_int, options: *const *const c_char);
    /// Size of the compiler's log with the zero at its end, in bytes.
    fn hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize);
    /// The compiler's log.
    fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char);
    /// Size of the code object, in bytes.
    fn hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize);
    /// The code object.
    fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char);
    /// Destroys a program, and sets its handle to null.
    fn hiprtcDestroyProgram(program: *mut hiprtcProgram);
    texts:
    /// The library's words for a code.
    fn hiprtcGetErrorString(code: c_int);
}
