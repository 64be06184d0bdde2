//! One measurement beside the tiers.

use super::{Class, Entry, FEW, ROUNDED, Unit};
use crate::project::{
    DraftCost, Hardware, Scenario, Serving, Speculation, Tiers, served,
    serving::cycle,
    sweep::{CONCURRENCY_MAX, fit_at},
};
use fizeau_domain::{
    model::{Format, Model, Module},
    units::Bytes,
};

/// Bytes of a GiB over those of a GB: datasheets write GB where the memory has GiB.
const GIB_OVER_GB: f64 = 1.073_741_824;

/// A measurement beside the tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// What was measured.
    pub entry: Entry,
    /// How many requests at once are taken: as stated, or as many as fit where these are fewer.
    pub concurrency: u32,
    /// What kind of load it is of.
    pub class: Class,
    /// The same rate in each tier, tokens a second.
    pub tiers: Tiers,
    /// Value / tier: of L0, of L1, of L2; none where that tier is not known. 1 is as fast.
    pub shares: [Option<f64>; 3],
    /// Why L2 is not known, where something is known beside limits.
    pub unknown: Option<String>,
}

impl Beside {
    /// Whether it is faster than a tier (0: L0, 1: L1, 2: L2).
    pub fn is_above(&self, tier: usize) -> bool {
        self.shares[tier].is_some_and(|share| share > 1.0 + ROUNDED)
    }
}

/// Sets a measurement beside the tiers of a model on hardware. All memory may be taken, as bounds
/// have it.
///
/// # Errors
/// In words: what of it cannot be.
pub fn beside(entry: &Entry, model: &Model, hardware: &Hardware) -> Result<Beside, String> {
    let refuse = |why: String| format!("{}: {why}", entry.id);
    let mut model = model.clone();
    if let Some(text) = &entry.precision {
        model.precision = model.precision.stored_as(text).map_err(refuse)?;
    }
    entry.layout.check(&model).map_err(refuse)?;
    let kv = entry.kv.unwrap_or(match model.precision.of(Module::Attention) {
        Format::Bf16 => Format::Bf16,
        _ => Format::Fp8,
    });
    let lengths = entry.input.zip(entry.output);
    let (input, output) = lengths.unwrap_or((entry.context.unwrap_or(0), 0));
    let scenario = Scenario { input, prefix: 0, output, kv, memory_share: 1.0 };
    if lengths.is_some() {
        scenario.check(&model).map_err(refuse)?;
    }
    // As claims have it, memory counts in GiB.
    let capacity = Bytes((hardware.capacity.0 as f64 * GIB_OVER_GB) as u64);
    let roomy = Hardware { capacity, ..hardware.clone() };
    let fit = fit_at(&model, &roomy, entry.layout, scenario.middle(), (kv, 1.0));
    let most = fit.sequences.filter(|most| *most > 0).ok_or_else(|| {
        refuse(format!(
            "{} does not fit on {} as {}: a condition is not what was measured",
            model.name, hardware.name, entry.layout
        ))
    })?;
    // Requests that do not fit wait for others to end.
    let most = u32::try_from(most).unwrap_or(CONCURRENCY_MAX).min(CONCURRENCY_MAX);
    let concurrency = entry.concurrency.map_or(most, |requests| requests.min(most));
    let accepted = entry.acceptance.unwrap_or(1.0);
    let drafted = accepted.ceil() as u32 - 1;
    let speculation = Speculation { accepted, drafted, cost: DraftCost::Nothing };
    let serving = Serving { speculation: (drafted > 0).then_some(speculation), apart: None };
    let (tiers, unknown) =
        rates(entry, (&model, hardware), (&scenario, &serving), concurrency).map_err(refuse)?;
    let share = |tier: f64| entry.rate() / tier;
    let shares = [Some(tiers.light), Some(tiers.serial), tiers.measured];
    let is_few = entry.concurrency.is_some_and(|requests| requests <= FEW);
    Ok(Beside {
        entry: entry.clone(),
        concurrency,
        class: if is_few { Class::Few } else { Class::Many },
        tiers,
        shares: shares.map(|tier| tier.map(share)),
        unknown,
    })
}

/// The rate that an entry is of in each tier, tokens a second; with it why L2 is not known.
fn rates(
    entry: &Entry,
    (model, hardware): (&Model, &Hardware),
    asked: (&Scenario, &Serving),
    concurrency: u32,
) -> Result<(Tiers, Option<String>), String> {
    let devices = f64::from(entry.layout.devices());
    let requests = f64::from(concurrency);
    let is_of_user = matches!(entry.unit, Unit::User | Unit::Token);
    if entry.output.is_some() && !is_of_user {
        let point = served(model, hardware, entry.layout, asked, concurrency);
        let point = point.map_err(|error| error.to_string())?;
        let tokens = f64::from(asked.0.output);
        let each = if entry.unit == Unit::Device { devices } else { 1.0 };
        let unknown = point.unknown.map(|(phase, why)| format!("{phase}: {why}"));
        return Ok((point.requests.map(|rate| rate * tokens / each), unknown));
    }
    let each = f64::from(concurrency.div_ceil(entry.layout.replicas));
    let cycle = cycle(model, hardware, entry.layout.split, asked, each);
    let cycle = cycle.map_err(|error| error.to_string())?;
    let user = cycle.time.map(|time| cycle.gain / time);
    let rate = match entry.unit {
        Unit::User | Unit::Token => user,
        Unit::Device => user.map(|rate| rate * requests / devices),
        Unit::System => user.map(|rate| rate * requests),
    };
    Ok((rate, cycle.unknown.map(|why| why.to_string())))
}
