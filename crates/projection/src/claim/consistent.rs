//! What a text says of memory beside its figure, against the part: its kind, its size, its
//! channels, and the rate of its pins.

use super::{
    Answer, Reading, Statement, Verdict,
    hardware::{NO_PEAK, Stated, verdict},
};
use fizeau_domain::{number::percent, spec::Part, units::BytesPerSecond};

/// How far a printed size may be from the stated one: GB for GiB, and what ECC takes.
const CAPACITY_SAME: f64 = 0.08;

/// Devices that are sold together, whose memory may be stated in one number.
const TOGETHER: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 36.0, 72.0];

/// Rates of modules in MT/s that are sold.
const MODULES: [f64; 25] = [
    1600.0, 1866.0, 2133.0, 2400.0, 2666.0, 2933.0, 3000.0, 3200.0, 3600.0, 3733.0, 4000.0, 4266.0,
    4400.0, 4800.0, 5200.0, 5600.0, 6000.0, 6400.0, 6800.0, 7200.0, 7500.0, 8000.0, 8400.0, 8533.0,
    8800.0,
];

/// A statement that the part's file contradicts.
struct Fault {
    why: String,
    /// Whether it is another generation, or a number of another part; else it is near enough to
    /// be a slip.
    is_plain: bool,
}

/// The generation of a kind of memory, without what only its last letter tells: "hbm3" of "hbm3e",
/// "gddr6" of "gddr6x", "ddr5" of "lpddr5x".
fn generation(kind: &str) -> &str {
    let kind = kind.trim_start_matches("lp").trim_start_matches("mr");
    let end = kind.rfind(|c: char| c.is_ascii_digit()).map_or(kind.len(), |at| at + 1);
    &kind[..end]
}

/// Whether a text is of the memory of the CPU beside a GPU: it says so, or names memory that GPUs
/// with HBM do not have and their CPUs do.
pub fn is_of_host(part: &Part, reading: &Reading) -> bool {
    let is_of_cpus = |kind: &String| kind.starts_with("ddr") || kind.starts_with("lpddr");
    let has_hbm = part.memory_stated.kind.to_ascii_lowercase().starts_with("hbm");
    let named = &reading.beside.memory;
    let is_named = has_hbm && !named.is_empty() && named.iter().all(is_of_cpus);
    !part.is_host() && (reading.beside.is_of_host || is_named)
}

fn kind(part: &Part, reading: &Reading) -> Option<Fault> {
    if is_of_host(part, reading) {
        return None;
    }
    let stated = part.memory_stated.kind.to_ascii_lowercase();
    let known: Vec<&str> = stated
        .split(|c: char| c.is_whitespace() || c == ',')
        .map(|word| word.split('-').next().unwrap_or(word))
        .filter(|word| word.contains("ddr") || word.starts_with("hbm") || word.contains("dimm"))
        .collect();
    if known.is_empty() {
        return None;
    }
    let is = |test: &dyn Fn(&str, &str) -> bool, named: &str| {
        known.iter().any(|one| test(one.trim_start_matches("mrdimm"), named) || *one == named)
    };
    let odd = reading.beside.memory.iter().find(|named| {
        let is_whole_family = ["hbm", "ddr", "gddr", "lpddr"].contains(&named.as_str());
        let starts = |one: &str, named: &str| is_whole_family && one.starts_with(named);
        !is(&|one, named| one == named, named) && !is(&starts, named)
    })?;
    let same = |one: &str, named: &str| generation(one) == generation(named);
    let is_mrdimm = known.iter().any(|one| one.starts_with("mrdimm")) && odd.starts_with("ddr5");
    if is_mrdimm {
        return None;
    }
    let why = format!(
        "it says {}, and the memory of {} is {}",
        odd.to_uppercase(),
        part.name,
        part.memory_stated.kind
    );
    Some(Fault { why, is_plain: !is(&same, odd) })
}

