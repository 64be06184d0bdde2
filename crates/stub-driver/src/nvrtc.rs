//! `libnvrtc.so.13`: its binaries are the texts themselves behind the mark of a binary.

use crate::{
    cuda::{export, put},
    state::{OK, State, call},
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    slice,
};

struct Program {
    name: String,
    text: Vec<u8>,
}

const LOG: &str = "stub.cu(1): error: scripted";

export! {
    nvrtcVersion(major: *mut c_int, minor: *mut c_int) |_state| {
        major.write(13);
        minor.write(0);
        OK
    }
    nvrtcCreateProgram(
        program: *mut *mut c_void, text: *const c_char, name: *const c_char, headers: c_int,
        _texts: *const *const c_char, names: *const *const c_char
    ) |state| {
        let text = CStr::from_ptr(text).to_bytes().to_vec();
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let names = slice::from_raw_parts(names, headers as usize);
        let names: Vec<_> = names.iter().map(|name| CStr::from_ptr(*name).to_string_lossy()).collect();
        state.log(format!("compile {name} headers={names:?}"));
        program.write(Box::into_raw(Box::new(Program { name, text })).cast());
        state.count("programs", 1);
        OK
    }
    nvrtcCompileProgram(program: *mut c_void, count: c_int, options: *const *const c_char) |state| {
        let options = slice::from_raw_parts(options, count as usize);
        let options: Vec<_> =
            options.iter().map(|option| CStr::from_ptr(*option).to_string_lossy()).collect();
        let name = &(*program.cast::<Program>()).name;
        state.log(format!("options {name} {options:?}"));
        OK
    }
    nvrtcGetProgramLogSize(_program: *mut c_void, size: *mut usize) |_state| {
        size.write(LOG.len() + 1);
        OK
    }
    nvrtcGetProgramLog(_program: *mut c_void, text: *mut c_char) |_state| {
        put(LOG, text, LOG.len() + 1)
    }
    nvrtcGetCUBINSize(program: *mut c_void, size: *mut usize) |_state| {
        size.write((*program.cast::<Program>()).text.len() + 4);
        OK
    }
    nvrtcGetCUBIN(program: *mut c_void, bytes: *mut c_char) |_state| {
        let text = &(*program.cast::<Program>()).text;
        let bytes = slice::from_raw_parts_mut(bytes.cast::<u8>(), text.len() + 4);
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4..].copy_from_slice(text);
        OK
    }
    nvrtcDestroyProgram(program: *mut *mut c_void) |state| {
        drop(Box::from_raw(program.read().cast::<Program>()));
        program.write(std::ptr::null_mut());
        state.count("programs", -1);
        OK
    }
}
