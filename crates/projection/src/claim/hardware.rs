//! Claims about memory, arithmetic and links, against the catalogue.

use super::{Answer, Reading, Statement, Verdict, consistent, links};
use fizeau_domain::{
    dtype::Dtype,
    number::{fixed, percent},
    spec::{Figure, Of, Part},
    units::{BytesPerSecond, FlopsPerSecond},
};

/// Above this share of a peak a measurement is suspicious: the best public reads of HBM reach 0.98
/// of the rate of its pins (gpu-benches on GH200).
pub const PEAK_MOST: f64 = 0.985;

/// Within this of a stated peak a figure is that peak.
const SAME: f64 = 0.004;

/// How far a rounded figure may be from the number that it stands for: two digits are within 5 %.
const ROUNDED_MOST: f64 = 0.05;

/// How much of a figure its last digit may have added where it is set against a limit: a figure of
/// one digit is taken to be exact within this share, or nothing would refute it.
const LAST_DIGIT_MOST: f64 = 0.001;

/// How far from a number "about" may be.
const ROUGH: f64 = 0.05;

/// Devices that are sold together, whose figure may be given without their number.
const SYSTEMS: [f64; 3] = [8.0, 36.0, 72.0];

/// Whether a figure is a peak that a vendor's text states, and no measurement.
pub fn is_stated_peak(part: &Part, statement: &Statement) -> bool {
    let stated = match statement {
        Statement::Memory(_) => part.memory_bandwidth.map(|rate| rate.0),
        Statement::Arithmetic(_, Some(dtype)) => part.peaks.get(dtype).map(|rate| rate.0),
        _ => None,
    };
    stated.is_some_and(|stated| (statement.figure() / stated - 1.0).abs() <= SAME)
}

/// What is missing where the catalogue lacks a number.
pub const NO_PEAK: &str = "the vendor's number of it, in the catalogue (docs/adding.md)";

/// What is missing where a rate of arithmetic has no element type.
const NO_TYPE: &str = "element type: fp8, bf16, ...";

pub fn verdict(answer: Answer, why: String, share: f64, arithmetic: Vec<String>) -> Verdict {
    Verdict {
        answer,
        only: None,
        why,
        of_light: Some(share),
        of_serial: None,
        arithmetic,
        missing: Vec::new(),
    }
}

/// A figure beside a stated peak, and the most that the part may do.
fn beside(what: &str, rate: f64, stated: f64, most: f64, lines: Vec<String>) -> Verdict {
    let share = rate / most;
    let of_most = percent(share, 1);
    if (rate / stated - 1.0).abs() <= SAME {
        let why = format!(
            "it is the stated peak of {what} itself: true as a datasheet's number; as a measured \
             one it would be suspicious"
        );
        return verdict(Answer::Possible, why, share, lines);
    }
    let (answer, why) = if share > 1.0 + 1e-9 {
        (Answer::Impossible, format!("it is {of_most} of the most that {what} can do"))
    } else if share > PEAK_MOST || rate > stated {
        let why =
            format!("it is {of_most} of the most that {what} can do, more than measurements reach");
        (Answer::Suspicious, why)
    } else {
        (Answer::Possible, format!("it is {of_most} of the peak of {what}"))
    };
    verdict(answer, why, share, lines)
}

/// A figure as the text states it, of one device.
#[derive(Clone, Copy)]
pub struct Stated {
    /// In the statement's unit.
    pub rate: f64,
    /// Half of the last digit's place.
    pub half_place: f64,
    /// Among how many devices the text's number was divided.
    pub devices: f64,
}

impl Stated {
    /// Of the whole unless the text says "each": what all devices do together is easier for each.
    pub fn of(reading: &Reading, rate: f64, devices: Option<u32>) -> Stated {
        let devices = f64::from(devices.unwrap_or(1));
        let among = if reading.is_each == Some(true) { 1.0 } else { devices };
        Stated { rate: rate / among, half_place: reading.half_place / among, devices: among }
    }