fn capacity(part: &Part, reading: &Reading) -> Option<Fault> {
    let stated = reading.beside.capacity?;
    let known = part.memory_stated.capacity?;
    let own = part.memory.map_or(known, |memory| memory.0 as f64);
    let is = |count: f64, of: f64| {
        (stated.value / (of * count) - 1.0).abs() <= CAPACITY_SAME
            || (stated.value - of * count).abs() <= stated.half_place.min(0.05 * of * count)
    };
    let counts: Vec<f64> = match reading.devices {
        Some(count) => vec![1.0, f64::from(count)],
        None => TOGETHER.to_vec(),
    };
    let is_same = counts.iter().any(|count| is(*count, known) || is(*count, own));
    (!is_same).then(|| Fault {
        why: format!(
            "it says {} GB of memory, and {} has {} GB",
            (stated.value / 1e8).round() / 10.0,
            part.name,
            (known / 1e8).round() / 10.0
        ),
        is_plain: !part.unverified.iter().any(|field| field == "capacity_gb"),
    })
}

fn channels(part: &Part, reading: &Reading) -> Option<Fault> {
    let (stated, known) = reading.beside.channels.zip(part.memory_stated.channels)?;
    let sockets = reading.devices.unwrap_or(1);
    // A board may have fewer of them wired; more than a socket has are of several.
    (stated > known * sockets).then(|| Fault {
        why: format!("it says {stated} channels, and a socket of {} has {known}", part.name),
        is_plain: !part.unverified.iter().any(|field| field == "memory_channels"),
    })
}

fn bus(part: &Part, reading: &Reading) -> Option<Fault> {
    let (stated, known) = reading.beside.bus_bits.zip(part.memory_stated.bus_bits)?;
    (stated != known && !part.is_host()).then(|| Fault {
        why: format!("it says {stated} bits, and the memory bus of {} has {known}", part.name),
        is_plain: !part.unverified.iter().any(|field| field == "memory_bus_bits"),
    })
}

/// The rate of pins that a text states beside a GPU's bandwidth.
fn pins(part: &Part, reading: &Reading) -> Option<Fault> {
    let memory = &part.memory_stated;
    let is_beside = matches!(reading.statement, Statement::Memory(_)) && !part.is_host();
    let (stated, pin) = reading.beside.transfers.filter(|_| is_beside).zip(memory.pin)?;
    let most = memory.pin_most.unwrap_or(pin).max(pin);
    let field = "memory_data_rate_gbit_per_s_per_pin";
    ((stated / pin - 1.0).abs() > 0.02).then(|| Fault {
        why: format!(
            "it says {} Gbit/s of a pin, and that of {} is {}",
            stated / 1e9,
            part.name,
            pin / 1e9
        ),
        is_plain: stated > most * 1.02 && !part.unverified.iter().any(|one| one == field),
    })
}

/// Puts what the text says of memory beside the part. A text whose figure can be true is not, where
/// it names what this part does not have.
pub fn check(part: &Part, reading: &Reading, found: Verdict) -> Verdict {
    let faults = [kind, capacity, channels, bus, pins].map(|of| of(part, reading));
    let faults: Vec<Fault> = faults.into_iter().flatten().collect();
    let Some(worst) = faults.iter().max_by_key(|fault| fault.is_plain) else { return found };
    let answer = if worst.is_plain { Answer::Impossible } else { Answer::Suspicious };
    let whys: Vec<&str> = faults.iter().map(|fault| fault.why.as_str()).collect();
    let answer = match found.answer {
        Answer::Impossible => Answer::Impossible,
        _ => answer,
    };
    let why = format!("{}; the figure alone: {}", whys.join("; "), found.why);
    Verdict { answer, only: None, why, ..found }
}

