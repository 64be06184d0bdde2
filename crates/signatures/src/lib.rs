//! Foreign functions, compared by how their parameters travel: what a program declares of a library
//! against what a crate declares that was made from the library's headers. For tests.
//!
//! The two never agree type by type: one says `*mut c_void` where the other names an opaque struct,
//! or an integer where the other has an enumeration. What has to agree is the number of parameters,
//! and of each whether it is an integer, a float or a pointer, how wide it is, and what a pointer
//! points to where both say so.

use std::any::type_name;

/// How a parameter or a result travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// An integer or an enumeration of this many bytes, or a struct passed by its value.
    Value(usize),
    /// A float of this many bytes.
    Float(usize),
    /// A pointer: whether it is written through, and how wide what it points to is, where that is a
    /// number, an array or again a pointer. Structs and what is opaque are not told apart.
    Pointer(bool, Option<usize>),
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its parameters, in their order.
    pub takes: Vec<Passed>,
    /// Its result.
    pub gives: Passed,
}

/// One function of a table: every symbol that it is looked for by, and what it is called as.
pub type Called = (Vec<&'static str>, Signature);

/// A table of functions that a library is opened into.
pub trait Table {
    /// All of them.
    fn called() -> Vec<Called>;
}

/// Functions by pointer.
pub trait Function {
    /// What it takes and gives.
    fn signature() -> Signature;
}

/// What a function takes and gives, by its pointer.
pub fn of<F: Function>(_: F) -> Signature {
    F::signature()
}

/// The same of a field that holds the pointer where the library exports it.
pub fn of_field<L, F: Function, E>(_: fn(&L) -> &Result<F, E>) -> Signature {
    F::signature()
}

fn passed<T>() -> Passed {
    let name = type_name::<T>();
    match (name.strip_prefix("*mut "), name.strip_prefix("*const ")) {
        (Some(to), _) => Passed::Pointer(true, width(to)),
        (_, Some(to)) => Passed::Pointer(false, width(to)),
        _ if ["f32", "f64"].contains(&name) => Passed::Float(size_of::<T>()),
        _ => Passed::Value(size_of::<T>()),
    }
}

/// Bytes of what a pointer points to, by its name: a pointer's target need not have a size. None
/// where it is opaque, or a struct; where it is text or memory of any kind, which is `char *` in one
/// place and `void *` in another.
fn width(name: &str) -> Option<usize> {
    let array = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if let Some((element, count)) = array.and_then(|array| array.rsplit_once("; ")) {
        let count: usize = count.parse().ok()?;
        // Of characters too: an array has as many bytes as it says.
        return Some(width(element).unwrap_or(1) * count);
    }
    match name {
        "u8" | "bool" => Some(1),
        "i16" | "u16" => Some(2),
        "i32" | "u32" | "f32" => Some(4),
        "i64" | "u64" | "f64" | "isize" | "usize" => Some(8),
        // A struct of the headers that programs pass as an array of bytes.
        _ if name.ends_with("::CUuuid_st") => Some(16),
        _ => name.starts_with('*').then_some(8),
    }
}

macro_rules! functions {
    ($($parameter:ident)*) => {
        functions! { [unsafe extern "C" fn] $($parameter)* }
        functions! { [extern "C" fn] $($parameter)* }
        functions! { [unsafe fn] $($parameter)* }
    };
    ([$($kind:tt)*] $($parameter:ident)*) => {
        impl<Result, $($parameter),*> Function for $($kind)*($($parameter),*) -> Result {
            fn signature() -> Signature {
                let takes = vec![$(passed::<$parameter>()),*];
                Signature { takes, gives: passed::<Result>() }
            }
        }
    };
}
functions! {}
functions! { A }
functions! { A B }
functions! { A B C }
functions! { A B C D }
functions! { A B C D E }
functions! { A B C D E F }
functions! { A B C D E F G }
functions! { A B C D E F G H }
functions! { A B C D E F G H I }
functions! { A B C D E F G H I J }
functions! { A B C D E F G H I J K }
functions! { A B C D E F G H I J K L }
functions! { A B C D E F G H I J K L M N O P }

/// Lists functions of a module with what they take and give. Each is named with one underscore for
/// each of its parameters.
#[macro_export]
macro_rules! declared {
    ([unsafe fn] $module:path: $( $name:ident ( $($any:tt)* ) )*) => {{
        use $module as declared;
        vec![$((
            stringify!($name),
            $crate::of(declared::$name as unsafe fn($($any)*) -> _),
        )),*]
    }};
    ([unsafe extern "C" fn] $module:path: $( $name:ident ( $($any:tt)* ) )*) => {{
        use $module as declared;
        vec![$((
            stringify!($name),
            $crate::of(declared::$name as unsafe extern "C" fn($($any)*) -> _),
        )),*]
    }};
}

/// Gives another macro the functions of one of NVIDIA's libraries that the program calls and the
/// stub has, named as for [`declared!`], behind what stands before them.
#[macro_export]
macro_rules! nvidia {
    (driver $to:ident $($before:tt)*) => {
        $to! { $($before)*
            cuInit(_) cuDriverGetVersion(_) cuDeviceGetCount(_) cuDeviceGet(_, _)
            cuDeviceGetName(_, _, _) cuDeviceGetUuid_v2(_, _) cuDeviceGetPCIBusId(_, _, _)
            cuDeviceTotalMem_v2(_, _) cuDeviceGetAttribute(_, _, _) cuDevicePrimaryCtxRetain(_, _)
            cuDevicePrimaryCtxRelease_v2(_) cuCtxSetCurrent(_) cuCtxResetPersistingL2Cache()
            cuMemGetInfo_v2(_, _) cuMemAlloc_v2(_, _) cuMemFree_v2(_) cuMemHostAlloc(_, _, _)
            cuMemHostGetDevicePointer_v2(_, _, _) cuMemFreeHost(_) cuMemsetD8Async(_, _, _, _)
            cuMemcpyHtoDAsync_v2(_, _, _, _) cuMemcpyDtoHAsync_v2(_, _, _, _) cuStreamCreate(_, _)
            cuStreamDestroy_v2(_) cuEventCreate(_, _) cuEventDestroy_v2(_) cuEventRecord(_, _)
            cuEventQuery(_) cuEventElapsedTime_v2(_, _, _) cuModuleLoadData(_, _) cuModuleUnload(_)
            cuModuleGetFunction(_, _, _) cuFuncLoad(_) cuFuncSetAttribute(_, _, _)
            cuFuncGetAttribute(_, _, _) cuFuncGetParamInfo(_, _, _, _)
            cuLaunchKernelEx(_, _, _, _) cuTensorMapEncodeTiled(_, _, _, _, _, _, _, _, _, _, _, _)
            cuMemcpyAsync(_, _, _, _) cuStreamWaitEvent(_, _, _) cuDeviceCanAccessPeer(_, _, _)
            cuCtxEnablePeerAccess(_, _) cuCtxGetLimit(_, _) cuStreamBeginCapture_v2(_, _)
            cuStreamEndCapture(_, _) cuGraphInstantiateWithFlags(_, _, _) cuGraphLaunch(_, _)
            cuGraphExecDestroy(_) cuGraphDestroy(_)
        }
    };
    (nvrtc $to:ident $($before:tt)*) => {
        $to! { $($before)*
            nvrtcVersion(_, _) nvrtcCreateProgram(_, _, _, _, _, _) nvrtcCompileProgram(_, _, _)
            nvrtcGetProgramLogSize(_, _) nvrtcGetProgramLog(_, _) nvrtcGetCUBINSize(_, _)
            nvrtcGetCUBIN(_, _) nvrtcGetPTXSize(_, _) nvrtcGetPTX(_, _) nvrtcDestroyProgram(_)
        }
    };
    (cublaslt $to:ident $($before:tt)*) => {
        $to! { $($before)*
            cublasLtCreate(_) cublasLtDestroy(_) cublasLtGetProperty(_, _)
            cublasLtMatmulDescCreate(_, _, _)
            cublasLtMatmulDescSetAttribute(_, _, _, _) cublasLtMatmulDescDestroy(_)
            cublasLtMatrixLayoutCreate(_, _, _, _, _) cublasLtMatrixLayoutDestroy(_)
            cublasLtMatmulPreferenceCreate(_) cublasLtMatmulPreferenceSetAttribute(_, _, _, _)
            cublasLtMatmulPreferenceDestroy(_)
            cublasLtMatmulAlgoGetHeuristic(_, _, _, _, _, _, _, _, _, _)
            cublasLtMatmul(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _)
        }
    };
}

/// What is wrong with the functions of a table that belong to a library, whose functions' names
/// begin so, by what its headers declare: a function that they do not have, or have otherwise.
pub fn faults(called: &[Called], begin: &str, declared: &[(&str, Signature)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (names, ours) in called {
        let names: Vec<_> = names.iter().filter(|name| name.starts_with(begin)).collect();
        let known = |name: &str| declared.iter().find(|(of, _)| *of == name);
        let mut theirs = names.iter().filter_map(|name| known(name)).peekable();
        if !names.is_empty() && theirs.peek().is_none() {
            faults.push(format!("{names:?}: the headers declare none of them"));
        }
        faults.extend(theirs.filter_map(|(name, theirs)| difference(name, ours, theirs)));
    }
    faults
}

/// What tells two declarations of a function apart.
pub fn difference(name: &str, ours: &Signature, theirs: &Signature) -> Option<String> {
    if ours.takes.len() != theirs.takes.len() {
        let [ours, theirs] = [ours, theirs].map(|one| one.takes.len());
        return Some(format!("{name}: {ours} parameters, {theirs} by the headers"));
    }
    let pairs = ours.takes.iter().zip(&theirs.takes).enumerate();
    let mut places =
        pairs.map(|(at, pair)| (format!("parameter {}", at + 1), pair)).collect::<Vec<_>>();
    places.push(("the result".into(), (&ours.gives, &theirs.gives)));
    let (place, (ours, theirs)) =
        places.into_iter().find(|(_, (ours, theirs))| !is_alike(ours, theirs))?;
    Some(format!("{name}: {place} is {ours:?}, {theirs:?} by the headers"))
}

fn is_alike(ours: &Passed, theirs: &Passed) -> bool {
    match (ours, theirs) {
        (Passed::Pointer(writes, to), Passed::Pointer(may_write, of)) => {
            (*writes || !*may_write) && (to.is_none() || of.is_none() || to == of)
        }
        // A device's address is a number in one place and a pointer to anything in another.
        (Passed::Value(8), Passed::Pointer(_, None)) => true,
        _ => ours == theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{c_char, c_int, c_void};

    type Plain = unsafe extern "C" fn(*mut c_int, c_int, *const c_char) -> c_int;

    fn against<F: Function>() -> Option<String> {
        difference("f", &Plain::signature(), &F::signature())
    }

    #[repr(i32)]
    #[expect(dead_code, reason = "its size is what matters")]
    enum Code {
        Done,
    }

    #[test]
    fn what_travels_alike_is_the_same() {
        assert_eq!(against::<Plain>(), None);
        // Enumerations are integers, opaque structs and bytes are memory.
        struct Opaque;
        assert_eq!(against::<unsafe fn(*mut i32, Code, *const u8) -> Code>(), None);
        assert_eq!(against::<extern "C" fn(*mut Code, u32, *const Opaque) -> u32>(), None);
        type Address = unsafe extern "C" fn(u64) -> c_int;
        type Memory = unsafe extern "C" fn(*mut c_void) -> c_int;
        assert_eq!(difference("f", &Address::signature(), &Memory::signature()), None);
    }

    #[test]
    fn planted_differences_are_found() {
        let said = |found: Option<String>| found.expect("a difference");
        assert!(said(against::<unsafe fn(*mut i32, Code) -> Code>()).contains("3 parameters, 2"));
        let wide = said(against::<unsafe fn(*mut u64, Code, *const u8) -> Code>());
        assert!(wide.contains("parameter 1 is Pointer(true, Some(4)), Pointer(true, Some(8))"));
        let long = said(against::<unsafe fn(*mut i32, u64, *const u8) -> Code>());
        assert!(long.contains("parameter 2 is Value(4), Value(8)"), "{long}");
        let float = said(against::<unsafe fn(*mut i32, f32, *const u8) -> Code>());
        assert!(float.contains("parameter 2 is Value(4), Float(4)"), "{float}");
        let value = said(against::<unsafe fn(*mut i32, Code, i64) -> Code>());
        assert!(value.contains("parameter 3"), "{value}");
        let result = said(against::<unsafe fn(*mut i32, Code, *const u8) -> u64>());
        assert!(result.contains("the result is Value(4), Value(8)"), "{result}");
        type Read = unsafe extern "C" fn(*const c_int) -> c_int;
        type Written = unsafe extern "C" fn(*mut c_int) -> c_int;
        let written = difference("f", &Read::signature(), &Written::signature());
        assert!(said(written).contains("parameter 1 is Pointer(false"));
    }

    #[test]
    fn a_function_without_a_declaration_is_a_fault() {
        let called = [(vec!["cuOld", "cuNew"], Plain::signature())];
        let found = faults(&called, "cu", &[("cuNew", Plain::signature())]);
        assert_eq!(found, [""; 0]);
        let found = faults(&called, "cu", &[("cuOther", Plain::signature())]);
        assert_eq!(found, ["[\"cuOld\", \"cuNew\"]: the headers declare none of them"]);
        assert_eq!(faults(&called, "nvml", &[]), [""; 0]);
    }
}
