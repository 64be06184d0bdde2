//! Device memory that is the host's. Each block stands between pages that nobody may touch, so that
//! a kernel's access beyond it ends the launch (see `watch`); every range that a copy names is
//! checked.

use crate::watch::{self, Seen, Watched};
use std::collections::BTreeMap;

/// As the driver aligns.
const ALIGNMENT: usize = 256;
const PAGE: usize = 4096;
/// What stands between a block and the pages before and behind it.
const PATTERN: u8 = 0xa5;

/// Whose memory a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The host's, which reads and writes it without asking the driver.
    Host,
    /// The device's of this ordinal.
    Device(i32),
}

/// Allocations by address.
#[derive(Default)]
pub struct Memory {
    blocks: BTreeMap<u64, Block>,
    used: BTreeMap<Owner, u64>,
    /// The NUMA node of memory of the host, where it is on one.
    nodes: BTreeMap<u64, u32>,
    /// Counts changes; no two contents of a block have the same number.
    changes: u64,
    /// Launches that change nothing: by what was launched, the contents of all that they touch.
    settled: BTreeMap<Vec<u8>, Vec<(u64, u64)>>,
}

struct Block {
    size: usize,
    /// All of its pages, with those that nobody may touch.
    pages: *mut u8,
    length: usize,
    /// The number of its contents.
    contents: u64,
    owner: Owner,
}

