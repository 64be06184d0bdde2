//! Bits that a test build flips, so that whoever looks for silent corruption can be tried:
//! `FIZEAU_FLIP='output/1000'` flips one bit in one of each 1,000 products. A release build does
//! not look at the variable.
//!
//! | word | flips a bit of |
//! | --- | --- |
//! | `operand` | A or B, for one product |
//! | `sum` | an unfinished sum between two stretches along k, by the host's own kernels alone |
//! | `output` | C |
//! | `payload` | a NaN of C that stays one: a NaN stands in the first row of A |
//! | `received` | what a rank received by all_reduce, in one of each number of all_reduces |
//!
//! Several are joined by `+`, but for the last, which stands alone; `,seed=7` begins another
//! sequence; `output~0.001` spoils each product with this probability. A flip that leaves every bit
//! of C as it was, since rounding swallowed it, is drawn anew and counted apart: C is compared here
//! byte by byte, and not by its hash.

use super::product::bytes_of;
use crate::gemm::Product;
use fizeau_device::{Buffer, Device, DeviceError, host};
use fizeau_domain::{case::GemmPoint, dtype::Dtype, units::Bytes};
use std::cell::{Cell, RefCell};

/// The variable.
const VARIABLE: &str = "FIZEAU_FLIP";

/// How often a flip that leaves no trace is drawn anew.
const ATTEMPTS: u32 = 1_000;

/// Where a bit is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In A or B.
    Operand,
    /// In an unfinished sum.
    Sum,
    /// In C.
    Output,
    /// In a NaN of C, which stays one.
    Payload,
}

impl Site {
    /// All of them.
    pub const ALL: [Site; 4] = [Site::Operand, Site::Sum, Site::Output, Site::Payload];

    /// As a script names it.
    pub fn name(self) -> &'static str {
        match self {
            Site::Operand => "operand",
            Site::Sum => "sum",
            Site::Output => "output",
            Site::Payload => "payload",
        }
    }
}

/// What was flipped by this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flipped {
    /// Products that a flip changed.
    pub products: u64,
    /// Flips that changed no bit of a product.
    pub masked: u64,
}

thread_local! {
    static SCRIPT: RefCell<Option<String>> = const { RefCell::new(None) };
    static FLIPPED: Cell<Flipped> = const { Cell::new(Flipped { products: 0, masked: 0 }) };
}

/// Plants by a script in what this thread makes ready from now on, or no more; false in a release
/// build, which plants nothing.
pub fn plant(script: Option<&str>) -> bool {
    SCRIPT.set(script.map(str::to_owned));
    FLIPPED.set(Flipped::default());
    fizeau_domain::CAN_PLANT
}

/// What was flipped since [`plant`] was called.
pub fn flipped() -> Flipped {
    FLIPPED.get()
}

/// What is planted, in words for the record. `None` where nothing is.
pub fn words() -> Option<String> {
    let script = script()?;
    Some(format!("{VARIABLE}: a test build flips bits ({script}); no measurement"))
}

fn script() -> Option<String> {
    if !fizeau_domain::CAN_PLANT {
        return None;
    }
    SCRIPT.with_borrow(Clone::clone).or_else(|| std::env::var(VARIABLE).ok())
}

/// What is asked for; `None` also where the script cannot be read.
pub(super) fn asked_for() -> Option<Planted> {
    Planted::parse(&script()?)
}

/// What is asked for of what ranks receive.
pub(super) fn of_received() -> Option<Planted> {
    let script = script()?;
    // Which of them is told as of products.
    Planted::parse(&format!("output/{}", script.strip_prefix("received/")?))
}

/// Which products are spoilt.
enum Often {
    /// One of each number of products: which one of this window.
    OneOf { each: u64, target: u64 },
    /// Each with a probability.
    Chance(f64),
}

/// A script, and how far it is.
pub(super) struct Planted {
    sites: Vec<Site>,
    often: Often,
    products: u64,
    random: oorandom::Rand64,
}

impl Planted {
    fn parse(script: &str) -> Option<Planted> {
        let (what, seed) = match script.split_once(",seed=") {
            Some((what, seed)) => (what, seed.parse().ok()?),
            None => (script, 0u64),
        };
        let mut random = oorandom::Rand64::new(u128::from(seed));
        let (sites, often) = match what.split_once('~') {
            Some((sites, chance)) => (sites, Often::Chance(chance.parse().ok()?)),
            None => {
                let (sites, each) = what.split_once('/')?;
                let each = each.parse().ok().filter(|each| *each > 0)?;
                (sites, Often::OneOf { each, target: random.rand_range(0..each) })
            }
        };
        let site = |name: &str| Site::ALL.into_iter().find(|site| site.name() == name);
        let sites = sites.split('+').map(site).collect::<Option<Vec<Site>>>()?;
        Some(Planted { sites, often, products: 0, random })
    }

