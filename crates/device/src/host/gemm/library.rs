//! The host's vendor libraries, opened at run time.
//!
//! Each is opened with local symbols, so that two of them that both export `cblas_sgemm` never
//! answer for one another.

use super::super::{
    kernel::{HostKernel, KernelThreads},
    pool::Block,
};
use crate::{chain, library::is_nowhere};
use fizeau_domain::{
    case::Layout,
    dtype::Dtype,
    kernel::{GemmParams, Operation},
};
use fizeau_record::file;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::{
    ffi::{CStr, c_char, c_int},
    path::Path,
    sync::{Arc, LazyLock},
};

/// One opened library.
struct Opened {
    name: &'static str,
    library: Library,
}

/// Which libraries are looked for: the kernel's name, its files, the newest first, and the package
/// that has one. What is used of oneDNN is the same in its versions 2 and 3.
const LIBRARIES: [(&str, &[&str], &str); 4] = [
    ("openblas", &["libopenblas.so.0"], "install OpenBLAS (Debian: libopenblas0-pthread)"),
    ("blis", &["libblis.so.4"], "install BLIS (Debian: libblis4-pthread)"),
    ("mkl", &["libmkl_rt.so.2"], "install oneMKL and add its folder to LD_LIBRARY_PATH"),
    ("onednn", &["libdnnl.so.3", "libdnnl.so.2"], "install oneDNN (Debian 12: libdnnl2)"),
];

/// By which users tell these libraries what kernels to choose: set, they may hold one back.
const STEERING: [(&str, &[&str]); 4] = [
    ("openblas", &["OPENBLAS_CORETYPE"]),
    ("blis", &["BLIS_ARCH_TYPE", "BLIS_MODEL_TYPE"]),
    ("mkl", &["MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE"]),
    ("onednn", &["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"]),
];

/// Why a library is not used that takes integers of 64 bits. Strides beyond the sixth argument lie
/// on the stack, where the upper half of a 64-bit integer would be whatever was there.
const WIDE: &str = "its integers are of 64 bits, and this program passes 32: install the library \
                    with 32-bit integers (LP64), and leave MKL_INTERFACE_LAYER unset";

/// Opened once in a process: their threads outlive any device. And those that are not.
static FOUND: LazyLock<(Vec<Opened>, Vec<Unopened>)> = LazyLock::new(|| {
    let (mut opened, mut unopened) = (Vec::new(), Vec::new());
    for (name, files, remedy) in LIBRARIES {
        match first_of(name, files) {
            Ok(library) => opened.push(library),
            Err(refused) => unopened.push(Unopened { name, remedy, refused }),
        }
    }
    (opened, unopened)
});

/// The first of some files that can be used; the error is why the first that is there cannot.
fn first_of(name: &'static str, files: &[&str]) -> Result<Opened, Option<String>> {
    let mut refused = None;
    for file in files {
        match open(file).map(|library| Opened { name, library }) {
            Ok(opened) if !opened.is_wide() => return Ok(opened),
            Ok(opened) => {
                refused = refused.or_else(|| Some(format!("{file}: {WIDE}")));
                // It may have started threads, which run its code.
                std::mem::forget(opened);
            }
            Err(words) => refused = refused.or(words),
        }
    }
    Err(refused)
}

/// Opens a library. The error is why it was refused, `None` where there is none of that name.
fn open(file: &str) -> Result<Library, Option<String>> {
    file::loadable(Path::new(file)).map_err(|error| Some(format!("{file}: {error}")))?;
    // SAFETY: the initialisers of these libraries read the CPU and start threads, no more.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let words = chain(&error);
        (!is_nowhere(&words, file)).then_some(words)
    })
}

/// A library that could not be opened.
#[derive(Clone, Debug)]
pub struct Unopened {
    /// As kernels are named by it.
    pub name: &'static str,
    /// What brings it.
    pub remedy: &'static str,
    /// Why it was refused, where it is there: the loader's words, or that its integers are wide.
    pub refused: Option<String>,
}

fn opened() -> &'static [Opened] {
    &FOUND.0
}

/// `cblas_sgemm` and `cblas_dgemm`.
type Cblas<T> = unsafe extern "C" fn(
    layout: c_int,
    transpose_a: c_int,
    transpose_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: T,
    a: *const T,
    lda: c_int,
    b: *const T,
    ldb: c_int,
    beta: T,
    c: *mut T,
    ldc: c_int,
);

