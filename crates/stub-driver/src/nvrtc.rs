//! `libnvrtc.so.13`, or `libnvrtc.so.12` where a copy of the stub has that name: its binaries are
//! libraries of the host that execute the kernels' text.

use crate::{
    cuda::{export, fizeau_stub_driver, put},
    model,
    state::{OK, State, call},
    text::Source,
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    slice,
};

struct Program {
    source: Source,
    image: Vec<u8>,
    /// What the compiler said, where it refused.
    log: String,
}

/// What is said where a script alone refuses.
const LOG: &str = "stub.cu(1): error: scripted";

/// NVRTC_ERROR_COMPILATION, HIPRTC_ERROR_COMPILATION.
const NOT_COMPILED: c_int = 6;

/// NVRTC_ERROR_INVALID_OPTION.
const INVALID_OPTION: c_int = 5;

/// Numbers of the targets that NVRTC 13.0 knows, the one that came with 13.4, and those that 12.6
/// knows; families came with 12.9.
const KNOWN_13: [&str; 12] =
    ["75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"];
const SINCE_13_4: &str = "107";
const KNOWN_12: [&str; 8] = ["70", "72", "75", "80", "86", "87", "89", "90"];

/// The version, by the name of the file that this was loaded from; of CUDA 13 the driver's own where
/// that is 13.4.
fn release(driver: c_int) -> (c_int, c_int) {
    // SAFETY: a question about an address of this very library; all zeros are an empty answer.
    let file = unsafe {
        let mut told: libc::Dl_info = std::mem::zeroed();
        let here = fizeau_stub_driver as *const c_void;
        match libc::dladdr(here, &raw mut told) {
            0 => String::new(),
            _ => text_at(told.dli_fname),
        }
    };
    match file.ends_with("libnvrtc.so.12") {
        true => (12, 6),
        false if driver >= 13_040 => (13, 4),
        false => (13, 0),
    }
}

/// Whether a version has an option's target.
fn knows(release: (c_int, c_int), target: &str) -> bool {
    let known = if release.0 == 12 { &KNOWN_12[..] } else { &KNOWN_13[..] };
    let number = target.trim_start_matches("sm_").trim_start_matches("compute_");
    let is_family = number.ends_with('f');
    let number = number.trim_end_matches(['a', 'f']);
    let is_known = known.contains(&number) || release >= (13, 4) && number == SINCE_13_4;
    target.starts_with("gfx") || is_known && !(is_family && release.0 == 12)
}

unsafe fn text_at(text: *const c_char) -> String {
    // SAFETY: whoever calls passes a text that ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

export! {
    nvrtcVersion(major: *mut c_int, minor: *mut c_int) |state| {
        let release = release(state.script.driver);
        major.write(release.0);
        minor.write(release.1);
        OK
    }
    nvrtcCreateProgram(
        program: *mut *mut c_void, text: *const c_char, name: *const c_char, headers: c_int,
        texts: *const *const c_char, names: *const *const c_char
    ) |state| {
        let name = text_at(name);
        let names = slice::from_raw_parts(names, headers as usize).iter();
        let texts = slice::from_raw_parts(texts, headers as usize).iter();
        let headers: Vec<_> =
            names.zip(texts).map(|(name, text)| (text_at(*name), text_at(*text))).collect();
        let names: Vec<&String> = headers.iter().map(|(name, _)| name).collect();
        state.log(format!("compile {name} headers={names:?}"));
        let mut source = Source { name, text: text_at(text), headers };
        if let Some((find, replace)) = &state.script.text {
            let count = source.exchange(find, replace);
            if count > 0 { state.log(format!("exchanged {} {count}", source.name)); }
        }
        let made = Program { source, image: Vec::new(), log: LOG.into() };
        program.write(Box::into_raw(Box::new(made)).cast());
        state.count("programs", 1);
        OK
    }
    nvrtcGetProgramLogSize(program: *mut c_void, size: *mut usize) |_state| {
        let program = &*program.cast::<Program>();
        size.write(program.log.len() + 1);
        OK
    }
    nvrtcGetProgramLog(program: *mut c_void, text: *mut c_char) |_state| {
        let log = &(*program.cast::<Program>()).log;
        put(log, text, log.len() + 1)
    }
    nvrtcGetCUBINSize(program: *mut c_void, size: *mut usize) |_state| {
        let program = &*program.cast::<Program>();
        size.write(program.image.len());
        OK
    }
    nvrtcGetCUBIN(program: *mut c_void, bytes: *mut c_char) |_state| {
        let image = &(*program.cast::<Program>()).image;
        slice::from_raw_parts_mut(bytes.cast::<u8>(), image.len()).copy_from_slice(image);
        OK
    }
    nvrtcGetPTXSize(program: *mut c_void, size: *mut usize) |_state| {
        let program = &*program.cast::<Program>();
        size.write(program.image.len());
        OK
    }
    nvrtcGetPTX(program: *mut c_void, bytes: *mut c_char) |_state| {
        let image = &(*program.cast::<Program>()).image;
        slice::from_raw_parts_mut(bytes.cast::<u8>(), image.len()).copy_from_slice(image);
        OK
    }
    nvrtcDestroyProgram(program: *mut *mut c_void) |state| {
        drop(Box::from_raw(program.read().cast::<Program>()));
        program.write(std::ptr::null_mut());
        state.count("programs", -1);
        OK
    }
}

/// As the vendor documents it.
///
/// # Safety
///
/// As the vendor documents it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    program: *mut c_void,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    // SAFETY: the caller passes a program that is alive, and as many options.
    let (program, options) = unsafe {
        let options = slice::from_raw_parts(options, count as usize);
        let options: Vec<String> = options.iter().map(|option| text_at(*option)).collect();
        (&mut *program.cast::<Program>(), options)
    };
    let mut by = (0, 0);
    let begun = call("nvrtcCompileProgram", |state| {
        by = release(state.script.driver);
        let (major, minor) = by;
        state.log(format!("options {} {options:?} by {major}.{minor}", program.source.name));
        OK
    });
    if begun != OK {
        return begun;
    }
    let target = options.iter().find_map(|option| {
        let names = ["--gpu-architecture=", "--offload-arch="];
        names.iter().find_map(|name| option.strip_prefix(name))
    });
    let target = target.unwrap_or_default();
    if !knows(by, target) {
        program.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)".into();
        return INVALID_OPTION;
    }
    // Other devices' threads continue meanwhile: the state is not held.
    match program.source.library(target) {
        Ok(library) => {
            let major = if target.starts_with("gfx") { 0 } else { by.0 };
            program.image = model::image(&library, major);
            OK
        }
        Err(log) => {
            program.log = log;
            NOT_COMPILED
        }
    }
}
