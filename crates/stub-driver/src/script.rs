//! What a stub driver is told to be and to do, in the variable `FIZEAU_STUB`: parts between commas.
//!
//! | part | means |
//! | --- | --- |
//! | `driver=11040` | the driver's version |
//! | `images=12` | the newest CUDA whose binaries it loads, where that is not its own |
//! | `hip=50221153` | the version of HIP |
//! | `gfx=gfx942` | the target of its devices |
//! | `devices=2` | number of devices; `gpus=2` is the same |
//! | `uuid=9` | the number that devices' own numbers begin with |
//! | `serial=X9` | what NVML's serial numbers and UUIDs begin with; not told if absent |
//! | `units=8` | number of SMs |
//! | `capability=80` | compute capability 8.0 |
//! | `mig` | each device is a MIG slice |
//! | `apart` | no device reaches another's memory |
//! | `nodes=2` | NUMA nodes of the host: CPU `n` is on node `n % 2` |
//! | `gpu3.node=1` | the node that device 3 is attached to; node 0 if absent |
//! | `memory=BYTES` | of each device |
//! | `hang@5` | no event ends after the fifth launch; `gpu2.hang@5`: after the fifth on device 2 |
//! | `gpu2.lost@5` | launches on device 2 answer 999 from its fifth on, as on a GPU that is gone |
//! | `late=3@5` | the host is too late for the fifth gate and the two after it, which give up |
//! | `slow=2` | everything takes twice the time; how fast each part of a device is: [`crate::speed`] |
//! | `lanes=8`, `gpu3.fabric=2`, .. | states that NVML tells of: [`crate::planted`] |
//! | `reasons=64` | why NVML says the clock is held; `gpu3.reasons=64@1`: on one |
//! | `xid=79` | a fault that NVML reports |
//! | `stuck=60` | the driver takes this many seconds to start |
//! | `flip=output/1000` | a bit of one product in 1,000 is flipped: [`crate::flips`] |
//! | `registers=ENTRY:64` | registers of this kernel leave a block at most 64 threads |
//! | `text=FIND=>REPLACE` | exchanges texts in what is compiled; stands last, with its commas |
//! | `cuMemAlloc_v2=2@3` | the third call of the function and all later ones answer 2 |
//!
//! As on a real device, a code that breaks a context (214, 7xx but 701 and 720) is what every later
//! call answers too.

use crate::{flips::Flip, planted::Planted, speed::Speeds};
use std::collections::BTreeMap;