/// Transfers of one pin: of a GPU's memory, or of a host's modules.
pub fn transfers(part: &Part, reading: &Reading, rate: f64) -> Verdict {
    let memory = &part.memory_stated;
    let Some(pin) = memory.pin else {
        let why = format!("no text states the rate of the memory's pins of {}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let most = memory.pin_most.unwrap_or(pin).max(pin);
    let name = &part.name;
    let spelled = |rate: f64| reading.statement.spelled(rate);
    let mut lines = vec![format!(
        "{} / {} (stated for the pins of {name}) = {}",
        spelled(rate),
        spelled(pin),
        percent(rate / pin, 1)
    )];
    let bits = memory.bus_bits.filter(|_| !part.is_host()).or_else(|| {
        let channels = reading.beside.channels.or(memory.channels)?;
        Some(memory.bus_bits? / memory.channels? * channels)
    });
    if let Some(bits) = bits {
        let all = BytesPerSecond(rate * f64::from(bits) / 8.0);
        lines.push(format!("{bits} bits x {} = {all}", spelled(rate)));
    }
    let stated = Stated { rate, half_place: reading.half_place, devices: 1.0 };
    let is_open = |field: &str| part.unverified.iter().any(|one| one == field);
    let (answer, why) = if stated.is(reading, pin) {
        (
            Answer::Possible,
            format!("true, as the stated rate of the memory's pins: {}", spelled(pin)),
        )
    } else if rate <= pin {
        let why = format!(
            "the memory of {name} takes {}: slower modules or clocks are in use",
            spelled(pin)
        );
        (Answer::Possible, why)
    } else if rate <= most * 1.001 && part.is_host() {
        let why = format!(
            "it is faster than the stated {}: modules up to {} are met with",
            spelled(pin),
            spelled(most)
        );
        (Answer::Possible, why)
    } else if rate <= most * 1.001 {
        let why = format!("it is {} only where the memory is overclocked", spelled(rate));
        (Answer::Suspicious, why)
    } else if ["memory_mts_max", "memory_data_rate_gbit_per_s_per_pin"]
        .iter()
        .any(|one| is_open(one))
    {
        let why = format!(
            "it is {} of {}, a number that no document of the vendor confirms",
            percent(rate / most, 1),
            spelled(most)
        );
        (Answer::Suspicious, why)
    } else {
        (Answer::Impossible, format!("it is {} of {}", percent(rate / most, 1), spelled(most)))
    };
    verdict(answer, why, rate / pin, lines)
}

/// What the memory of a host carries with modules of a rate that a text names, or that a figure
/// comes to exactly: its bytes each second, in words, and the rate of transfers.
pub fn of_modules(part: &Part, reading: &Reading, stated: Stated) -> Option<(f64, String)> {
    let memory = &part.memory_stated;
    let (bits, all) = memory.bus_bits.zip(memory.channels)?;
    let channels = reading.beside.channels.unwrap_or(all).min(all);
    let bytes = f64::from(bits) / f64::from(all) * f64::from(channels) / 8.0;
    let words = |mega: f64| format!("what {channels} channels carry with memory of {mega} MT/s");
    if let Some(rate) = reading.beside.transfers {
        return Some((rate * bytes, words(rate / 1e6)));
    }
    let most = memory.pin_most.or(memory.pin)? / 1e6;
    let sold = MODULES.iter().filter(|mega| **mega <= most * 1.001);
    let exact = sold.copied().find(|mega| (stated.rate / (mega * 1e6 * bytes) - 1.0).abs() < 0.002);
    exact.map(|mega| (mega * 1e6 * bytes, words(mega)))
}

/// A rate of a host's memory where the rate of its modules is known.
pub fn memory(part: &Part, reading: &Reading, stated: Stated) -> Option<Verdict> {
    let (carried, words) = of_modules(part, reading, stated)?;
    let is_stated = reading.beside.transfers.is_some();
    let share = stated.rate / carried;
    let line = format!("{words}: {}", BytesPerSecond(carried));
    if stated.is(reading, carried) {
        let (answer, why) = match reading.is_measured {
            true => {
                (Answer::Suspicious, format!("it is {words}, and measurements do not reach it"))
            }
            false => (
                Answer::Possible,
                format!("true, as {words}; as a measured rate it would be suspicious"),
            ),
        };
        return Some(verdict(answer, why, share, vec![line]));
    }
    let above = is_stated && stated.least(reading) > carried;
    above.then(|| {
        let why = format!("it is {} of {words}", percent(share, 1));
        verdict(Answer::Impossible, why, share, vec![line])
    })
}

/// Whether a rate in bits that names nothing is that of a pin.
pub fn is_pin(part: &Part, reading: &Reading) -> Option<String> {
    let Statement::Memory(rate) = reading.statement else { return None };
    let pin = part.memory_stated.pin?;
    let stated = Stated { rate: rate * 8.0, half_place: reading.half_place * 8.0, devices: 1.0 };
    let is_small = rate * 8.0 < 64e9 && stated.is(reading, pin);
    is_small.then(|| format!("the stated rate of the memory's pins: {} Gbit/s", pin / 1e9))
}
