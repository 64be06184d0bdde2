//! `gpu_metrics`: the table of sensors that the amdgpu driver shows as one binary file, whose
//! layout its header names by version. Versions 1.3 to 1.8 are read, at the places that the
//! kernel's kgd_pp_interface.h gives their fields: 1.3 to 1.5 as Linux has them, 1.8 as the patch
//! "drm/amd/pm: Add gpu_metrics_v1_8" (2025) declares it. That 1.3 has 120 bytes is what AMD's tool
//! printed for a Radeon of RDNA 4 (ollama, issue 9633). Any other version, those of processors with
//! graphics (2.x, 3.x) and the list of attributes of 1.9 among them, and any other size is not
//! read: nothing is guessed from bytes, and what is missing is asked of hwmon.

/// What is read of a table. Absent: the table does not have it, or the device does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Hottest place, degrees Celsius.
    pub hotspot: Option<u32>,
    /// Memory, degrees Celsius.
    pub memory: Option<u32>,
    /// Power of the socket, W.
    pub power: Option<u32>,
    /// Energy, in 2^-16 J.
    pub energy: Option<u64>,
    /// Clock of the slowest die's units, MHz.
    pub clock: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock: Option<u32>,
    /// Packets sent again over PCIe.
    pub replays: Option<u64>,
    /// Lanes, and 0.1 GT/s of each.
    pub pcie: Option<(u32, u32)>,
    /// Links to other devices: lanes, and Gb/s of each.
    pub xgmi: Option<(u32, u32)>,
    /// Links that are up.
    pub xgmi_up: Option<u32>,
    /// Bits of what holds the clock, the same for all products.
    pub throttled_by: Option<u64>,
    /// How long each has held it: processor hot, power, socket, regulators, memory.
    pub residencies: Option<[u32; 5]>,
}

/// Where fields stand in one version's table.
struct Layout {
    size: usize,
    hotspot: usize,
    memory: usize,
    power: usize,
    /// In 2^-16 J.
    energy: Option<usize>,
    /// Place and number of the dies' clocks.
    clocks: (usize, usize),
    memory_clock: usize,
    pcie: Option<usize>,
    xgmi: Option<usize>,
    xgmi_up: Option<usize>,
    replays: Option<usize>,
    throttled_by: Option<usize>,
    residencies: Option<usize>,
}

/// Table of RDNA 2 to 4 and CDNA 2 (`gpu_metrics_v1_3`). The header has no unit of its energy, and
/// drivers put the link's width into it in different ways: neither is read.
const V1_3: Layout = Layout {
    size: 120,
    hotspot: 6,
    memory: 8,
    power: 22,
    energy: None,
    clocks: (54, 1),
    memory_clock: 58,
    pcie: None,
    xgmi: None,
    xgmi_up: None,
    replays: None,
    throttled_by: Some(112),
    residencies: None,
};

/// Tables of MI300's family.
const V1_4: Layout = Layout {
    size: 288,
    hotspot: 4,
    memory: 6,
    power: 10,
    energy: Some(24),
    clocks: (240, 8),
    memory_clock: 280,
    pcie: Some(48),
    xgmi: Some(52),
    xgmi_up: None,
    replays: Some(88),
    throttled_by: None,
    residencies: None,
};
const V1_5: Layout = Layout {
    size: 360,
    energy: Some(88),
    clocks: (312, 8),
    memory_clock: 352,
    pcie: Some(112),
    xgmi: Some(116),
    replays: Some(152),
    ..V1_4
};
// A draft of 1.6 was of another layout, and shorter.
const V1_6: Layout = Layout {
    size: 1664,
    energy: Some(16),
    clocks: (264, 8),
    memory_clock: 304,
    pcie: Some(60),
    xgmi: Some(64),
    replays: Some(104),
    residencies: Some(36),
    ..V1_4
};
// Eight bytes more before the energy; behind the links' counts their states.
const V1_7: Layout = Layout {
    size: 2208,
    energy: Some(24),
    clocks: (296, 8),
    memory_clock: 336,
    pcie: Some(68),
    xgmi: Some(72),
    xgmi_up: Some(264),
    replays: Some(112),
    residencies: Some(44),
    ..V1_4
};
// More of each partition at the end.
const V1_8: Layout = Layout { size: 3872, ..V1_7 };