/// A script, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The driver's version.
    pub driver: i32,
    /// The newest CUDA whose binaries are loaded, where it is not the driver's own.
    pub images: Option<i32>,
    /// HIP's version.
    pub hip: i32,
    /// HIP's target.
    pub gfx: String,
    /// How many devices.
    pub devices: i32,
    /// Added to the devices' own numbers.
    pub uuid: u8,
    /// What serial numbers and UUIDs begin with.
    pub serial: Option<String>,
    /// SMs of each.
    pub units: i32,
    /// Compute capability: major and minor as one number.
    pub capability: i32,
    /// Whether devices are slices.
    pub mig: bool,
    /// Whether no device reaches another's memory.
    pub apart: bool,
    /// NUMA nodes of the host.
    pub nodes: u32,
    /// Devices and the nodes that they are attached to.
    attached: Vec<(i32, u32)>,
    /// Bytes of each device.
    pub memory: u64,
    /// Events do not end after this many launches.
    pub hang: Option<u64>,
    /// Devices whose events do not end after this many of their launches.
    hangs: Vec<(i32, u64)>,
    /// Devices that are lost after this many of their launches.
    losses: Vec<(i32, u64)>,
    /// How many gates give up, and the first of them.
    pub late: Option<(u64, u64)>,
    /// Factor on all times.
    pub slow: f64,
    /// How fast resources are, noise, drift and faults.
    pub speeds: Speeds,
    /// Bits that are flipped in products.
    pub flips: Vec<Flip>,
    /// States that NVML tells of.
    pub planted: Planted,
    /// Bits that NVML gives as reasons for the clock: of which device, where not of all, and from
    /// which of its launches on.
    reasons: Vec<(Option<i32>, u64, u64)>,
    /// A fault that NVML reports once.
    pub xid: Option<u64>,
    /// Seconds that the driver takes to start.
    pub stuck: u64,
    /// Kernels whose registers leave a block this many threads at most.
    registers: Vec<(String, u32)>,
    /// What is exchanged for what in the texts that are compiled.
    pub text: Option<(String, String)>,
    /// Codes of functions, from which call on.
    pub codes: BTreeMap<String, (i32, u64)>,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            driver: 13_000,
            images: None,
            hip: 60_300_000,
            gfx: "gfx942".into(),
            devices: 1,
            uuid: 0,
            serial: None,
            units: 4,
            capability: 90,
            mig: false,
            apart: false,
            nodes: 1,
            attached: Vec::new(),
            memory: 2 << 30,
            hang: None,
            hangs: Vec::new(),
            losses: Vec::new(),
            late: None,
            slow: 1.0,
            speeds: Speeds::default(),
            flips: Vec::new(),
            planted: Planted::default(),
            reasons: Vec::new(),
            xid: None,
            stuck: 0,
            registers: Vec::new(),
            text: None,
            codes: BTreeMap::new(),
        }
    }
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// The first word that is not understood: a test that scripts what does not exist must not
    /// pass.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        let (text, exchange) = match text.split_once("text=") {
            Some((text, exchange)) => (text, Some(exchange)),
            None => (text, None),
        };
        if let Some(exchange) = exchange {
            let (find, replace) = exchange.split_once("=>").ok_or("text=FIND=>REPLACE")?;
            script.text = Some((find.to_owned(), replace.to_owned()));
        }
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            script.take(word).ok_or_else(|| format!("{word:?} is no word of a script"))?;
        }
        let flips = script.flips.iter().map(Flip::device).max().unwrap_or(0);
        let states = script.planted.largest();
        let (named, devices) = (script.speeds.largest().max(flips).max(states), script.devices);
        match named >= devices.max(1) {
            true => Err(format!("gpu{named} is named, and there are {devices}: add \"gpus=N\"")),
            false => Ok(script),
        }
    }

    fn take(&mut self, part: &str) -> Option<()> {
        if part == "mig" {
            self.mig = true;
            return Some(());
        }
        if part == "apart" {
            self.apart = true;
            return Some(());
        }
        if let Some(launch) = part.strip_prefix("hang@") {
            self.hang = Some(launch.parse().ok()?);
            return Some(());
        }
        if let Some((gpu, fault)) = part.strip_prefix("gpu").and_then(|of| of.split_once('.'))
            && let Some((what @ ("hang" | "lost"), launch)) = fault.split_once('@')
        {
            let fault = (gpu.parse().ok()?, launch.parse().ok()?);
            if what == "hang" { &mut self.hangs } else { &mut self.losses }.push(fault);
            return Some(());
        }
        let (name, value) = part.split_once('=')?;
        if let Some(taken) = self.planted.take(name, value) {
            return taken;
        }
        match name {
            "driver" => self.driver = value.parse().ok()?,
            "images" => self.images = Some(value.parse().ok()?),
            "hip" => self.hip = value.parse().ok()?,
            "gfx" => self.gfx = value.to_owned(),
            "devices" | "gpus" => {
                self.devices = value.parse().ok().filter(|count| (0..=64).contains(count))?;
            }
            "uuid" => self.uuid = value.parse().ok()?,
            "serial" => self.serial = Some(value.to_owned()),
            "units" => self.units = value.parse().ok()?,
            "capability" => self.capability = value.parse().ok()?,
            "memory" => self.memory = value.parse().ok()?,
            "slow" => self.slow = value.parse().ok()?,
            "late" => {
                let (count, from) = value.split_once('@')?;
                self.late = Some((count.parse().ok()?, from.parse().ok()?));
            }
            "reasons" => self.hold(None, value)?,
            of if of.starts_with("gpu") && of.ends_with(".reasons") => {
                let gpu = of.strip_prefix("gpu")?.strip_suffix(".reasons")?;
                self.hold(Some(gpu.parse().ok()?), value)?;
            }
            "nodes" => self.nodes = value.parse().ok().filter(|count| *count > 0)?,
            of if of.starts_with("gpu") && of.ends_with(".node") => {
                let gpu = of.strip_prefix("gpu")?.strip_suffix(".node")?;
                self.attached.push((gpu.parse().ok()?, value.parse().ok()?));
            }
            "xid" => self.xid = Some(value.parse().ok()?),
            "registers" => {
                let (entry, most) = value.split_once(':')?;
                self.registers.push((entry.to_owned(), most.parse().ok()?));
            }
            "stuck" => self.stuck = value.parse().ok()?,
            call if is_function(call) => {
                let (code, from) = value.split_once('@').unwrap_or((value, "1"));
                let fault = (code.parse().ok()?, from.parse().ok()?);
                self.codes.insert(call.to_owned(), fault);
            }
            flip if flip.ends_with("flip") => self.flips.push(Flip::parse(name, value)?),
            _ => self.speeds.take(name, value)?,
        }
        Some(())
    }
}