    /// Whether a number of the catalogue is this one, or is rounded to it.
    pub fn is(&self, reading: &Reading, known: f64) -> bool {
        let rough = if reading.is_rough { ROUGH } else { 0.0 };
        let rounded = self.half_place.min(ROUNDED_MOST * known);
        let within = rounded.max(SAME.max(rough) * known);
        (self.rate - known).abs() <= within * (1.0 + 1e-9)
    }

    /// The least that the text may mean: it may have been rounded up to its last digit.
    pub fn least(&self, reading: &Reading) -> f64 {
        let rough = if reading.is_rough { ROUGH } else { 0.0 };
        self.rate - self.half_place.min(LAST_DIGIT_MOST * self.rate).max(rough * self.rate)
    }
}

/// Numbers of a part that a figure may be, in the order in which they are meant where nothing is
/// said.
struct Candidates<'p> {
    /// In words: "this memory".
    what: &'static str,
    /// Those that the text's conditions leave.
    all: Vec<&'p Figure>,
    /// The most that a device does as one measures it where nothing else is said, and its field's
    /// figure.
    base: f64,
    main: &'p Figure,
    /// How much faster than stated a device may be for a short time.
    boost: f64,
    /// Whether it is memory, and no cache and no arithmetic.
    is_memory: bool,
    /// The stated clock in MHz, where it is typical and no maximum.
    beyond: Option<f64>,
    lines: Vec<String>,
}

/// Judges a rate of memory, a cache or arithmetic.
fn judge(part: &Part, reading: &Reading, stated: Stated, mut of: Candidates<'_>) -> Verdict {
    let Stated { rate, devices, .. } = stated;
    if devices > 1.0 {
        let together = reading.statement.spelled(rate * devices);
        let each = reading.statement.spelled(rate);
        of.lines.insert(0, format!("{together} of {devices} devices = {each} of each"));
    }
    let share = rate / of.base;
    let name = &part.name;
    if let Some(figure) = of.all.iter().find(|figure| stated.is(reading, figure.rate)) {
        let known = reading.statement.spelled(figure.rate);
        let line = format!("{known}: {} of {name} ({})", figure.how, figure.field);
        of.lines.push(line);
        let share = rate / figure.rate.max(if figure.is_main { of.base } else { 0.0 });
        let how = &figure.how;
        return if reading.is_measured {
            let why = format!("it is the stated {how}, and measurements do not reach peaks");
            verdict(Answer::Suspicious, why, share, of.lines)
        } else {
            let why = format!(
                "true, as the stated {how}: {known}; as a measured rate it would be suspicious"
            );
            verdict(Answer::Possible, why, share, of.lines)
        };
    }
    let (what, of_most) = (of.what, percent(share, 1));
    let least = stated.least(reading);
    if least <= of.base * (1.0 + 1e-9) {
        return within(reading, stated, of);
    }
    let above = format!("it is {of_most} of the most that {what} can do");
    let reaches = |figure: &&&Figure| figure.rate * of.boost >= least;
    let others: Vec<&&Figure> = of.all.iter().filter(reaches).collect();
    if let Some(figure) = others.iter().min_by(|a, b| a.rate.total_cmp(&b.rate)) {
        let of_other = percent(rate / figure.rate, 1);
        let why = format!(
            "as {} {above}, which is impossible; as {} it is {of_other} of the stated {}",
            of.main.how,
            figure.how,
            reading.statement.spelled(figure.rate)
        );
        let mut found = verdict(Answer::CannotTell, why, share, of.lines);
        found.missing.push(format!("whether it is {}", figure.how));
        return found;
    }
    let most = of.all.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap_or(&of.main);
    if part.is_host()
        && let Some((why, missing)) = not_alone(part, reading, stated, &of, &above)
    {
        let mut found = verdict(Answer::CannotTell, why, share, of.lines);
        found.missing.push(missing);
        return found;
    }
    if !most.is_confirmed && !of.main.is_confirmed {
        let why = format!("{above}, and no document of the vendor confirms {}", most.field);
        return verdict(Answer::Suspicious, why, share, of.lines);
    }
    if let Some((answer, why)) = of.beyond.and_then(|clock| beyond(part, &of, least, clock)) {
        let mut found = verdict(answer, why, share, of.lines);
        if answer == Answer::CannotTell {
            found.missing.push("the condition under which it is that fast".into());
        }
        return found;
    }
    match not_alone(part, reading, stated, &of, &above) {
        Some((why, missing)) => {
            let mut found = verdict(Answer::CannotTell, why, share, of.lines);
            found.missing.push(missing);
            found
        }
        None => verdict(Answer::Impossible, above, share, of.lines),
    }
}

