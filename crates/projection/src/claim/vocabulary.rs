//! The words that figures are read with.

use fizeau_domain::{dtype::Dtype, number};

/// The element type that a word names.
pub fn dtype(word: &str) -> Option<Dtype> {
    Some(match word.replace(['-', '_'], "").as_str() {
        "fp64" | "f64" | "float64" | "double" | "doubleprecision" => Dtype::F64,
        "fp32" | "f32" | "float32" | "float" | "single" | "singleprecision" => Dtype::F32,
        "tf32" | "xf32" => Dtype::Tf32,
        "fp16" | "f16" | "float16" | "half" | "halfprecision" => Dtype::F16,
        "bf16" | "bfloat16" => Dtype::Bf16,
        "fp8" | "mxfp8" | "e4m3" | "e5m2" => Dtype::Fp8,
        "fp6" | "mxfp6" => Dtype::Fp6,
        "fp4" | "nvfp4" | "mxfp4" => Dtype::Fp4,
        "int8" | "i8" => Dtype::Int8,
        _ => return None,
    })
}

/// Words that stand beside figures and change nothing.
pub const WEIGHTLESS: &str = "\
    a an the of at is are was with in for its our it that up as by has have had delivers \
    deliver delivering provides provide offers offer gives give does do can could reaches \
    reach hits hit gets get got we i runs run running rated theoretical peak max maximum \
    highest performance throughput bandwidth bw rate speed compute computing arithmetic math \
    flops capability datasheet spec specs specification product page figure result per \
    average mean median generating serving server inference training offline second ai precision \
    format type dtype ecc boost clock clocks \
    reaching configuration memory-bound compute-bound single-core single-threaded \
    operations raw line ceiling class top tier ingress egress @ through peaks large sizes \
    gpu's engine system's unified local device's onboard";

/// Words of figures that were measured.
pub const MEASURED: [&str; 44] = [
    "measured",
    "sustained",
    "achieved",
    "achievable",
    "effective",
    "observed",
    "actual",
    "real",
    "benchmark",
    "benchmarked",
    "read",
    "reads",
    "write",
    "writes",
    "copy",
    "triad",
    "stream",
    "babelstream",
    "gemm",
    "gemms",
    "matmul",
    "cublas",
    "cublaslt",
    "hipblaslt",
    "rocblas",
    "cutlass",
    "flashattention",
    "flashattention-2",
    "flashattention-3",
    "flashmla",
    "deepgemm",
    "hpl",
    "linpack",
    "memcpy",
    "mbw",
    "trained",
    "real-world",
    "forward",
    "backward",
    "fwd",
    "bwd",
    "torch.mm",
    "torch.matmul",
    "flashattention-4",
];

/// Words for devices.
const DEVICES: [&str; 17] = [
    "gpu",
    "gpus",
    "device",
    "devices",
    "accelerator",
    "accelerators",
    "chip",
    "chips",
    "card",
    "cards",
    "rank",
    "ranks",
    "cpu",
    "socket",
    "sockets",
    "oam",
    "oams",
];

/// Small numbers in words, before a word for devices.
pub const COUNTS: [(&str, u32); 9] = [
    ("one", 1),
    ("single", 1),
    ("two", 2),
    ("dual", 2),
    ("four", 4),
    ("eight", 8),
    ("sixteen", 16),
    ("a", 1),
    ("1", 1),
];

/// Whether a word is one for devices.
pub fn is_device(word: &str) -> bool {
    DEVICES.contains(&word)
}

/// A number with what its text says of its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Half of its last digit's place.
    pub half_place: f64,
}

impl Number {
    /// The number that a text is.
    pub fn of(text: &str) -> Result<Number, String> {
        let plain = text.replace('\'', ",");
        let value = number::positive(&plain).map_err(|why| why.replace(&plain, text))?;
        let digits = plain.replace(',', "");
        let place = match digits.split_once('.') {
            Some((_, fraction)) => -(fraction.len() as f64),
            None => (digits.len() - digits.trim_end_matches('0').len()) as f64,
        };
        Ok(Number { value, half_place: 0.5 * 10f64.powf(place) })
    }

    /// Thousands or millions of it.
    pub fn times(self, factor: f64) -> Number {
        Number { value: self.value * factor, half_place: self.half_place * factor }
    }
}

/// What may be meant by a word that is not understood.
pub fn hint(word: &str) -> &'static str {
    let is_named = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.contains(|c: char| c.is_ascii_digit())
            && dtype(word).is_none()
    };
    match word.to_ascii_lowercase().as_str() {
        word if word.starts_with("on ") => " (the part is named by --on, or `on =` in a file)",
        // `B200`, `llama-3.1-70b`.
        word if is_named(word) => " (a part is named by --on, a model by --model)",
        _ => "",
    }
}