impl Script {
    /// `BITS`, `BITS@LAUNCH`: why a device's clock is held.
    fn hold(&mut self, gpu: Option<i32>, value: &str) -> Option<()> {
        let (bits, from) = value.split_once('@').unwrap_or((value, "0"));
        self.reasons.push((gpu, bits.parse().ok()?, from.parse().ok()?));
        Some(())
    }

    /// The most threads of a block that a kernel's registers leave.
    pub fn threads_max(&self, entry: &str) -> u32 {
        self.registers.iter().find(|(of, _)| of == entry).map_or(1024, |(_, most)| *most)
    }

    /// The NUMA node that a device is attached to.
    pub fn node_of(&self, gpu: i32) -> u32 {
        self.attached.iter().find(|(of, _)| *of == gpu).map_or(0, |(_, node)| *node)
    }

    /// Whether a device that has launched so much hangs.
    pub fn hangs(&self, gpu: i32, launched: u64) -> bool {
        self.hangs.iter().any(|(of, from)| *of == gpu && launched >= *from)
    }

    /// Whether one is lost.
    pub fn is_lost(&self, gpu: i32, launched: u64) -> bool {
        self.losses.iter().any(|(of, from)| *of == gpu && launched >= *from)
    }

    /// Bits that NVML gives as reasons for the clock of a device that has launched so much.
    pub fn reasons(&self, gpu: i32, launched: u64) -> u64 {
        let holds = |(of, _, from): &&(Option<i32>, u64, u64)| {
            of.is_none_or(|of| of == gpu) && launched >= *from
        };
        self.reasons.iter().filter(holds).fold(0, |all, (_, bits, _)| all | bits)
    }
}

/// Whether the stub has a function of this name: as its sources say, which export each by name.
fn is_function(name: &str) -> bool {
    const SOURCES: [&str; 6] = [
        include_str!("cuda.rs"),
        include_str!("hip.rs"),
        include_str!("nvml.rs"),
        include_str!("nvrtc.rs"),
        include_str!("cublaslt.rs"),
        include_str!("hipblaslt.rs"),
    ];
    let follows = |text: &&str| {
        text.split(name).skip(1).any(|rest| rest.starts_with('(') || rest.starts_with(" = "))
    };
    let starts = ["cu", "nv", "hip"].iter().any(|start| name.starts_with(start));
    starts && SOURCES.iter().any(follows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read() {
        let text = "driver=12020,gpus=2,mig,hang@5,cuMemAlloc_v2=2@3,nvmlInit_v2=9,hipMalloc=2,\
                    hiprtcVersion=1,gpu1.hbm=0.5";
        let script = Script::parse(text).expect("a script");
        assert_eq!((script.driver, script.devices, script.mig), (12_020, 2, true));
        assert_eq!(script.hang, Some(5));
        let planted = Script::parse("units=6,text=a[0], b=>b").expect("a script").text;
        assert_eq!(planted, Some(("a[0], b".into(), "b".into())));
        assert_eq!(script.codes["cuMemAlloc_v2"], (2, 3));
        assert_eq!(script.codes["nvmlInit_v2"], (9, 1));
        assert_eq!(script.speeds.largest(), 1);
        let held = Script::parse("gpus=2,reasons=4,gpu1.reasons=64@3").expect("a script");
        let reasons = [held.reasons(0, 9), held.reasons(1, 2), held.reasons(1, 3)];
        assert_eq!(reasons, [4, 4, 68]);
        let far = Script::parse("gpus=4,nodes=2,gpu3.node=1,far=0.8").expect("a script");
        assert_eq!((far.nodes, far.node_of(3), far.node_of(2)), (2, 1, 0));
        let greedy = Script::parse("registers=gemm_mine:64").expect("a script");
        assert_eq!([greedy.threads_max("gemm_mine"), greedy.threads_max("other")], [64, 1024]);
        let broken = Script::parse("gpus=3,gpu1.hang@5,gpu2.lost@7").expect("a script");
        assert!(broken.hangs(1, 5) && !broken.hangs(1, 4) && !broken.hangs(2, 9));
        assert!(broken.is_lost(2, 7) && !broken.is_lost(2, 6) && !broken.is_lost(1, 9));
    }

    #[test]
    fn a_word_that_is_not_understood_is_named() {
        for (text, word) in [
            ("gpus=2,devices=two", "\"devices=two\""),
            ("sulk", "\"sulk\""),
            ("cuMemAlloc=2", "\"cuMemAlloc=2\""),
            ("gpu1.lost", "\"gpu1.lost\""),
            ("nodes=0", "\"nodes=0\""),
            ("gpu3.hmb=0.85,gpus=4", "\"gpu3.hmb=0.85\""),
            ("gpu8.hbm=0.85,gpus=8", "gpu8"),
            ("link0-1=0.5", "gpu1"),
        ] {
            let error = Script::parse(text).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