/// How far above a stated boost clock cards run by themselves, and how far by any means: an RTX
/// 4090 of 2,520 MHz ran at 4,095 MHz under liquid nitrogen (HotHardware, "GeForce RTX 4090 Tops
/// 4090MHz"), 1.625 times as much.
const BOOSTS: [f64; 2] = [1.15, 1.65];

/// What a figure above the rate at the stated boost clock needs, where that clock is no maximum.
fn beyond(part: &Part, of: &Candidates<'_>, least: f64, clock: f64) -> Option<(Answer, String)> {
    let [usual, most] = BOOSTS;
    let fastest = of.all.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap_or(&of.main);
    let is_of_main = least / of.main.rate <= most;
    let factor = least / if is_of_main { of.main.rate } else { fastest.rate };
    let needed = clock * factor;
    let how = format!(
        "it needs a clock of {} MHz, {} above the {clock:.0} MHz that are stated for \
         {}; that clock is typical and no maximum",
        fixed(needed, 0),
        percent(factor - 1.0, 1),
        part.name
    );
    match factor {
        _ if factor <= usual && !is_of_main => {
            Some((Answer::CannotTell, format!("as {} {how}", fastest.how)))
        }
        _ if factor <= usual => Some((Answer::Possible, how)),
        _ if factor <= most => {
            Some((Answer::Suspicious, format!("{how}, but such cards do not run so fast alone")))
        }
        _ => None,
    }
}

/// What a figure above the most of one device may be all the same, and what the text lacks for it:
/// of several devices, of two sockets, or with what caches answer.
fn not_alone(
    part: &Part,
    reading: &Reading,
    stated: Stated,
    of: &Candidates<'_>,
    above: &str,
) -> Option<(String, String)> {
    let is_open = reading.devices.is_none() && reading.is_each.is_none();
    let whole = |count: &&f64| {
        let together = Stated { rate: stated.rate / **count, half_place: 0.0, devices: 1.0 };
        is_open && together.is(reading, of.main.rate)
    };
    if let Some(count) = SYSTEMS.iter().find(whole) {
        let why = format!(
            "{above}, which is impossible for one device; it is the stated {} of {count} together",
            of.main.how
        );
        return Some((why, format!("devices: on {count} GPUs")));
    }
    let of_two = stated.rate / of.base / SOCKETS;
    if part.is_host() && is_open && stated.least(reading) <= SOCKETS * of.base {
        let one = match of.main.is_confirmed {
            true => "is impossible for one socket",
            false => "is above a number that no document of the vendor confirms",
        };
        let why = format!("{above}, which {one}; of two sockets it is {}", percent(of_two, 1));
        return Some((why, "devices: --gpus 2 for two sockets".into()));
    }
    (reading.is_effective && of.is_memory).then(|| {
        let why = format!(
            "{above}, and an \"effective\" bandwidth counts what caches answer, which no text \
             states"
        );
        (why, "whether bytes from caches are counted".into())
    })
}

