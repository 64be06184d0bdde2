//! The headline figures of a run, each with its share of a limit and whose limit that is. Where a
//! share is low, the reason that the record has for it stands beside it.

use super::{
    Ceilings, Cell, Fact, FactLimit,
    case_table::{self, tier_name},
    ceiling::memory_peak,
    chart::measurements,
    consistency, fused,
    headline_sensors::{power_fact, throttling_fact},
    reasons,
};
use fizeau_domain::{
    case::{
        AttentionKind, Collective, CollectivePoint, Launching, Point, StreamOperation, Transfer,
    },
    dtype::Dtype,
    outcome::Measurement,
    spec::{Bound, Tier},
    units::{BytesPerSecond, FlopsPerSecond},
};
use fizeau_record::{Record, guard::FASTER_THAN_LIGHT};
use std::collections::{BTreeMap, BTreeSet};

/// What stands in the place of a limit, and what to do about it.
const PEAK_UNKNOWN: &str = "peak unknown: state it by --data";

/// Below this share of a limit a reader takes a machine for broken: the reason stands beside it.
const LOW: f64 = 0.5;

/// A link is named beside the best one where it reaches less than this share of it.
const LINK_ALIKE: f64 = 0.9;

/// The numbers to remember.
pub fn facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(memory_fact(record, ceilings));
    let of_stream = |stream| stream_fact(record, ceilings, stream);
    facts.extend([StreamOperation::Read, StreamOperation::Copy].into_iter().filter_map(of_stream));
    facts.extend(latency_fact(record, ceilings));
    facts.extend(compute_facts(record, ceilings));
    facts.extend(gemm_facts(record, ceilings));
    facts.extend(attention_facts(record, ceilings));
    facts.extend(attention_alone(record, ceilings));
    facts.extend(fused::facts(record, ceilings));
    facts.extend(collective_fact(record));
    facts.extend(transfer_facts(record, ceilings));
    facts.extend(launch_fact(record));
    facts.extend(power_fact(record));
    facts.extend(throttling_fact(record));
    facts
}

/// The measurement with the greatest rate.
fn best<'m>(
    all: impl Iterator<Item = &'m Measurement>,
    rate: impl Fn(&Measurement) -> f64,
) -> Option<&'m Measurement> {
    all.max_by(|one, other| rate(one).total_cmp(&rate(other)))
}

/// The best of all streams over memory.
fn memory_fact(record: &Record, ceilings: &Ceilings) -> Option<Fact> {
    let best = ceilings.memory.as_ref()?;
    let one = measurements(record).find(|one| one.case.to_string() == best.case)?;
    Some(of_memory(record, ceilings, ("memory_bandwidth", "Memory bandwidth"), one, best.rate))
}

/// The best stream of an operation over memory.
fn stream_fact(record: &Record, ceilings: &Ceilings, stream: StreamOperation) -> Option<Fact> {
    let rate = |one: &Measurement| one.work.memory / one.summary.median;
    let is_it = |one: &&Measurement| {
        matches!(one.case.point, Point::Stream(point)
            if point.stream == stream && ceilings.in_memory(point.working_set))
    };
    let best = best(measurements(record).filter(is_it), |one| rate(one).0)?;
    let (key, label) = match stream {
        StreamOperation::Read => ("memory_read", "Memory read"),
        _ => ("memory_copy", "Memory copy"),
    };
    Some(of_memory(record, ceilings, (key, label), best, rate(best)))
}

/// A rate of a stream over memory beside memory's peak.
fn of_memory(
    record: &Record,
    ceilings: &Ceilings,
    (key, label): (&str, &str),
    measurement: &Measurement,
    rate: BytesPerSecond,
) -> Fact {
    let tiers = [Tier::Datasheet, Tier::Observed];
    let peak = tiers.into_iter().find_map(|tier| Some((tier, memory_peak(record, tier)?)));
    let foreign = ceilings.foreign(measurement);
    let doubt = measurement.doubt();
    let peak = peak.filter(|_| foreign.is_none() && doubt.is_none());
    let share = peak.map(|(_, peak)| rate / peak);
    let (of, limit) = match (peak, foreign) {
        _ if doubt.is_some() => unknown(doubt.map_or(String::new(), |doubt| doubt.to_string())),
        (Some((tier, peak)), _) => known(Cell::Bandwidth(peak), &peak.to_string(), tier),
        (None, Some(target)) => unknown(not_made_for(target)),
        (None, None) => unknown(PEAK_UNKNOWN),
    };
    let (of, limit) = with_reasons((of, limit), record, measurement, share);
    Fact {
        key: key.into(),
        label: label.into(),
        value: Cell::Bandwidth(rate),
        share,
        of,
        limit,
        case: measurement.case.to_string(),
    }
}

