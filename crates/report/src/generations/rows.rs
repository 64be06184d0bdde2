//! What is set beside each other on several generations: rows that mean the same on each, how near
//! each comes to its part's limit, and what was lost from one generation to the next.

use super::Side;
use crate::{Ceilings, chart::measurements};
use fizeau_domain::{
    case::{Access, Point},
    outcome::Measurement,
    spec::{Bound, Conditions, Part, Properties, Tier, lights},
    units::Seconds,
};

/// A share that is lower by less than this is no loss: single runs differ by as much.
pub const LOST_MIN: f64 = 0.05;

/// How near a kernel comes to the limit of one generation.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'r> {
    /// What was measured there.
    pub one: &'r Measurement,
    /// Time at the limit over the median, 0..1.
    pub share: f64,
    /// The resource that limits there.
    pub bound: Bound,
    /// Whose limit it is.
    pub tier: Tier,
}

/// The same work on several generations.
#[derive(Clone, Debug)]
pub struct Row<'r> {
    /// What is done, without what belongs to one part alone: a case's id without the number of
    /// units where all work, and with `memory` for a working set that no cache holds.
    pub name: String,
    /// Its point, as the first generation that has the row measured it.
    pub point: Point,
    /// By side; none where it has no share of a limit there.
    pub standings: Vec<Option<Standing<'r>>>,
}

impl Row<'_> {
    /// On how many sides it has a share.
    pub fn count(&self) -> usize {
        self.standings.iter().flatten().count()
    }
}

/// Each operation with the kernel that comes nearest to the limit, on each side.
pub fn operations<'r>(sides: &[Side<'r>]) -> Vec<Row<'r>> {
    rows(sides, |name, _| name)
}

/// Each kernel of each operation.
pub fn kernels<'r>(sides: &[Side<'r>]) -> Vec<Row<'r>> {
    rows(sides, |name, one| format!("{name}/{}", one.case.kernel.0))
}

/// Rows in the order of the judged side, which is the last one with a record, then of the others;
/// of several measurements of a row on a side the one with the largest share.
fn rows<'r>(sides: &[Side<'r>], named: impl Fn(String, &Measurement) -> String) -> Vec<Row<'r>> {
    let mut rows: Vec<Row<'r>> = Vec::new();
    for (at, side) in sides.iter().enumerate().rev() {
        let Some(record) = side.record else { continue };
        let ceilings = Ceilings::of(record);
        for one in measurements(record) {
            let Some(standing) = standing(one, &ceilings) else { continue };
            let name = named(row_name(&one.case.point, &record.header.device, &ceilings), one);
            let place = rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
                let standings = vec![None; sides.len()];
                rows.push(Row { name, point: one.case.point, standings });
                rows.len() - 1
            });
            let slot = &mut rows[place].standings[at];
            if slot.is_none_or(|best| best.share < standing.share) {
                *slot = Some(standing);
            }
        }
    }
    rows
}

/// None where no limit is known, or the kernel is not made for the device's architecture.
fn standing<'r>(one: &'r Measurement, ceilings: &Ceilings) -> Option<Standing<'r>> {
    let share = one.utilisation().filter(|_| ceilings.foreign(one).is_none())?;
    let tier = one.tier?;
    Some(Standing { one, share, bound: one.light(tier)?.bound, tier })
}

/// The name of a point's row.
fn row_name(point: &Point, device: &Properties, ceilings: &Ceilings) -> String {
    let id = point.to_string();
    let by_all = format!("/{}u", device.units);
    let scales = matches!(point, Point::Stream(_) | Point::Compute(_) | Point::Access(_));
    let id = id.strip_suffix(&by_all).filter(|_| scales).unwrap_or(&id);
    let in_memory = match point {
        Point::Stream(stream) => ceilings.in_memory(stream.working_set),
        Point::Access(access) if access.access == Access::FirstCache => {
            return format!("access/first_cache/{}", access.row);
        }
        Point::Access(access) if access.access.on_chip() => {
            return id.split('/').take(2).collect::<Vec<_>>().join("/");
        }
        Point::Access(access) => ceilings.in_memory(access.working_set),
        _ => false,
    };
    let mut segments: Vec<&str> = id.split('/').collect();
    if let Some(size) = segments.get_mut(2).filter(|_| in_memory) {
        *size = "memory";
    }
    segments.join("/")
}

/// The side that is judged: the last one with a record.
pub fn judged(sides: &[Side<'_>]) -> Option<usize> {
    sides.iter().rposition(|side| side.record.is_some())
}

/// A row that comes less near to its limit than on an older generation.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a, 'r> {
    /// The row.
    pub row: &'a Row<'r>,
    /// The side on which it came nearest.
    pub before: usize,
    /// Its share there.
    pub share_before: f64,
    /// Its standing on the judged side.
    pub now: Standing<'r>,
    /// What one iteration takes longer on the judged side than if it reached the old share of the
    /// new limit.
    pub time: Seconds,
}

/// What to tune again, first what loses most time: of the rows that both the judged side and an
/// older one have, those whose share fell by more than [`LOST_MIN`] from the best older one. One
/// iteration that takes `t` at share `s` would take `t s / s'` at the old share `s'`, and loses
/// `t (1 - s / s')`. An old share above 1 counts as 1.
pub fn losses<'a, 'r>(rows: &'a [Row<'r>], judged: usize) -> Vec<Loss<'a, 'r>> {
    let loss = |row: &'a Row<'r>| {
        let now = row.standings[judged]?;
        let others = row.standings.iter().enumerate().filter(|(at, _)| *at != judged);
        let others = others.filter_map(|(at, one)| Some((at, one.as_ref()?.share.min(1.0))));
        let (before, share_before) = others.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let time = now.one.summary.median * (1.0 - now.share / share_before);
        let is_lost = share_before - now.share > LOST_MIN;
        is_lost.then_some(Loss { row, before, share_before, now, time })
    };
    let mut losses: Vec<_> = rows.iter().filter_map(loss).collect();
    losses.sort_by(|a, b| b.time.0.total_cmp(&a.time.0));
    losses
}

/// What limits a row's work on a part of the catalogue, by its datasheet: for products and
/// attention, whose bytes and operations are the same on all parts.
fn bound_on(part: &Part, point: &Point) -> Option<Bound> {
    if !matches!(point, Point::Gemm(_) | Point::Grouped(_) | Point::Attention(_)) {
        return None;
    }
    let properties = Properties { units: part.units?, ..Properties::default() };
    let lights = lights(point, &properties, Some(part), &Conditions::default());
    lights.iter().find(|light| light.tier == Tier::Datasheet).map(|light| light.bound)
}

/// What limits a row on a side: as it was measured, or by the datasheet of a part that has no
/// record.
pub fn bound(row: &Row<'_>, side: &Side<'_>, at: usize) -> Option<Bound> {
    match (row.standings[at], side.record, side.part) {
        (Some(standing), ..) => Some(standing.bound),
        (None, None, Some(part)) => bound_on(part, &row.point),
        _ => None,
    }
}