// SAFETY: the pages are the process's, and whoever has the block frees them.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, owner: Owner) -> Option<Block> {
        let inner = size.checked_next_multiple_of(ALIGNMENT)?.checked_next_multiple_of(PAGE)?;
        let length = inner.checked_add(2 * PAGE)?;
        // SAFETY: new pages, of which only the inner ones are used.
        let pages = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let pages = libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0);
            if pages == libc::MAP_FAILED {
                return None;
            }
            let pages = pages.cast::<u8>();
            libc::mprotect(pages.cast(), PAGE, libc::PROT_NONE);
            libc::mprotect(pages.add(PAGE + inner).cast(), PAGE, libc::PROT_NONE);
            pages
        };
        let block = Block { size, pages, length, contents: 0, owner };
        for (start, length) in block.margins() {
            // SAFETY: within the inner pages.
            unsafe { start.write_bytes(PATTERN, length) };
        }
        Some(block)
    }

    /// Where it starts: as far to the end of its pages as alignment lets it.
    fn start(&self) -> *mut u8 {
        // SAFETY: within the inner pages, which are at least as long.
        unsafe { self.pages.add(self.length - PAGE - self.size.next_multiple_of(ALIGNMENT)) }
    }

    /// What lies before and behind it on its own pages.
    fn margins(&self) -> [(*mut u8, usize); 2] {
        let (start, end) = (self.start() as usize, self.start() as usize + self.size);
        let (first, last) = (self.pages as usize + PAGE, self.pages as usize + self.length - PAGE);
        [(first as *mut u8, start - first), (end as *mut u8, last - end)]
    }

    fn is_intact(&self) -> bool {
        self.margins().iter().all(|&(start, length)| {
            // SAFETY: within the inner pages.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            bytes.iter().all(|&byte| byte == PATTERN)
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: mapped once, unmapped once.
        unsafe { libc::munmap(self.pages.cast(), self.length) };
    }
}

impl Memory {
    /// Bytes, if enough are left of the owner's `total`.
    pub fn allocate(&mut self, owner: Owner, bytes: usize, total: u64) -> Option<u64> {
        if bytes == 0 || self.used(owner).checked_add(bytes as u64)? > total {
            return None;
        }
        let mut block = Block::new(bytes, owner)?;
        let address = block.start() as u64;
        self.changes += 1;
        block.contents = self.changes;
        self.blocks.insert(address, block);
        *self.used.entry(owner).or_default() += bytes as u64;
        Some(address)
    }

    /// Memory of the host, on a node where it is on one.
    pub fn allocate_on(&mut self, node: Option<u32>, bytes: usize, total: u64) -> Option<u64> {
        let address = self.allocate(Owner::Host, bytes, total)?;
        if let Some(node) = node {
            self.nodes.insert(address, node);
        }
        Some(address)
    }

    /// The NUMA node that an address of the host's is on; `None` where it is on no one node.
    pub fn node(&self, address: u64) -> Option<u32> {
        self.nodes.get(&self.block_of(address, 1)?).copied()
    }

    /// Gives a block back; whether there was one at the address.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(block) = self.blocks.remove(&address) else { return false };
        self.nodes.remove(&address);
        *self.used.entry(block.owner).or_default() -= block.size as u64;
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
        self.block_of(address, 1).map(|start| self.blocks[&start].owner)
    }

    /// Where the block starts that has a whole range.
    fn block_of(&self, address: u64, length: usize) -> Option<u64> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        let end = (address - start).checked_add(length as u64)?;
        (end <= block.size as u64).then_some(start)
    }

    /// A range of one block, to be read.
    pub fn read(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.block_of(address, length)?;
        // SAFETY: the range lies within a block that lives, and `self` is borrowed for as long.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, length) })
    }

    /// A range of one block, to be written.
    pub fn bytes(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let start = self.block_of(address, length)?;
        self.changes += 1;
        self.blocks.get_mut(&start)?.contents = self.changes;
        // SAFETY: the range lies within a block that lives, and `self` is borrowed for as long.
        Some(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) })
    }

    /// Another library may have written anywhere.
    pub fn is_written_by_others(&mut self) {
        self.changes += 1;
        self.blocks.values_mut().for_each(|block| block.contents = self.changes);
    }

    /// A copy of a range as values.
    pub fn load<T: Copy>(&self, address: u64, count: u64) -> Option<Vec<T>> {
        let length = usize::try_from(count).ok()?.checked_mul(size_of::<T>())?;
        let bytes = self.read(address, length)?;
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

    /// Runs a launch, unless the same one has been seen to change nothing and all that it touched is
    /// as it was: kernels that are launched again and again to be timed leave the same each time.
    ///
    /// # Errors
    ///
    /// What the launch says; that it wrote beside a block.
    pub fn launch(
        &mut self,
        what: Vec<u8>,
        params: &[u8],
        run: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let is_as_it_was = |(start, contents): &(u64, u64)| {
            self.blocks.get(start).is_some_and(|block| block.contents == *contents)
        };
        if self.settled.get(&what).is_some_and(|touched| touched.iter().all(is_as_it_was)) {
            return Ok(());
        }
        let device = self.blocks.values().filter(|block| block.owner != Owner::Host);
        let watched = device.map(|block| {
            let (first, length) = (block.pages as usize + PAGE, block.length - 2 * PAGE);
            Watched::new(block.start() as usize, block.size, first, length)
        });
        let watched: Vec<Watched> = watched.collect();
        let (said, seen) = watch::during(watched, run);
        let mut touched = Vec::new();
        let mut is_changed = false;
        for Seen { start, changed } in seen {
            let Some(block) = self.blocks.get_mut(&(start as u64)) else { continue };
            if changed {
                self.changes += 1;
                block.contents = self.changes;
                is_changed = true;
            }
            touched.push((start as u64, block.contents));
        }
        said?;
        if let Some((start, block)) = self.blocks.iter().find(|(_, block)| !block.is_intact()) {
            return Err(format!("wrote beside the block of {} bytes at {start:#x}", block.size));
        }
        if !is_changed && !self.has_pinned(params) {
            self.settled.insert(what, touched);
        }
        Ok(())
    }

    /// Whether an address among parameters is of memory that the host writes unseen.
    fn has_pinned(&self, params: &[u8]) -> bool {
        params.chunks_exact(8).any(|word| {
            let address = word.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            self.owner(address) == Some(Owner::Host)
        })
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
        let placed = memory.allocate_on(Some(1), 101, 200).expect("there is room again");
        assert_eq!((memory.node(placed + 9), memory.node(at)), (Some(1), None));
        assert!(memory.free(placed) && memory.node(placed).is_none());
        assert_eq!(memory.store(at + 92, &[1.5f64]), Some(()));
        assert_eq!(memory.load::<f64>(at + 92, 1), Some(vec![1.5]));
        assert_eq!(memory.load::<f64>(at + 96, 1), None);
        assert!(memory.bytes(at - 1, 1).is_none());
        assert!(memory.free(at) && !memory.free(at));
        assert_eq!((memory.used(device), memory.blocks()), (0, 0));
    }

    #[test]
    fn a_launch_that_changes_nothing_is_not_run_again_until_something_else_does() {
        let mut memory = Memory::default();
        let at = memory.allocate(Owner::Device(0), 8 << 20, u64::MAX).expect("there is room");
        let other = memory.allocate(Owner::Device(0), 64, u64::MAX).expect("there is room");
        let mut runs = 0;
        let mut launch = |memory: &mut Memory| {
            let words = (at + (5 << 20)) as *mut u64;
            memory.launch(vec![1], &at.to_le_bytes(), || {
                runs += 1;
                // SAFETY: within the block.
                unsafe { words.write(words.sub(9).read() + 7) };
                Ok(())
            })
        };
        (0..5).for_each(|_| launch(&mut memory).expect("it runs"));
        memory.store(other, &[1u64]).expect("there is room");
        launch(&mut memory).expect("it runs");
        memory.store(at + (5 << 20) - 72, &[1u64]).expect("there is room");
        (0..3).for_each(|_| launch(&mut memory).expect("it runs"));
        assert_eq!(memory.load::<u64>(at + (5 << 20), 1), Some(vec![8]));
        memory.is_written_by_others();
        launch(&mut memory).expect("it runs");
        assert_eq!(runs, 2 + 2 + 1);
    }

    #[test]
    fn launches_of_several_threads_wait_for_each_other() {
        let counts_to = |end: u64| {
            let mut memory = Memory::default();
            let at = memory.allocate(Owner::Device(0), 1 << 20, u64::MAX).expect("there is room");
            for _ in 0..end {
                let counted = memory.launch(vec![1], &at.to_le_bytes(), || {
                    let word = at as *mut u64;
                    // SAFETY: within the block.
                    unsafe { word.write(word.read() + 1) };
                    Ok(())
                });
                counted.expect("it runs");
            }
            memory.load::<u64>(at, 1)
        };
        std::thread::scope(|scope| {
            let threads = [1, 2, 3, 4].map(|_| scope.spawn(|| counts_to(200)));
            for thread in threads {
                assert_eq!(thread.join().expect("it ends"), Some(vec![200]));
            }
        });
    }

    #[test]
    fn what_is_written_beside_a_block_is_found() {
        for place in [-1i64, 100] {
            let mut memory = Memory::default();
            let at = memory.allocate(Owner::Device(0), 100, 200).expect("there is room");
            let said = memory.launch(vec![1], &[], || {
                // SAFETY: on the block's own pages.
                unsafe { (at as *mut u8).offset(place as isize).write(7) };
                Ok(())
            });
            assert!(said.is_err_and(|words| words.contains("100 bytes")), "{place}");
        }
    }
}
