//! Intel's matrix tiles (AMX): whether this process may use them, and the state of a thread that
//! does.
//!
//! A core has eight tiles of 16 rows of 64 bytes. One instruction multiplies two of them and adds
//! to a third, in 16 cycles (Intel 64 and IA-32 Architectures Optimization Reference Manual,
//! "Intel AMX instructions throughput and latency"). Linux lets a process use them only after it
//! has asked, since their state is 8 KiB for each thread (Documentation/arch/x86/xstate.rst).

#![expect(unsafe_code, reason = "the compiler has no stable intrinsics for tiles")]

use std::{arch::asm, sync::OnceLock};

/// Rows of a tile.
pub(super) const ROWS: usize = 16;

/// Bytes of a tile's row.
pub(super) const ROW_BYTES: usize = 64;

/// Which element types the tiles of this CPU multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amx {
    /// Pairs of bfloat16, summed in f32.
    pub bf16: bool,
    /// Quadruples of int8, summed in 32 bits.
    pub int8: bool,
}

impl Amx {
    /// Those that this process may use. It asks the kernel once, for all its threads.
    pub fn here() -> Amx {
        static HERE: OnceLock<Amx> = OnceLock::new();
        *HERE.get_or_init(|| {
            let cpuid = raw_cpuid::CpuId::new();
            let Some(has) = cpuid.get_extended_feature_info() else { return Amx::default() };
            if !has.has_amx_tile() || !is_permitted() {
                return Amx::default();
            }
            Amx { bf16: has.has_amx_bf16(), int8: has.has_amx_int8() }
        })
    }
}

/// Asks the kernel for the tiles' state: `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
/// A kernel without it, or one that withholds it, answers with an error.
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let mut answer = ARCH_PRCTL;
    // SAFETY: the call reads and writes no memory of this process; the kernel clobbers these two.
    unsafe {
        asm!(
            "syscall",
            inout("rax") answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

/// What `ldtilecfg` reads: palette 1, and eight tiles that are whole.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static WHOLE: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// This thread's tiles, all eight whole, which it gives back when this is dropped. A thread that
/// keeps them slows each switch to another thread, and its core cannot enter its deepest sleep.
pub(super) struct Tiles(());

impl Tiles {
    /// Configures them.
    ///
    /// # Safety
    ///
    /// [`Amx::here`] has a type.
    pub unsafe fn configure() -> Tiles {
        // SAFETY: the caller's promise; the configuration is one of palette 1.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly));
        }
        Tiles(())
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: they were configured, so that the CPU has them.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}