/// `dnnl_sgemm`.
type DnnlSgemm = unsafe extern "C" fn(
    transpose_a: c_char,
    transpose_b: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const f32,
    lda: i64,
    b: *const f32,
    ldb: i64,
    beta: f32,
    c: *mut f32,
    ldc: i64,
) -> c_int;

/// `dnnl_gemm_s8s8s32`: offsets are subtracted from A, B and added to C.
type DnnlInt8 = unsafe extern "C" fn(
    transpose_a: c_char,
    transpose_b: c_char,
    offset_c: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const i8,
    lda: i64,
    offset_a: i8,
    b: *const i8,
    ldb: i64,
    offset_b: i8,
    beta: f32,
    c: *mut i32,
    ldc: i64,
    offset_of_c: *const i32,
) -> c_int;

/// Sets how many threads the library uses from now on.
type SetThreads = unsafe extern "C" fn(count: c_int);

/// Of `bli_thread_set_num_threads`, whose integers are 64 bits wide.
type SetThreadsWide = unsafe extern "C" fn(count: i64);

/// The libraries' kernels.
pub(super) fn kernels() -> Vec<HostKernel> {
    opened().iter().flat_map(Opened::kernels).collect()
}

/// The libraries found, with their versions, as a record keeps them.
pub fn versions() -> Vec<String> {
    opened().iter().map(|opened| format!("{} {}", opened.name, opened.version())).collect()
}

/// The version of the library that has a kernel of this name; none where no library has.
pub fn version_of(kernel: &str) -> Option<String> {
    opened().iter().find(|opened| opened.name == kernel).map(Opened::version)
}

/// The libraries that could not be opened.
pub fn missing() -> &'static [Unopened] {
    &FOUND.1
}

/// The variables that steer a library which was found, as `NAME=value`.
pub fn steered() -> Vec<String> {
    let found = |name: &str| opened().iter().any(|opened| opened.name == name);
    let set = |name: &&str| Some(format!("{name}={}", std::env::var(name).ok()?));
    let rows = STEERING.iter().filter(|(name, _)| found(name));
    rows.flat_map(|(_, variables)| variables.iter().filter_map(set)).collect()
}

impl Opened {
    /// A function, if it is exported.
    ///
    /// # Safety
    ///
    /// `F` is a pointer to a function of the symbol's true type.
    unsafe fn function<F: Copy>(&self, symbol: &str) -> Option<F> {
        // SAFETY: the caller's promise.
        unsafe { self.library.get::<F>(symbol.as_bytes()).ok().map(|found| *found) }
    }

    /// Whether its BLAS takes integers of 64 bits (ILP64).
    fn is_wide(&self) -> bool {
        // SAFETY: the type of the header; the function reads a constant.
        let size = unsafe {
            let size: Option<unsafe extern "C" fn() -> i64> = match self.name {
                "blis" => self.function("bli_info_get_blas_int_type_size"),
                _ => None,
            };
            size.map(|size| size())
        };
        let layer = std::env::var("MKL_INTERFACE_LAYER").ok().filter(|_| self.name == "mkl");
        are_wide(&self.version(), size, layer.as_deref())
    }

    fn kernels(&self) -> Vec<HostKernel> {
        // SAFETY: these are the types that the libraries' headers declare.
        unsafe {
            let mut kernels = Vec::new();
            let Some(threads) = self.threads() else { return kernels };
            if self.name == "onednn" {
                if let Some(gemm) = self.function::<DnnlSgemm>("dnnl_sgemm") {
                    let run = move |p: &GemmParams| dnnl_sgemm(gemm, p);
                    kernels.extend(self.of_layouts(Dtype::F32, threads, run));
                }
                let int8 = self.function::<DnnlInt8>("dnnl_gemm_s8s8s32");
                if let Some(gemm) = int8.filter(|_| sums_of_int8_are_exact()) {
                    let run = move |p: &GemmParams| dnnl_int8(gemm, p);
                    kernels.extend(self.of_layouts(Dtype::Int8, threads, run));
                }
                return kernels;
            }
            if let Some(gemm) = self.function::<Cblas<f64>>("cblas_dgemm") {
                let run = move |p: &GemmParams| cblas(gemm, (1.0, 0.0), p);
                kernels.extend(self.of_layouts(Dtype::F64, threads, run));
            }
            if let Some(gemm) = self.function::<Cblas<f32>>("cblas_sgemm") {
                let run = move |p: &GemmParams| cblas(gemm, (1.0, 0.0), p);
                kernels.extend(self.of_layouts(Dtype::F32, threads, run));
            }
            kernels
        }
    }

