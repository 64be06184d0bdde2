//! What the stub is told to do, in the variable `FIZEAU_STUB_NCCL`: parts between commas, each for
//! all ranks or, with the rank's number and a colon before it, for one.
//!
//! | part | means |
//! | --- | --- |
//! | `version=22703` | the library's version |
//! | `slow=8` | what is enqueued takes eight times as long |
//! | `kill@40` | the process ends as by a signal when its 40th operation is enqueued |
//! | `hang@40` | the device does nothing from its 40th operation on, and does not answer |
//! | `stuck@40` | the 40th operation never begins to move bytes; the device answers |
//! | `late@40` | the 40th operation moves its bytes and never ends |
//! | `wrong@40` | from the 40th operation on, one bit of each message over 4 KiB is another |
//! | `async=6@40` | from the 40th operation on, the communicator has this error and nothing ends |
//!
//! All collectives count as operations, also those by which fizeau's ranks agree. A group is one.

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends.
    Kill,
    /// The device does nothing more.
    Hang,
    /// Nothing is moved, and nothing ends.
    Stuck,
    /// All is moved, and nothing ends.
    Late,
    /// What is received is wrong.
    Wrong,
    /// An error in the background.
    Async(i32),
}

/// A script, read for one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The library's version.
    pub version: i32,
    /// Factor on all times.
    pub slow: f64,
    /// Faults, each from an operation on.
    pub faults: Vec<(Fault, u64)>,
}

impl Script {
    /// Reads a script for a rank; none is known before it joins. A part that is not understood
    /// ends the process: a test that scripts what does not exist must not pass.
    pub fn parse(text: &str, rank: Option<i32>) -> Script {
        let mut script = Script { version: 22_803, slow: 1.0, faults: Vec::new() };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            if script.take(part, rank).is_none() {
                panic!("FIZEAU_STUB_NCCL: {part:?} is no part of a script");
            }
        }
        script
    }

    /// The script of this process.
    pub fn read(rank: Option<i32>) -> Script {
        Script::parse(&std::env::var("FIZEAU_STUB_NCCL").unwrap_or_default(), rank)
    }

    fn take(&mut self, part: &str, rank: Option<i32>) -> Option<()> {
        let part = match part.split_once(':') {
            Some((of, part)) if rank == of.parse().ok() => part,
            Some((of, _)) => return of.parse::<i32>().ok().map(drop),
            None => part,
        };
        if let Some(version) = part.strip_prefix("version=") {
            self.version = version.parse().ok()?;
            return Some(());
        }
        if let Some(factor) = part.strip_prefix("slow=") {
            self.slow = factor.parse().ok()?;
            return Some(());
        }
        let (name, from) = part.split_once('@')?;
        let fault = match name.split_once('=') {
            Some(("async", code)) => Fault::Async(code.parse().ok()?),
            None if name == "kill" => Fault::Kill,
            None if name == "hang" => Fault::Hang,
            None if name == "stuck" => Fault::Stuck,
            None if name == "late" => Fault::Late,
            None if name == "wrong" => Fault::Wrong,
            _ => return None,
        };
        self.faults.push((fault, from.parse().ok()?));
        Some(())
    }

    /// What goes wrong with an operation by its number.
    pub fn fault(&self, operation: u64) -> Option<Fault> {
        self.faults.iter().find(|(_, from)| operation >= *from).map(|(fault, _)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_by_rank() {
        let text = "1:kill@40,async=6@3,0:version=22703";
        let of = |rank| Script::parse(text, rank);
        assert_eq!(of(Some(0)).version, 22_703);
        assert_eq!((of(None).version, of(Some(1)).version), (22_803, 22_803));
        assert_eq!(of(Some(1)).fault(39), Some(Fault::Async(6)));
        assert_eq!(of(Some(1)).fault(40), Some(Fault::Kill));
        assert_eq!(of(Some(0)).fault(2), None);
    }

    #[test]
    #[should_panic(expected = "no part of a script")]
    fn what_is_not_understood_is_refused() {
        Script::parse("sulk@3", None);
    }
}
