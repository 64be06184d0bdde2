//! Bits that a device flips in its products, silently: the word `flip` of a script.
//!
//! | word | means |
//! | --- | --- |
//! | `flip=output/1000` | one bit of one product in each 1,000 is flipped after it was made |
//! | `flip=operand/1000` | a bit of A or B is, while the product is made |
//! | `flip=sum/1000` | an element of f32 is off by a power of two, as by a flipped bit of a sum |
//! | `gpu2.flip=output/1000` | on device 2 alone |
//! | `flip=output/1000@5000` | from the 5,000th product on |
//!
//! Products are launches of entries that begin with `gemm`. Which one of a window, which element
//! and which bit follow from the script's seed. Each flip is written to the log with its number;
//! one that left no trace in C, since rounding swallowed it, as `masked`.

use crate::{
    model::Call,
    state::{OK, State},
};

/// Where a bit is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Site {
    Operand,
    Sum,
    Output,
}

/// A fault of a device, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    device: Option<i32>,
    site: Site,
    each: u64,
    from: u64,
}

impl Flip {
    /// Of a word's name and value.
    pub fn parse(name: &str, value: &str) -> Option<Flip> {
        let device = match name.split_once('.') {
            None if name == "flip" => None,
            Some((gpu, "flip")) => Some(gpu.strip_prefix("gpu")?.parse().ok()?),
            _ => return None,
        };
        let (value, from) = value.split_once('@').unwrap_or((value, "0"));
        let (site, each) = value.split_once('/')?;
        let site = match site {
            "operand" => Site::Operand,
            "sum" => Site::Sum,
            "output" => Site::Output,
            _ => return None,
        };
        let each = each.parse().ok().filter(|each| *each > 0)?;
        Some(Flip { device, site, each, from: from.parse().ok()? })
    }

    /// The device that it names.
    pub fn device(&self) -> i32 {
        self.device.unwrap_or(0)
    }
}

/// A product's matrices, as the parameters of a launch have them.
struct Product {
    operands: [(u64, u64); 2],
    c: u64,
    size: u64,
    is_f32: bool,
}

impl Product {
    fn of(call: &Call) -> Option<Product> {
        let name = call.name();
        let mut words = name.split('_').skip(1);
        let width = |dtype: &str| {
            Some(match dtype {
                "f64" => [8, 8],
                "f32" | "tf32" => [4, 4],
                "bf16" | "f16" => [2, 2],
                "fp8" => [1, 2],
                "int8" => [1, 4],
                _ => return None,
            })
        };
        let dtype = words.next()?;
        let [element, result] = width(dtype)?;
        let long = |at: usize| Some(u64::from_le_bytes(*call.params.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_le_bytes(*call.params.get(at..)?.first_chunk()?));
        let [m, n, k] = [word(24)?, word(28)?, word(32)?].map(u64::from);
        Some(Product {
            operands: [(long(0)?, m * k * element), (long(8)?, k * n * element)],
            c: long(16)?,
            size: m * n * result,
            is_f32: matches!(dtype, "f32" | "tf32"),
        })
    }
}

impl State {
    /// The flip that a launch is to have, as random numbers: none of most.
    fn drawn(&mut self, device: i32, call: &Call) -> Option<(Flip, Product, [u64; 3])> {
        let its = |flip: &&Flip| flip.device.is_none_or(|of| of == device);
        let flip = *self.script.flips.iter().find(its)?;
        if !call.name().starts_with("gemm_") {
            return None;
        }
        let products = self.products.entry(device).or_default();
        let number = *products;
        *products += 1;
        let window = number / flip.each;
        let mut random = self.script.speeds.sequence([device as u64, window]);
        let target = random() % flip.each;
        if number < flip.from || number % flip.each != target {
            return None;
        }
        Some((flip, Product::of(call)?, [random(), random(), random()]))
    }

    /// Does a launch, with a bit flipped where the script says so.
    pub fn flipped(
        &mut self,
        device: i32,
        call: &Call,
        mut run: impl FnMut(&mut State) -> i32,
    ) -> i32 {
        let Some((flip, product, draws)) = self.drawn(device, call) else { return run(self) };
        let said = run(self);
        let right = self.memory.load::<u8>(product.c, product.size);
        let Some(right) = right.filter(|_| said == OK) else { return said };
        let xor = |state: &mut State, at: u64, bit: u64| {
            let byte = state.memory.load::<u8>(at + bit / 8, 1).map_or(0, |bytes| bytes[0]);
            state.memory.store(at + bit / 8, &[byte ^ 1 << (bit % 8)])
        };
        match flip.site {
            Site::Operand => {
                let (at, size) = product.operands[(draws[0] % 2) as usize];
                let bit = draws[1] % (8 * size);
                xor(self, at, bit);
                run(self);
                xor(self, at, bit);
            }
            Site::Output => {
                xor(self, product.c, draws[1] % (8 * product.size));
            }
            Site::Sum if product.is_f32 => {
                let at = product.c + draws[0] % (product.size / 4) * 4;
                let value = self.memory.load::<f32>(at, 1).map_or(0.0, |values| values[0]);
                // From the last place of the element to 2^22 times that.
                let place =
                    f64::from(value.abs().max(f32::MIN_POSITIVE)).log2().floor() as i32 - 23;
                let step = 2f64.powi(place + (draws[1] % 23) as i32);
                let sign = if draws[2] % 2 == 0 { 1.0 } else { -1.0 };
                self.memory.store(at, &[(f64::from(value) + sign * step) as f32]);
            }
            Site::Sum => {}
        }
        let is_masked = self.memory.load::<u8>(product.c, product.size) == Some(right);
        let (number, what) = (self.flips, if is_masked { "masked" } else { "shows" });
        self.flips += 1;
        self.log(format!("flip {number} on device {device}: {what}"));
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let flip = Flip::parse("gpu2.flip", "output/1000@50").expect("a flip");
        assert_eq!((flip.device(), flip.site, flip.each, flip.from), (2, Site::Output, 1000, 50));
        assert_eq!(Flip::parse("flip", "sum/7").map(|flip| flip.device), Some(None));
        for (name, value) in
            [("flip", "output"), ("flip", "output/0"), ("flap", "sum/1"), ("gpux.flip", "sum/1")]
        {
            assert_eq!(Flip::parse(name, value), None, "{name}={value}");
        }
    }
}