/// What a share is of: in words, and as fields.
type Of = (String, FactLimit);

/// A limit that is known.
fn known(limit: Cell, words: &str, tier: Tier) -> Of {
    let tier = tier_name(tier);
    let fields = FactLimit { value: Some(limit), tier: Some(tier), reasons: Vec::new() };
    (format!("of {words} ({tier})"), fields)
}

/// Why a measurement has no share of a limit: what it says against itself, or else `why`.
fn doubt_or(measurement: &Measurement, why: &str) -> String {
    measurement.doubt().map_or_else(|| why.to_owned(), |doubt| doubt.to_string())
}

/// No limit, and why.
fn unknown(why: impl Into<String>) -> Of {
    (why.into(), FactLimit::default())
}

/// What a share is of, and where it is low why, as far as the record tells.
fn with_reasons(
    (of, limit): Of,
    record: &Record,
    measurement: &Measurement,
    share: Option<f64>,
) -> Of {
    if share.is_none_or(|share| share >= LOW) {
        return (of, limit);
    }
    let [sized, others] = reasons::of_low_share(record, measurement);
    let words = match (sized.as_slice(), others.as_slice()) {
        ([], []) => return (of, limit),
        ([], some) | (some, []) => some.join(", "),
        (sized, others) => {
            format!("{}; of unknown size: {}", sized.join(", "), others.join(", "))
        }
    };
    let reasons = [sized, others].concat();
    (format!("{of}: {words}"), FactLimit { reasons, ..limit })
}

/// The longest chain beyond all caches that the TLBs still reach; none where no chain was that
/// long.
fn latency_fact(record: &Record, ceilings: &Ceilings) -> Option<Fact> {
    let (_, one) = measurements(record)
        .filter_map(|one| match one.case.point {
            Point::Latency(point)
                if ceilings.in_memory(point.working_set) && !point.is_beyond_tlb() =>
            {
                Some((point.working_set, one))
            }
            _ => None,
        })
        .max_by_key(|(size, _)| *size)?;
    let doubt = one.doubt().map(|doubt| doubt.to_string());
    let cached = || consistency::has_cached_loads(record, one);
    let cached = || cached().then(|| "shorter chains take longer: a cache answered".to_owned());
    Some(Fact {
        of: doubt.or_else(cached).unwrap_or_default(),
        case: one.case.to_string(),
        ..Fact::new("memory_latency", "Memory latency", Cell::Time(one.summary.median))
    })
}

/// The fastest measurement of each element type among those that `of` admits. What memory binds
/// says nothing of arithmetic, however fast it is.
fn best_by_dtype<'r>(
    record: &'r Record,
    of: impl Fn(&Measurement) -> bool,
) -> BTreeMap<Dtype, (&'r Measurement, FlopsPerSecond)> {
    let mut by_dtype: BTreeMap<Dtype, Vec<&Measurement>> = BTreeMap::new();
    for measurement in measurements(record).filter(|measurement| of(measurement)) {
        let light = measurement.tier.and_then(|tier| measurement.light(tier));
        if light.is_some_and(|light| light.bound != Bound::Compute) {
            continue;
        }
        let Some(dtype) = measurement.case.point.dtype() else { continue };
        by_dtype.entry(dtype).or_default().push(measurement);
    }
    let rate = |one: &Measurement| one.work.flops / one.summary.median;
    let of_one = |(dtype, all): (Dtype, Vec<&'r Measurement>)| {
        let best = best(all.into_iter(), |one| rate(one).0)?;
        Some((dtype, (best, rate(best))))
    };
    by_dtype.into_iter().filter_map(of_one).collect()
}

