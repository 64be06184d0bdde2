//! Device memory that is the host's: every range that is read or written is checked.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::BTreeMap,
};

/// Whose memory a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The host's.
    Host,
    /// The device's of this ordinal.
    Device(i32),
}

/// Allocations by address.
#[derive(Default)]
pub struct Memory {
    blocks: BTreeMap<u64, (Layout, Owner)>,
    used: BTreeMap<Owner, u64>,
}

/// As the driver aligns.
const ALIGNMENT: usize = 256;

impl Memory {
    /// Bytes, if so many are left of the owner's `total`.
    pub fn allocate(&mut self, owner: Owner, bytes: usize, total: u64) -> Option<u64> {
        if bytes == 0 || self.used(owner).checked_add(bytes as u64)? > total {
            return None;
        }
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        // SAFETY: the layout is not empty.
        let address = unsafe { alloc_zeroed(layout) } as u64;
        if address == 0 {
            return None;
        }
        self.blocks.insert(address, (layout, owner));
        *self.used.entry(owner).or_default() += bytes as u64;
        Some(address)
    }

    /// Gives a block back; whether there was one at the address.
    pub fn free(&mut self, address: u64) -> bool {
        let Some((layout, owner)) = self.blocks.remove(&address) else { return false };
        *self.used.entry(owner).or_default() -= layout.size() as u64;
        // SAFETY: allocated with this layout and freed once.
        unsafe { dealloc(address as *mut u8, layout) };
        true
    }

    /// Blocks in use.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that an owner has in use.
    pub fn used(&self, owner: Owner) -> u64 {
        self.used.get(&owner).copied().unwrap_or(0)
    }

    /// Whose memory an address is in; none where it was not allocated here.
    pub fn owner(&self, address: u64) -> Option<Owner> {
        let (start, (layout, owner)) = self.blocks.range(..=address).next_back()?;
        (address - start < layout.size() as u64).then_some(*owner)
    }

    /// A range of one block.
    pub fn bytes(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let (start, (layout, _)) = self.blocks.range(..=address).next_back()?;
        let end = (address - start).checked_add(length as u64)?;
        // SAFETY: the range lies within a block that lives, and `self` is borrowed for as long.
        (end <= layout.size() as u64)
            .then(|| unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) })
    }

    /// A copy of a range as values.
    pub fn load<T: Copy>(&mut self, address: u64, count: u64) -> Option<Vec<T>> {
        let length = usize::try_from(count).ok()?.checked_mul(size_of::<T>())?;
        let bytes = self.bytes(address, length)?;
        let values = bytes.chunks_exact(size_of::<T>());
        // SAFETY: whoever calls asks for plain numbers, which any bytes are.
        Some(values.map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }).collect())
    }

    /// Writes values into a range.
    pub fn store<T: Copy>(&mut self, address: u64, values: &[T]) -> Option<()> {
        let bytes = self.bytes(address, size_of_val(values))?;
        // SAFETY: as many bytes as the values have; they are plain numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast(), bytes.as_mut_ptr(), bytes.len());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_blocks_freed_once() {
        let mut memory = Memory::default();
        let device = Owner::Device(1);
        let at = memory.allocate(device, 100, 200).expect("there is room");
        assert_eq!((at % 256, memory.allocate(device, 101, 200)), (0, None));
        assert_eq!((memory.owner(at + 99), memory.owner(at + 100)), (Some(device), None));
        let other = memory.allocate(Owner::Host, 101, 200).expect("the host has its own");
        assert!(memory.free(other));
        assert_eq!(memory.store(at + 92, &[1.5f64]), Some(()));
        assert_eq!(memory.load::<f64>(at + 92, 1), Some(vec![1.5]));
        assert_eq!(memory.load::<f64>(at + 96, 1), None);
        assert!(memory.bytes(at - 1, 1).is_none());
        assert!(memory.free(at) && !memory.free(at));
        assert_eq!((memory.used(device), memory.blocks()), (0, 0));
    }
}