/// A figure that is not above the most that a device does.
fn within(reading: &Reading, stated: Stated, of: Candidates<'_>) -> Verdict {
    let (what, least) = (of.what, stated.least(reading));
    let share = stated.rate / of.base;
    let of_most = percent(share, 1);
    if least <= of.base * PEAK_MOST && least <= of.main.rate {
        let why = format!("it is {of_most} of the peak of {what}");
        return verdict(Answer::Possible, why, share, of.lines);
    }
    let why =
        format!("it is {of_most} of the most that {what} can do, more than measurements reach");
    let Some(other) = milder(&of, least) else {
        return verdict(Answer::Suspicious, why, share, of.lines);
    };
    let of_other = percent(stated.rate / other.rate, 1);
    let why = format!("as {} {why}; as {} it is {of_other}", of.main.how, other.how);
    let mut found = verdict(Answer::CannotTell, why, share, of.lines);
    found.missing.push(format!("whether it is {}", other.how));
    found
}

/// A number that a figure may be of, and that is far enough above it to be reached.
fn milder<'p>(of: &Candidates<'p>, least: f64) -> Option<&'p Figure> {
    let is_far = |figure: &&&Figure| {
        figure.rate > of.base * 1.01 && least <= figure.rate * PEAK_MOST && figure.is_main
    };
    of.all.iter().find(is_far).copied()
}

/// Sockets of a machine whose figures are often stated without their number.
const SOCKETS: f64 = 2.0;

/// The numbers that are left where some conditions are stated; those of one device, dense and in
/// the main table of the part before others.
fn candidates(part: &Part, is: impl Fn(&Figure) -> bool) -> Vec<&Figure> {
    let mut all: Vec<&Figure> = part.figures.iter().filter(|figure| is(figure)).collect();
    all.sort_by_key(|figure| {
        (figure.is_package, figure.is_sparse, figure.accumulate.is_some(), !figure.is_main)
    });
    all
}