/// What a measurement reached of its own speed of light, in words and as a share: the same as its
/// row says.
fn share(
    measurement: &Measurement,
    rate: FlopsPerSecond,
    ceilings: &Ceilings,
) -> (Option<f64>, Of) {
    if let Some(target) = ceilings.foreign(measurement) {
        return (None, unknown(not_made_for(target)));
    }
    match (measurement.utilisation(), measurement.tier) {
        (Some(share), Some(tier)) => {
            let peak = rate * (1.0 / share);
            (Some(share), known(Cell::Throughput(peak), &peak.to_string(), tier))
        }
        _ => (None, unknown(doubt_or(measurement, PEAK_UNKNOWN))),
    }
}

/// Why a kernel's share of a peak is not told.
fn not_made_for(target: &str) -> String {
    format!("(a portable kernel, not made for {target})")
}

fn rate_facts(
    record: &Record,
    ceilings: &Ceilings,
    (key, label): (&str, &str),
    of: impl Fn(&Measurement) -> bool,
) -> Vec<Fact> {
    best_by_dtype(record, of)
        .into_iter()
        .map(|(dtype, (measurement, rate))| {
            let (share, of) = share(measurement, rate, ceilings);
            let (of, limit) = with_reasons(of, record, measurement, share);
            Fact {
                key: format!("{key}_{dtype}"),
                label: format!("{label} {dtype}"),
                value: Cell::Throughput(rate),
                share,
                of,
                limit,
                case: measurement.case.to_string(),
            }
        })
        .collect()
}

/// Arithmetic on random numbers, as real work has them. Constant operands toggle few wires, draw
/// less power and reach a higher clock: their rate is a second figure, and the only one where a
/// kernel of random numbers is not there.
fn compute_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let is_compute = |one: &Measurement| matches!(one.case.point, Point::Compute(_));
    let is_random = |one: &Measurement| one.case.kernel.is_of_random_numbers();
    let has_random: BTreeSet<Dtype> = measurements(record)
        .filter(|one| is_compute(one) && is_random(one))
        .filter_map(|one| one.case.point.dtype())
        .collect();
    let random = rate_facts(record, ceilings, ("arithmetic", "Arithmetic"), |one| {
        is_compute(one) && is_random(one)
    });
    let constant = |has_random_too: bool| {
        let is_it = |one: &Measurement| {
            let dtype = one.case.point.dtype();
            is_compute(one)
                && !is_random(one)
                && dtype.is_some_and(|dtype| has_random.contains(&dtype) == has_random_too)
        };
        let key = if has_random_too { "arithmetic_of_constants" } else { "arithmetic" };
        rate_facts(record, ceilings, (key, "Arithmetic of constants"), is_it)
    };
    [random, constant(false), constant(true)].concat()
}

fn gemm_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let earnest =
        |one: &Measurement| matches!(one.case.point, Point::Gemm(p) if p.contents.are_random());
    rate_facts(record, ceilings, ("gemm", "Best GEMM"), earnest)
}

/// The case of attention that comes nearest to this run's own ceilings, and its share of them.
pub fn best_attention<'r>(
    record: &'r Record,
    ceilings: &Ceilings,
) -> Option<(&'r Measurement, f64)> {
    best_attention_of(record, ceilings, |kind| kind.starts_with("attention_"))
}