/// Reads a table; none where its version or size is not known.
pub fn read(bytes: &[u8]) -> Option<Metrics> {
    let [low, high, format, content] = bytes.get(..4)?.try_into().ok()?;
    let layout = match (format, content) {
        (1, 3) => V1_3,
        (1, 4) => V1_4,
        (1, 5) => V1_5,
        (1, 6) => V1_6,
        (1, 7) => V1_7,
        (1, 8) => V1_8,
        _ => return None,
    };
    let size = usize::from(u16::from_le_bytes([low, high]));
    if size != layout.size || bytes.len() < size {
        return None;
    }
    let table = Table(&bytes[..size]);
    let (clocks_at, clocks) = layout.clocks;
    // Dies that are not there read as 0 or as all ones.
    let clock = (0..clocks).filter_map(|die| table.u16(clocks_at + 2 * die)).filter(|&mhz| mhz > 0);
    let pair = |at: usize| Some((table.u16(at)?, table.u16(at + 2)?));
    Some(Metrics {
        hotspot: table.u16(layout.hotspot),
        memory: table.u16(layout.memory).filter(|&celsius| celsius > 0),
        // The second die of a package of two tells neither.
        power: table.u16(layout.power).filter(|&watts| watts > 0),
        energy: layout.energy.and_then(|at| table.u64(at)).filter(|&units| units > 0),
        clock: clock.min(),
        memory_clock: table.u16(layout.memory_clock),
        replays: layout.replays.and_then(|at| table.u64(at)),
        pcie: layout.pcie.and_then(pair),
        xgmi: layout.xgmi.and_then(pair),
        xgmi_up: layout
            .xgmi_up
            .map(|at| (0..8).filter(|link| table.u16(at + 2 * link) == Some(1)).count() as u32),
        throttled_by: layout.throttled_by.and_then(|at| table.u64(at)),
        residencies: layout.residencies.and_then(|at| table.five(at)),
    })
}

/// Bytes of a table, little-endian; all ones mean that there is no such sensor.
struct Table<'b>(&'b [u8]);