/// Memory bandwidth, or that of the cache on the memory's side.
pub fn memory(part: &Part, reading: &Reading, rate: f64, devices: Option<u32>) -> Verdict {
    let is_cache = reading.is_of_cache == Some(true);
    let of = if is_cache { Of::Cache } else { Of::Memory };
    let of_memory = candidates(part, |figure| figure.of == of);
    let Some(main) = of_memory.first().copied() else {
        let what = if is_cache { "bandwidth of the cache" } else { "memory bandwidth" };
        let why = format!("no text states the {what} of {}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let stated = Stated::of(reading, rate, devices);
    if let Some(verdict) = (!is_cache).then(|| consistent::memory(part, reading, stated)).flatten()
    {
        return verdict;
    }
    let mut lines = vec![format!(
        "{} / {} (stated for {}) = {}",
        BytesPerSecond(stated.rate),
        BytesPerSecond(main.rate),
        part.name,
        percent(stated.rate / main.rate, 1)
    )];
    let of_device = of_memory.iter().filter(|figure| figure.is_package == main.is_package);
    let base = of_device.map(|figure| figure.rate).fold(main.rate, f64::max);
    if base > main.rate * 1.001 {
        let most = BytesPerSecond(base);
        lines.push(format!("other texts of the vendor, or its pins, come to {most}"));
    }
    let mut all = of_memory;
    if reading.is_of_cache.is_none() {
        // A text that does not say "memory" may state the cache.
        all.extend(candidates(part, |figure| figure.of == Of::Cache));
    }
    let what = if is_cache { "this cache" } else { "this memory" };
    judge(
        part,
        reading,
        stated,
        Candidates { what, all, base, main, boost: 1.0, is_memory: !is_cache, beyond: None, lines },
    )
}

/// Arithmetic.
pub fn arithmetic(
    part: &Part,
    reading: &Reading,
    (rate, dtype): (f64, Option<Dtype>),
    devices: Option<u32>,
) -> Verdict {
    let Some(dtype) = dtype else {
        let mut verdict = Verdict::cannot_tell("the element type is not stated", NO_TYPE);
        let known = part.peaks.iter().map(|(dtype, peak)| format!("{dtype}: {peak} dense"));
        verdict.arithmetic = known.collect();
        return verdict;
    };
    let Some(all) = figures_of(part, reading, dtype, reading.is_sparse) else {
        let why = format!("no text states what {} does in {dtype}", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let stated = Stated::of(reading, rate, devices);
    let is_of_sparse = |figure: &&Figure| figure.is_sparse;
    let lacks_sparse = !all.iter().any(is_of_sparse) && reading.is_sparse != Some(false);
    let most = main_of(&all).map_or(0.0, |main| main.rate);
    let dense = by_figures(part, reading, stated, (dtype, all));
    let least = stated.least(reading);
    let doubled = 2.0 * most * boost(part, dtype, &mut Vec::new());
    let is_of_matrices = !matches!(dtype, Dtype::F64 | Dtype::F32);
    let is_open = lacks_sparse && is_of_matrices && part.has_sparsity && least <= doubled;
    match dense.answer {
        Answer::Suspicious | Answer::Impossible if is_open => {
            with_unknown_sparsity(part, dtype, dense)
        }
        _ => dense,
    }
}

/// A rate of which no text says what it is with sparsity: zeros that are skipped at most double it.
fn with_unknown_sparsity(part: &Part, dtype: Dtype, dense: Verdict) -> Verdict {
    let why = format!(
        "dense: {}; no text states what {} does in {dtype} with structured sparsity, which at \
         most doubles a rate",
        dense.why, part.name
    );
    let missing = vec![format!("whether it is with structured sparsity; {NO_PEAK}")];
    Verdict { answer: Answer::CannotTell, why, missing, ..dense }
}

/// The figures of an element type that a text's conditions leave; those of dense operands where
/// none is stated with sparsity, and those of any accumulator where none is stated of its own.
fn figures_of<'p>(
    part: &'p Part,
    reading: &Reading,
    dtype: Dtype,
    is_sparse: Option<bool>,
) -> Option<Vec<&'p Figure>> {
    let of = |is_sparse: Option<bool>, accumulate: Option<Dtype>| {
        // Units accumulate in 32 bits unless a figure says otherwise.
        let accumulates = |figure: &Figure| {
            accumulate.is_none_or(|stated| figure.accumulate.unwrap_or(Dtype::F32) == stated)
        };
        candidates(part, |figure| {
            figure.of == Of::Arithmetic(dtype)
                && is_sparse.is_none_or(|stated| stated == figure.is_sparse)
                && reading
                    .is_matrix
                    .is_none_or(|stated| figure.is_matrix.is_none_or(|is| is == stated))
                && accumulates(figure)
        })
    };
    let ways = [
        (is_sparse, reading.accumulate),
        (is_sparse, None),
        (is_sparse.map(|_| false), reading.accumulate),
        (is_sparse.map(|_| false), None),
    ];
    let found = ways.into_iter().map(|(is_sparse, accumulate)| of(is_sparse, accumulate));
    found.into_iter().find(|all| !all.is_empty())
}

/// The figure that is meant where nothing else is said: the fastest of the first kind.
fn main_of<'p>(all: &[&'p Figure]) -> Option<&'p Figure> {
    let first = *all.first()?;
    let alike = |figure: &&&Figure| {
        figure.is_package == first.is_package
            && figure.is_sparse == first.is_sparse
            && figure.accumulate == first.accumulate
            && figure.is_main == first.is_main
    };
    let main = all.iter().filter(alike).max_by(|a, b| a.rate.total_cmp(&b.rate));
    Some(main.copied().unwrap_or(first))
}

