//! The same product again and again: its bits are hashed on the device each time.

use super::{
    first_differences, hexadecimal,
    planted::{self, Planted},
    tally::{Seen, Tally},
};
use crate::{
    Prepared, Rank, Workload,
    gemm::{self, Product},
};
use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{
    case::{GemmPoint, KernelName},
    outcome::{Check, Integrity, KeptOperand},
    stats,
    units::Bytes,
};

/// Products made ready.
pub(super) struct Products<'r> {
    device: &'r dyn Device,
    point: GemmPoint,
    rounds: u32,
    product: Box<dyn Product + 'r>,
    tally: Tally<'r>,
    /// What a test build plants.
    planted: Option<Planted>,
    /// Whether the last check found the product wrong by its reference.
    is_wrong: bool,
}

/// Makes a case ready.
pub(super) fn prepare<'r>(
    point: GemmPoint,
    rounds: u32,
    kernel: &KernelName,
    rank: Rank<'r>,
) -> Prepared<'r> {
    let device = rank.device;
    let product = gemm::prepare_product(&point, kernel, rank)?;
    let tally = Tally::new(device, product.c().size.0 / 8)?;
    let planted = planted::asked_for();
    if let Some(planted) = &planted {
        planted.begin(device, &point, product.as_ref())?;
    }
    Ok(Box::new(Products { device, point, rounds, product, tally, planted, is_wrong: false }))
}

/// All bytes of a buffer.
pub(super) fn bytes_of(device: &dyn Device, buffer: &Buffer) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = crate::filled(0u8, buffer.size.0 as usize)?;
    device.read(buffer, Bytes(0), &mut bytes)?;
    Ok(bytes)
}

impl Workload for Products<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        for _ in 0..u64::from(repeat) * u64::from(self.rounds) {
            match &mut self.planted {
                Some(planted) => {
                    planted.enqueue(self.device, &self.point, self.product.as_mut())?
                }
                None => self.product.enqueue(1)?,
            }
            self.tally.enqueue(self.product.c().address)?;
        }
        Ok(())
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.product.poison()
    }

    /// The last product by its reference, and all of them by their bits.
    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut check = self.product.verify()?;
        self.is_wrong = !check.passed();
        check.wrong += self.tally.read()?.others();
        Ok(check)
    }

    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        let seen = self.tally.read()?;
        let mut integrity = Integrity {
            unit: "product".into(),
            compared: seen.compared,
            mismatches: seen.others(),
            rate_seen: stats::rate_seen(seen.compared),
            hash: seen.most().map(|most| hexadecimal(most.hash)),
            ..Integrity::default()
        };
        if integrity.mismatches > 0 || self.is_wrong {
            self.locate(&seen, &mut integrity)?;
        }
        Ok(Some(integrity))
    }
}

impl Products<'_> {
    /// Where a product is wrong, and what its operands are now.
    fn locate(&self, seen: &Seen, integrity: &mut Integrity) -> Result<(), DeviceError> {
        let c = self.product.c();
        let element = self.point.dtype.output().bits() / 8;
        let mut suspect = None;
        if let Some([right, other]) = seen.pair() {
            let (right, other) = (self.tally.kept(right)?, self.tally.kept(other)?);
            let columns = u64::from(self.point.n);
            integrity.wrong = first_differences("c", &other, &right, Some([columns, element]));
            suspect = Some(bytemuck::cast_slice::<u64, u8>(&other).to_vec());
        }
        let suspect = match suspect {
            Some(bytes) => bytes,
            None => bytes_of(self.device, c)?,
        };
        if let Some(found) = self.product.wrong_sums(&suspect) {
            integrity.rows = found.rows.into_iter().take(Integrity::LINES_MAX).collect();
            integrity.columns = found.columns.into_iter().take(Integrity::LINES_MAX).collect();
        }
        self.keep_operands(integrity)
    }

    /// Compares the operands with what was written, and keeps those of the first wrong element.
    fn keep_operands(&self, integrity: &mut Integrity) -> Result<(), DeviceError> {
        let first = integrity.wrong.first().and_then(|word| word.row.zip(word.column));
        let line = first
            .or_else(|| integrity.rows.first().copied().zip(integrity.columns.first().copied()));
        for ((name, (buffer, right)), lines) in
            ["a", "b"].into_iter().zip(self.product.operands()).zip([self.point.m, self.point.n])
        {
            let mut bytes = bytes_of(self.device, buffer)?;
            bytes.truncate(right.len());
            if bytes != right {
                let words = |bytes: &[u8]| -> Vec<u64> {
                    let words = bytes.chunks(8).map(|word| {
                        let mut whole = [0; 8];
                        whole[..word.len()].copy_from_slice(word);
                        u64::from_le_bytes(whole)
                    });
                    words.collect()
                };
                let changed = first_differences(name, &words(&bytes), &words(right), None);
                let room = Integrity::WORDS_MAX.saturating_sub(integrity.wrong.len());
                integrity.wrong.extend(changed.into_iter().take(room));
            }
            let Some((row, column)) = line else { continue };
            let of = if name == "a" { row } else { column };
            let is_by_lines = name == "a" || self.point.is_b_by_columns();
            let kept = match is_by_lines {
                true => line_of(&bytes, of as usize, lines as usize),
                false => column_of(&bytes, of as usize, lines as usize, &self.point),
            };
            let what = if name == "a" { "row" } else { "column" };
            let most = kept.len().min(Integrity::OPERAND_MAX);
            let digits = kept[..most].iter().map(|byte| format!("{byte:02x}"));
            let bytes = digits.collect();
            integrity.operands.push(KeptOperand { of: format!("{what} {of} of {name}"), bytes });
        }
        Ok(())
    }
}

/// One of some lines that stand one after the other.
fn line_of(bytes: &[u8], line: usize, lines: usize) -> Vec<u8> {
    let length = bytes.len() / lines.max(1);
    bytes[(line * length).min(bytes.len())..((line + 1) * length).min(bytes.len())].to_vec()
}

/// One column of a matrix that stands row by row.
fn column_of(bytes: &[u8], column: usize, columns: usize, point: &GemmPoint) -> Vec<u8> {
    let element = bytes.len() / (columns * point.k as usize).max(1);
    let rows = bytes.chunks_exact((columns * element).max(1));
    let cell = |row: &[u8]| row.get(column * element..(column + 1) * element).map(<[u8]>::to_vec);
    rows.filter_map(cell).flatten().collect()
}