    /// Kernels of both layouts: `run` tells the library which one its parameters name.
    fn of_layouts(
        &self,
        dtype: Dtype,
        threads: SetLibraryThreads,
        run: impl Fn(&GemmParams) + Copy + Send + Sync + 'static,
    ) -> [HostKernel; 2] {
        Layout::ALL.map(|layout| self.kernel(Operation::Gemm(dtype, layout), threads, run))
    }

    fn kernel(
        &self,
        operation: Operation,
        threads: SetLibraryThreads,
        run: impl Fn(&GemmParams) + Send + Sync + 'static,
    ) -> HostKernel {
        let run = move |block: &Block<'_>| {
            threads.set(block.count);
            for _ in 0..block.repeat {
                run(block.params());
            }
        };
        let name = self.name;
        HostKernel {
            operation,
            name,
            features: &[],
            threads: KernelThreads::Library,
            run: Arc::new(run),
        }
    }

    /// How its threads are counted; none if it is built in a way that cannot be told.
    fn threads(&self) -> Option<SetLibraryThreads> {
        use SetLibraryThreads::{Int, Wide};
        // SAFETY: the types that the headers of the libraries (and of OpenMP) declare.
        unsafe {
            match self.name {
                "openblas" => self.function("openblas_set_num_threads").map(Int),
                "blis" => self.function("bli_thread_set_num_threads").map(Wide),
                "mkl" => self.function("MKL_Set_Num_Threads").map(Int),
                _ => self.function("omp_set_num_threads").map(Int),
            }
        }
    }

    /// In the library's own words.
    fn version(&self) -> String {
        type Text = unsafe extern "C" fn() -> *const c_char;
        type Fill = unsafe extern "C" fn(*mut c_char, c_int);
        // SAFETY: the types of the headers; the texts are static and end with a zero.
        unsafe {
            let text = |symbol: &str| {
                let text = self.function::<Text>(symbol)?();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            };
            let found = match self.name {
                "openblas" => text("openblas_get_config"),
                "blis" => text("bli_info_get_version_str")
                    .map(|version| [version].into_iter().chain(self.blis_kernels()).collect())
                    .map(|words: Vec<String>| words.join(" ")),
                "mkl" => self.function::<Fill>("mkl_get_version_string").map(|fill| {
                    let mut room = [0u8; 256];
                    fill(room.as_mut_ptr().cast(), 255);
                    String::from_utf8_lossy(&room).trim_end_matches('\0').trim().to_owned()
                }),
                _ => self.onednn_version(),
            };
            found.unwrap_or_else(|| "of unknown version".into())
        }
    }

    /// The family whose kernels BLIS chose: `generic` on a CPU that it does not know.
    fn blis_kernels(&self) -> Option<String> {
        // SAFETY: the types of the header; the text is static and ends with a zero.
        unsafe {
            let family = self.function::<unsafe extern "C" fn() -> c_int>("bli_arch_query_id")?();
            let name =
                self.function::<unsafe extern "C" fn(c_int) -> *const c_char>("bli_arch_string")?;
            let name = name(family);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    fn onednn_version(&self) -> Option<String> {
        /// The start of `dnnl_version_t`.
        #[repr(C)]
        struct Version {
            major: c_int,
            minor: c_int,
            patch: c_int,
        }
        // SAFETY: the type of the header; the struct is static.
        unsafe {
            let version = self.function::<unsafe extern "C" fn() -> *const Version>("dnnl_version");
            let version = version?().as_ref()?;
            Some(format!("{}.{}.{}", version.major, version.minor, version.patch))
        }
    }
}

/// Whether integers are of 64 bits: by what OpenBLAS says of its build, by the size that BLIS
/// tells, and by the variable that chooses an interface of oneMKL (`GNU,ILP64`).
fn are_wide(version: &str, size: Option<i64>, layer: Option<&str>) -> bool {
    let is_layer = |layer: &str| layer.to_ascii_uppercase().contains("ILP64");
    version.contains("USE64BITINT") || size == Some(64) || layer.is_some_and(is_layer)
}

/// The function that sets a library's threads, by the width of its integer.
#[derive(Clone, Copy)]
enum SetLibraryThreads {
    Int(SetThreads),
    Wide(SetThreadsWide),
}

impl SetLibraryThreads {
    fn set(self, count: u32) {
        // SAFETY: a count of threads is all they take.
        unsafe {
            match self {
                SetLibraryThreads::Int(set) => set(count as c_int),
                SetLibraryThreads::Wide(set) => set(i64::from(count)),
            }
        }
    }
}

fn cblas<T>(gemm: Cblas<T>, (one, zero): (T, T), p: &GemmParams) {
    const ROW_MAJOR: c_int = 101;
    const NO_TRANSPOSE: c_int = 111;
    const TRANSPOSE: c_int = 112;
    let [m, n, k] = [p.m, p.n, p.k].map(|length| length as c_int);
    let [a, b, c] = [p.a, p.b, p.c].map(|address| address as *mut T);
    // SAFETY: whoever launches passes operands that live, of these sizes, rows packed.
    unsafe {
        let (of_b, ldb) = if is_nt(p) { (TRANSPOSE, k) } else { (NO_TRANSPOSE, n) };
        gemm(ROW_MAJOR, NO_TRANSPOSE, of_b, m, n, k, one, a, k, b, ldb, zero, c, n);
    }
}

/// Whether B stands column by column.
fn is_nt(p: &GemmParams) -> bool {
    p.layout == Layout::Nt as u32
}

/// As oneDNN is told how B stands: whether it is transposed, and how far its rows are apart.
fn b_of_dnnl(p: &GemmParams) -> (c_char, i64) {
    let (flag, apart) = if is_nt(p) { (b'T', p.k) } else { (b'N', p.n) };
    (flag as c_char, i64::from(apart))
}

/// What oneDNN refused would leave C poisoned, which the check then finds.
fn dnnl_sgemm(gemm: DnnlSgemm, p: &GemmParams) {
    let [m, n, k] = [p.m, p.n, p.k].map(i64::from);
    let none = b'N' as c_char;
    let [a, b, c] = [p.a, p.b, p.c].map(|address| address as *mut f32);
    let (of_b, ldb) = b_of_dnnl(p);
    // SAFETY: as in `cblas`.
    let _ = unsafe { gemm(none, of_b, m, n, k, 1.0, a, k, b, ldb, 0.0, c, n) };
}

/// Whether oneDNN's sums of int8 products are exact. Without VNNI it adds two products in 16 bits,
/// which saturate (oneDNN's developer guide, "Nuances of int8 computations").
fn sums_of_int8_are_exact() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

fn dnnl_int8(gemm: DnnlInt8, p: &GemmParams) {
    let [m, n, k] = [p.m, p.n, p.k].map(i64::from);
    let (none, fixed) = (b'N' as c_char, b'F' as c_char);
    let [a, b] = [p.a, p.b].map(|address| address as *const i8);
    let c = p.c as *mut i32;
    let (of_b, ldb) = b_of_dnnl(p);
    // SAFETY: as in `cblas`; one fixed offset of zero for all of C.
    let _ = unsafe {
        gemm(none, of_b, fixed, m, n, k, 1.0, a, k, 0, b, ldb, 0, 0.0, c, n, &raw const ZERO)
    };
}

/// The offset of C.
static ZERO: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_integers_of_64_bits_is_told_from_others() {
        let config = "OpenBLAS 0.3.26 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Zen MAX_THREADS=64";
        assert!(!are_wide(config, None, None));
        assert!(are_wide(&config.replace("NO_LAPACKE", "USE64BITINT"), None, None));
        assert!(!are_wide("0.9.0 zen3", Some(32), None) && are_wide("0.9.0", Some(64), None));
        assert!(!are_wide("oneMKL", None, Some("GNU,LP64")) && !are_wide("oneMKL", None, Some("")));
        assert!(are_wide("oneMKL", None, Some("gnu,ilp64")) && are_wide("", None, Some("ILP64")));
    }
}