impl Table<'_> {
    fn at<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u32> {
        let value = u16::from_le_bytes(self.at(at)?);
        (value != u16::MAX).then_some(u32::from(value))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let value = u64::from_le_bytes(self.at(at)?);
        (value != u64::MAX).then_some(value)
    }

    fn five(&self, at: usize) -> Option<[u32; 5]> {
        let mut values = [0; 5];
        for (index, value) in values.iter_mut().enumerate() {
            *value = u32::from_le_bytes(self.at(at + 4 * index)?);
        }
        values.iter().all(|&value| value != u32::MAX).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with every byte a one but those that are put into it, built field by field from the
    /// struct's declaration, so that places come from the order and the sizes and not from this
    /// module's numbers.
    struct Fields {
        bytes: Vec<u8>,
    }

    impl Fields {
        fn new(content: u8) -> Fields {
            Fields { bytes: vec![0, 0, 1, content] }
        }

        fn put(mut self, bytes: &[u8]) -> Fields {
            // Aligned to its own size, as C does.
            self.bytes.resize(self.bytes.len().next_multiple_of(bytes.len()), 0);
            self.bytes.extend(bytes);
            self
        }

        fn u16(self, value: u16) -> Fields {
            self.put(&value.to_le_bytes())
        }

        fn u32(self, value: u32) -> Fields {
            self.put(&value.to_le_bytes())
        }

        fn u64(self, value: u64) -> Fields {
            self.put(&value.to_le_bytes())
        }

        fn skip16(self, count: usize) -> Fields {
            (0..count).fold(self, |fields, _| fields.u16(u16::MAX))
        }

        fn skip64(self, count: usize) -> Fields {
            (0..count).fold(self, |fields, _| fields.u64(7))
        }

        fn clocks(self, dies: usize) -> Fields {
            (0..8).fold(self, |f, die| f.u16(if die < dies { 2100 - die as u16 } else { 0 }))
        }

        /// The struct's end, aligned to 8, at least so long.
        fn end(mut self, least: usize) -> Vec<u8> {
            let size = self.bytes.len().next_multiple_of(8).max(least);
            self.bytes.resize(size, 0);
            self.bytes[..2].copy_from_slice(&(size as u16).to_le_bytes());
            self.bytes
        }
    }

    /// What stands in all of them.
    fn common(found: &Metrics) {
        assert_eq!((found.hotspot, found.memory, found.power), (Some(71), Some(62), Some(748)));
        assert_eq!(found.memory_clock, Some(1300));
    }

    /// Of all since 1.4.
    fn later(found: &Metrics) {
        common(found);
        assert_eq!((found.energy, found.pcie), (Some(1 << 40), Some((16, 320))));
    }

    /// Tables made of the header's declarations by a C compiler's rules, every scalar with a number
    /// of its own, and what stands in them: hotspot, memory, power, slowest die's clock, memory's
    /// clock; energy; replays.
    #[test]
    fn golden_tables_are_read() {
        const BIG: u64 = 1 << 40;
        macro_rules! golden {
            ($version:literal) => {
                include_bytes!(concat!(
                    "../../../../tests/golden/gpu_metrics/v1_",
                    $version,
                    ".bin"
                ))
            };
        }
        type Row = (&'static [u8], [u32; 5], Option<u64>, Option<u64>);
        let golden: [Row; 6] = [
            (golden!(3), [102, 103, 110, 120, 122], None, None),
            (golden!(4), [101, 102, 104, 143, 163], Some(BIG + 111), Some(BIG + 124)),
            (golden!(5), [101, 102, 104, 177, 197], Some(BIG + 143), Some(BIG + 156)),
            (golden!(6), [101, 102, 104, 146, 166], Some(BIG + 107), Some(BIG + 125)),
            (golden!(7), [101, 102, 104, 156, 176], Some(BIG + 108), Some(BIG + 126)),
            (golden!(8), [101, 102, 104, 156, 176], Some(BIG + 108), Some(BIG + 126)),
        ];
        for (bytes, wanted, energy, replays) in golden {
            let m = read(bytes).expect("a known table");
            let seen = [m.hotspot, m.memory, m.power, m.clock, m.memory_clock];
            assert_eq!(seen, wanted.map(Some), "1.{}", bytes[3]);
            assert_eq!((m.energy, m.replays), (energy, replays), "1.{}", bytes[3]);
            // A byte less than it says, and one that says a byte less.
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
            let mut shorter = bytes.to_vec();
            shorter[0] -= 1;
            assert_eq!(read(&shorter), None, "1.{}", bytes[3]);
        }
        let read = |at: usize| read(golden[at].0).expect("a known table");
        let (first, sixth, last) = (read(0), read(3), read(5));
        assert_eq!((first.throttled_by, first.pcie), (Some(BIG + 143), None));
        assert_eq!((sixth.pcie, sixth.xgmi), (Some((116, 117)), Some((118, 119))));
        assert_eq!(sixth.residencies, Some([110, 111, 112, 113, 114]));
        assert_eq!((last.pcie, last.xgmi), (Some((117, 118)), Some((119, 120))));
        assert_eq!((last.residencies, last.xgmi_up), (Some([111, 112, 113, 114, 115]), Some(5)));
    }

    #[test]
    fn table_1_3_is_read() {
        let fields = Fields::new(3).u16(55).u16(71).u16(62).skip16(3).skip16(3).u16(748);
        let fields = fields.u64(1 << 40).u64(5).skip16(7).u16(2480).u16(1).u16(1300).skip16(4);
        let fields = fields.u32(0).u16(0).u16(16).u16(320).u16(0).u32(0).u32(0).skip16(4).u64(9);
        let bytes = fields.skip16(3).u16(0).u64(1 | 1 << 36).end(0);
        assert_eq!(bytes.len(), 120);
        let found = read(&bytes).expect("1.3");
        common(&found);
        assert_eq!((found.energy, found.pcie), (None, None));
        assert_eq!((found.clock, found.throttled_by), (Some(2480), Some(1 | 1 << 36)));
        assert_eq!((found.xgmi, found.replays), (None, None));
    }

    fn start(content: u8) -> Fields {
        Fields::new(content).u16(71).u16(62).u16(50).u16(748).u16(99).u16(80)
    }

    /// From the links to the counts over them; 5 sets the packets that were not acknowledged.
    fn middle(fields: Fields, not_acknowledged: bool) -> Fields {
        let fields = fields.u16(16).u16(320).u16(16).u16(32).u32(1).u32(1);
        let fields = fields.skip64(3).u64(11).u64(0);
        let fields = if not_acknowledged { fields.u32(0).u32(0) } else { fields };
        fields.skip64(16)
    }

    #[test]
    fn tables_1_4_and_1_5_are_read() {
        for (content, size) in [(4, 288), (5, 360)] {
            let fields = start(content).skip16(4);
            let fields = if content == 5 { fields.skip16(32) } else { fields };
            let fields = middle(fields.u64(1 << 40).u64(5).u32(0).u32(0), content == 5);
            let bytes = fields.u64(3).clocks(8).skip16(12).u16(1300).u16(0).end(0);
            assert_eq!(bytes.len(), size);
            let found = read(&bytes).expect("known");
            later(&found);
            assert_eq!((found.clock, found.replays), (Some(2093), Some(11)));
            assert_eq!((found.xgmi, found.residencies), (Some((16, 32)), None));
        }
    }

    #[test]
    fn tables_1_6_to_1_8_are_read() {
        for content in [6, 7, 8] {
            let fields = start(content);
            let fields = if content == 6 { fields } else { fields.u64(5300) };
            let fields = fields.u64(1 << 40).u64(5).u32(77);
            let fields = fields.u32(1).u32(20).u32(3).u32(4).u32(5).u32(0);
            let fields = middle(fields, true);
            let fields = match content {
                6 => fields,
                _ => fields.u16(1).u16(1).u16(0).skip16(5).u16(0),
            };
            let bytes = fields
                .u64(3)
                .clocks(6)
                .skip16(12)
                .u16(1300)
                .end([1664, 2208, 3872][usize::from(content) - 6]);
            let found = read(&bytes).expect("known");
            later(&found);
            assert_eq!((found.clock, found.replays), (Some(2095), Some(11)), "1.{content}");
            assert_eq!(found.residencies, Some([1, 20, 3, 4, 5]));
            assert_eq!(found.xgmi_up, (content > 6).then_some(2));
        }
    }

    #[test]
    fn what_is_not_known_is_not_read() {
        let known = start(4).end(288);
        assert!(read(&known).is_some());
        for (at, value) in [(2, 2), (3, 9), (3, 2), (0, 16)] {
            let mut unknown = known.clone();
            unknown[at] = value;
            assert_eq!(read(&unknown), None, "byte {at} is {value}");
        }
        assert_eq!(read(&known[..280]), None);
        // The early 1.6.
        assert_eq!(read(&start(6).end(384)), None);
        assert_eq!(read(&[]), None);
    }
}