fn best_attention_of<'r>(
    record: &'r Record,
    ceilings: &Ceilings,
    is_of: impl Fn(&str) -> bool,
) -> Option<(&'r Measurement, f64)> {
    measurements(record)
        .filter(|one| kind(&one.case.point).is_some_and(|kind| is_of(&kind)))
        .filter_map(|measurement| Some((measurement, ceilings.share(measurement)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The kinds of attention, in the order in which they are listed.
const KINDS: [&str; 5] =
    ["attention_prefill", "attention_decode", "attention_mla", "sparse_top_k", "sparse_decode"];

/// The kind that a point is of.
fn kind(point: &Point) -> Option<String> {
    match point {
        Point::Attention(point) => Some(format!("attention_{}", point.attention)),
        Point::Sparse(point) => Some(format!("sparse_{}", point.step())),
        _ => None,
    }
}

/// "Prefill bf16, cold": the kind, the element type and the state of the caches, without which a
/// rate of attention tells nothing.
fn attention_label(measurement: &Measurement) -> String {
    let name = match measurement.case.point {
        Point::Attention(point) => {
            let kind = match point.attention {
                AttentionKind::Prefill => "Prefill",
                AttentionKind::Decode => "Decode",
                AttentionKind::Mla => "MLA decode",
            };
            format!("{kind} {}", point.dtype)
        }
        Point::Sparse(point) => format!("Sparse {}", point.step()),
        _ => "Attention".into(),
    };
    format!("{name}, {}", measurement.cache)
}

/// The fastest attention of each kind, where nothing was measured that it could be set against.
fn attention_alone(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    if best_attention_of(record, ceilings, |_| true).is_some() {
        return Vec::new();
    }
    // The step that selects tokens has no arithmetic: its rate is of bytes.
    let rate = |one: &Measurement| match case_table::rate(one) {
        Cell::Bandwidth(rate) => rate.0,
        Cell::Throughput(rate) => rate.0,
        _ => 0.0,
    };
    let of_kind = |wanted: &str| {
        let is_it = |one: &&Measurement| kind(&one.case.point).is_some_and(|kind| kind == wanted);
        let all = measurements(record).filter(is_it);
        let best = all.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let (of, limit) = unknown(match ceilings.foreign(best) {
            Some(target) => not_made_for(target),
            None => "no ceiling was measured: add gemm and stream/read".into(),
        });
        Some(Fact {
            key: wanted.into(),
            label: attention_label(best),
            value: case_table::rate(best),
            share: None,
            of,
            limit,
            case: best.case.to_string(),
        })
    };
    KINDS.into_iter().filter_map(of_kind).collect()
}

/// The attention of each kind that comes nearest to this run's own ceilings.
fn attention_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let of_kind = |wanted: &str| {
        let (measurement, share) = best_attention_of(record, ceilings, |kind| kind == wanted)?;
        beside_own_best(record, ceilings, measurement, share)
    };
    KINDS.into_iter().filter_map(of_kind).collect()
}

/// A case of attention beside what it is set against, in its unit: bytes each second where memory
/// binds it, those that have to come from memory.
pub fn beside_own_best(
    record: &Record,
    ceilings: &Ceilings,
    measurement: &Measurement,
    share: f64,
) -> Option<Fact> {
    let key = kind(&measurement.case.point)?;
    let beside = ceilings.beside_attention(measurement);
    let bound = ceilings.light(measurement).map(|(_, bound)| bound);
    let (value, limit, words) = match (bound, beside.memory, beside.arithmetic) {
        (Some(Bound::Memory), Some(best), _) => {
            let words = format!("{} ({})", best.rate, best.words());
            (Cell::Bandwidth(best.rate * share), Cell::Bandwidth(best.rate), words)
        }
        (_, _, Some(best)) => {
            let words = format!("{} ({})", best.rate, best.words());
            let rate = measurement.work.flops / measurement.summary.median;
            (Cell::Throughput(rate), Cell::Throughput(best.rate), words)
        }
        _ => return None,
    };
    let why = match (share > FASTER_THAN_LIGHT, record.was_resumed()) {
        (false, _) => "",
        (true, false) => ": above 100 %, measured under other conditions than that one",
        (true, true) => ": above 100 %, the run was resumed under other conditions",
    };
    let tier = Some(tier_name(Tier::Ceiling));
    Some(Fact {
        key,
        label: attention_label(measurement),
        value,
        share: Some(share),
        of: format!("of this run's own {words}{why}"),
        limit: FactLimit { value: Some(limit), tier, reasons: Vec::new() },
        case: measurement.case.to_string(),
    })
}

/// The bus bandwidth of all_reduce, by which machines are compared; of another collective where
/// all_reduce was not measured. Of the longest messages: shorter ones may never leave a cache.
fn collective_fact(record: &Record) -> Option<Fact> {
    let all = || {
        measurements(record).filter_map(|one| match one.case.point {
            Point::Collective(point) => Some((point, one)),
            _ => None,
        })
    };
    let busbw = |(point, one): &(CollectivePoint, &Measurement)| {
        let algbw: BytesPerSecond = point.message / one.summary.median;
        algbw * point.collective.bus_factor(point.ranks)
    };
    let best = |is_it: fn(&(CollectivePoint, &Measurement)) -> bool| {
        all()
            .filter(is_it)
            .max_by(|a, b| a.0.message.cmp(&b.0.message).then(busbw(a).0.total_cmp(&busbw(b).0)))
    };
    let of_all_reduce = best(|(point, _)| point.collective == Collective::AllReduce);
    let found = of_all_reduce.or_else(|| best(|_| true))?;
    let (point, measurement) = found;
    let share = measurement.utilisation().filter(|_| measurement.tier.is_some());
    let sent = format!("{} messages, {} ranks", point.message, point.ranks);
    let tier = measurement.tier.filter(|_| share.is_some());
    let of = match (tier, share) {
        (Some(tier), Some(share)) => {
            let limit = Cell::Bandwidth(busbw(&found) * (1.0 / share));
            let (_, limit) = known(limit, "", tier);
            (format!("of the link's limit ({}); {sent}", tier_name(tier)), limit)
        }
        _ => unknown(doubt_or(measurement, &format!("({sent})"))),
    };
    let (of, limit) = with_reasons(of, record, measurement, share);
    Some(Fact {
        key: "collective_busbw".into(),
        label: format!("{} busbw", point.collective),
        value: Cell::Bandwidth(busbw(&found)),
        share,
        of,
        limit,
        case: measurement.case.to_string(),
    })
}

/// The links to the host and to other devices.
fn transfer_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let kinds = [
        (Transfer::HostToDeviceMemcpy, "host_to_device", "Host to device"),
        (Transfer::DeviceToHostMemcpy, "device_to_host", "Device to host"),
        (Transfer::DeviceToDeviceMemcpyRead, "peer_read", "Peer to device"),
        (Transfer::DeviceToDeviceMemcpyWrite, "peer_write", "Device to peer"),
    ];
    let fact = |(transfer, key, label)| link_fact(record, ceilings, transfer, (key, label));
    kinds.into_iter().filter_map(fact).collect()
}

/// The fastest copy of a kind; beside it the slowest pair of devices, where pairs differ.
fn link_fact(
    record: &Record,
    ceilings: &Ceilings,
    transfer: Transfer,
    (key, label): (&str, &str),
) -> Option<Fact> {
    let mut by_peer: BTreeMap<Option<u32>, (BytesPerSecond, &Measurement)> = BTreeMap::new();
    for one in measurements(record) {
        let Point::Transfer(point) = one.case.point else { continue };
        if point.transfer == transfer {
            let rate = point.moved() / one.summary.median;
            let best = by_peer.entry(point.peer).or_insert((rate, one));
            if best.0 < rate {
                *best = (rate, one);
            }
        }
    }
    let by_rate = |a: &&(BytesPerSecond, &Measurement), b: &&(BytesPerSecond, &Measurement)| {
        a.0.0.total_cmp(&b.0.0)
    };
    let &(rate, measurement) = by_peer.values().max_by(by_rate)?;
    let &(least, slowest) = by_peer.values().min_by(by_rate)?;
    let (share, (mut of, limit)) = match (measurement.utilisation(), measurement.tier) {
        (Some(share), Some(tier)) if ceilings.foreign(measurement).is_none() => {
            let peak = rate * (1.0 / share);
            (Some(share), known(Cell::Bandwidth(peak), &peak.to_string(), tier))
        }
        _ => (None, unknown(doubt_or(measurement, "link's limit unknown: state it by --data"))),
    };
    if least < rate * LINK_ALIKE {
        of += &format!("; slowest {least} ({})", slowest.case);
    }
    let (of, limit) = with_reasons((of, limit), record, measurement, share);
    Some(Fact {
        key: key.into(),
        label: label.into(),
        value: Cell::Bandwidth(rate),
        share,
        of,
        limit,
        case: measurement.case.to_string(),
    })
}

/// From the launch of an empty kernel to its end, as the host sees it.
fn launch_fact(record: &Record) -> Option<Fact> {
    let of = |launching: Launching| {
        measurements(record)
            .filter_map(|one| match one.case.point {
                Point::Launch(point) if point.launching == launching => {
                    Some((one.summary.median * (1.0 / f64::from(point.kernels.max(1))), one))
                }
                _ => None,
            })
            .min_by(|a, b| a.0.0.total_cmp(&b.0.0))
    };
    let (time, measurement) = of(Launching::Waited)?;
    let others = [(Launching::Queued, "queued"), (Launching::Graph, "in a graph")];
    let others =
        others.iter().filter_map(|(way, words)| Some(format!("{words} {} each", of(*way)?.0)));
    let others: Vec<String> = others.collect();
    Some(Fact {
        of: format!("from launch to completion; {}", others.join(", "))
            .trim_end_matches("; ")
            .to_owned(),
        case: measurement.case.to_string(),
        ..Fact::new("launch_latency", "Launch latency", Cell::Time(time))
    })
}