    /// Puts a NaN into A where payloads are to be flipped: all of C's first row is one then.
    pub fn begin(
        &self,
        device: &dyn Device,
        point: &GemmPoint,
        product: &dyn Product,
    ) -> Result<(), DeviceError> {
        if !self.sites.contains(&Site::Payload) {
            return Ok(());
        }
        let nan: &[u8] = match point.dtype {
            Dtype::F64 => &0x7ff8_0000_0000_0001u64.to_le_bytes(),
            Dtype::F32 | Dtype::Tf32 => &0x7fc0_2000u32.to_le_bytes(),
            Dtype::Bf16 => &0x7fc1u16.to_le_bytes(),
            Dtype::F16 => &0x7e01u16.to_le_bytes(),
            other => {
                let why = format!("{VARIABLE}: products of {other} have no NaN with a payload");
                return Err(DeviceError::Driver(why));
            }
        };
        device.write(product.operands()[0].0, Bytes(0), nan)
    }

    /// Whether the next one is to be spoilt.
    pub fn is_next(&mut self) -> bool {
        let number = self.products;
        self.products += 1;
        match &mut self.often {
            Often::Chance(chance) => self.random.rand_float() < *chance,
            Often::OneOf { each, target } => {
                let (place, is_its) = (number % *each, number % *each == *target);
                if place + 1 == *each {
                    *target = self.random.rand_range(0..*each);
                }
                is_its
            }
        }
    }

    /// A random number below another one.
    pub fn below(&mut self, most: u64) -> u64 {
        self.random.rand_range(0..most.max(1))
    }

    /// Flips a bit of a buffer.
    pub fn flip_in(&mut self, device: &dyn Device, buffer: &Buffer) -> Result<(), DeviceError> {
        let bit = self.below(8 * buffer.size.0);
        let mut all = FLIPPED.get();
        all.products += 1;
        FLIPPED.set(all);
        xor(device, buffer, bit / 8, 1 << (bit % 8))
    }

    /// Enqueues the next product, and flips a bit where it is the one of its window.
    pub fn enqueue(
        &mut self,
        device: &dyn Device,
        point: &GemmPoint,
        product: &mut dyn Product,
    ) -> Result<(), DeviceError> {
        product.enqueue(1)?;
        if !self.is_next() {
            return Ok(());
        }
        let right = bytes_of(device, product.c())?;
        for _ in 0..ATTEMPTS {
            self.flip(device, point, product)?;
            let mut all = FLIPPED.get();
            let is_masked = bytes_of(device, product.c())? == right;
            if is_masked {
                all.masked += 1
            } else {
                all.products += 1
            }
            FLIPPED.set(all);
            if !is_masked {
                return Ok(());
            }
        }
        Err(DeviceError::Driver(format!("{VARIABLE}: no flip changes anything here")))
    }

    /// Makes the product anew with one bit flipped.
    fn flip(
        &mut self,
        device: &dyn Device,
        point: &GemmPoint,
        product: &mut dyn Product,
    ) -> Result<(), DeviceError> {
        let Planted { sites, random, .. } = self;
        let mut below = |most: u64| random.rand_range(0..most.max(1));
        let site = sites[below(sites.len() as u64) as usize];
        let elements = u64::from(point.m) * u64::from(point.n);
        let size = point.dtype.output().bits() / 8;
        match site {
            Site::Operand => {
                let which = below(2) as usize;
                let bit = below(8 * product.operands()[which].1.len() as u64);
                let flip = |product: &dyn Product| {
                    xor(device, product.operands()[which].0, bit / 8, 1 << (bit % 8))
                };
                flip(product)?;
                product.enqueue(1)?;
                flip(product)
            }
            Site::Sum => {
                let (element, bit) = (below(elements), below(8 * size.max(4)) as u32);
                host::plant_in_sum(product.c().address, element, bit);
                product.enqueue(1)
            }
            Site::Output => {
                let bit = below(8 * size * elements);
                product.enqueue(1)?;
                xor(device, product.c(), bit / 8, 1 << (bit % 8))
            }
            Site::Payload => {
                // Bits of the fraction, but for the first, which keeps it a quiet NaN.
                let payload = match point.dtype.output() {
                    Dtype::F64 => 51,
                    Dtype::F16 => 9,
                    Dtype::Bf16 => 6,
                    _ => 22,
                };
                let bit = 8 * size * below(u64::from(point.n)) + below(payload);
                product.enqueue(1)?;
                xor(device, product.c(), bit / 8, 1 << (bit % 8))
            }
        }
    }
}

fn xor(device: &dyn Device, buffer: &Buffer, at: u64, bits: u8) -> Result<(), DeviceError> {
    let mut byte = [0];
    device.read(buffer, Bytes(at), &mut byte)?;
    device.write(buffer, Bytes(at), &[byte[0] ^ bits])
}