/// Arithmetic beside the figures that it may be.
fn by_figures(
    part: &Part,
    reading: &Reading,
    stated: Stated,
    (dtype, all): (Dtype, Vec<&Figure>),
) -> Verdict {
    let Some(main) = main_of(&all) else {
        return Verdict::cannot_tell(format!("no text states {dtype} of {}", part.name), NO_PEAK);
    };
    let mut lines = vec![format!(
        "{} / {} ({} of {}) = {}",
        FlopsPerSecond(stated.rate),
        FlopsPerSecond(main.rate),
        main.how,
        part.name,
        percent(stated.rate / main.rate, 1)
    )];
    let mut boost = boost(part, dtype, &mut lines);
    let mut beyond = part.clock_most.filter(|_| part.boosts_beyond).map(|clock| clock.0);
    let is_plain = !main.is_sparse && main.accumulate.is_none() && main.is_main;
    if let Some(clock) = reading.beside.clock.filter(|_| is_plain)
        && let Some(at) = at_clock(part, dtype, clock)
    {
        let highest = part.clock_most.map_or(f64::MAX, |most| most.0 * 1e6);
        let beyond_all = if part.boosts_beyond { BOOSTS[1] } else { 1.001 };
        if clock > highest * beyond_all {
            let why = format!(
                "it says a clock of {} MHz, and that of {} is {:.0} MHz",
                fixed(clock / 1e6, 0),
                part.name,
                highest / 1e6
            );
            let found = verdict(Answer::Possible, "not judged".into(), stated.rate / at, lines);
            return links::against(found, why);
        }
        lines.push(format!("at {} MHz, as it says: {}", fixed(clock / 1e6, 0), FlopsPerSecond(at)));
        if stated.is(reading, at) && !reading.is_measured {
            let why = format!(
                "true, as what all units do at {:.0} MHz; as a measured rate it would be \
                 suspicious",
                clock / 1e6
            );
            return verdict(Answer::Possible, why, stated.rate / at, lines);
        }
        (boost, beyond) = (at / main.rate, None);
    }
    let base = main.rate * boost;
    let what = "these units";
    judge(
        part,
        reading,
        stated,
        Candidates { what, all, base, main, boost, is_memory: false, beyond, lines },
    )
}

/// Operations of a part each second at a clock in hertz.
fn at_clock(part: &Part, dtype: Dtype, clock: f64) -> Option<f64> {
    Some(f64::from(part.units?) * part.flops_per_clock.get(&dtype)? * clock)
}

/// How much faster than its stated peak a part is at its highest clock.
fn boost(part: &Part, dtype: Dtype, lines: &mut Vec<String>) -> f64 {
    let known = part.units.zip(part.flops_per_clock.get(&dtype)).zip(part.clock_most);
    let (Some(((units, each), clock)), Some(peak)) = (known, part.peaks.get(&dtype)) else {
        return 1.0;
    };
    let boosted = f64::from(units) * each * clock.0 * 1e6;
    if boosted <= peak.0 * 1.001 {
        return 1.0;
    }
    let most = FlopsPerSecond(boosted);
    lines.push(format!(
        "at the highest clock: {units} units x {each} a clock x {clock} = {most}; for short work \
         only"
    ));
    boosted / peak.0
}

/// Operations of one unit in a clock.
pub fn per_clock(part: &Part, rate: f64, dtype: Option<Dtype>) -> Verdict {
    let Some(dtype) = dtype else {
        let mut verdict = Verdict::cannot_tell("the element type is not stated", NO_TYPE);
        let known = part.flops_per_clock.iter();
        verdict.arithmetic =
            known.map(|(dtype, each)| format!("{dtype}: {each} a clock")).collect();
        return verdict;
    };
    let Some(stated) = part.flops_per_clock.get(&dtype).copied() else {
        let why = format!("no text states what a unit of {} does in {dtype} each clock", part.name);
        return Verdict::cannot_tell(why, NO_PEAK);
    };
    let lines = vec![format!(
        "{rate} / {stated} operations each clock (dense {dtype} of one unit of {}) = {}",
        part.name,
        percent(rate / stated, 1)
    )];
    beside("a unit", rate, stated, stated, lines)
}
