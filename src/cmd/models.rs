//! A language model and what is asked of it, as options say it.

use super::exit::Usage;
use crate::data::Catalogue;
use clap::Args;
use fizeau_domain::{
    model::{Format, Model},
    number,
    units::Seconds,
};
use fizeau_projection::project::{Layout, Scenario, Slo, Split, sweep::CONCURRENCY_MAX};

/// What a model is asked, and how it is stored: shared by verbs about models.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Tokens of a prompt
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 1024)]
    pub isl: u32,
    /// Tokens of an answer
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 1024)]
    pub osl: u32,
    /// Tokens of a prompt that the prefix cache already holds
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 0)]
    pub prefix: u32,
    /// Requests at once: 8, 1,4,16, or 1..128 (powers of two)
    #[arg(long, allow_negative_numbers = true, value_name = "LIST", default_value = "1..128")]
    pub concurrency: Concurrency,
    /// How weights are stored: fp8 for all linear layers, or experts=mxfp4,attention=fp8
    /// [default: as the model is published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// How keys and values are stored [default: as the model's file states, else bf16]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<Format>,
}

/// Requests at once, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency(pub Vec<u32>);

impl std::fmt::Display for Concurrency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }
}

impl std::str::FromStr for Concurrency {
    type Err = String;
    fn from_str(text: &str) -> Result<Concurrency, String> {
        let number = |text: &str| {
            let text = text.trim();
            // Of "1,024" people mean one number.
            if text.len() > 1 && text.starts_with('0') {
                return Err(format!(
                    "{text:?}: a comma stands between numbers of the list, and not between \
                     thousands: write 1024"
                ));
            }
            let number = text.parse::<u32>().ok();
            let number = number.filter(|number| (1..=CONCURRENCY_MAX).contains(number));
            number.ok_or_else(|| format!("{text:?}: whole numbers from 1 to {CONCURRENCY_MAX}"))
        };
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(format!("{from}..{to} is empty"));
            }
            let mut list: Vec<_> = (0..=20).map(|power| 1 << power).collect();
            list.retain(|one| (from..=to).contains(one));
            list.extend([from, to]);
            list.sort_unstable();
            list.dedup();
            return Ok(Concurrency(list));
        }
        let mut list = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        list.dedup();
        Ok(Concurrency(list))
    }
}

impl LoadArgs {
    /// The model of a name or a path, stored as asked.
    ///
    /// # Errors
    /// Where there is no such model or format.
    pub fn model(&self, name: &str, catalogue: &Catalogue) -> anyhow::Result<Model> {
        let mut model = catalogue.model(name).map_err(|error| Usage(error.to_string()))?;
        if let Some(text) = &self.precision {
            store_as(&mut model, text).map_err(|why| Usage(format!("--precision: {why}")))?;
        }
        Ok(model)
    }

    /// What is asked of it.
    ///
    /// # Errors
    /// Where a number cannot be.
    pub fn scenario(&self, model: &Model, memory_share: f64) -> Result<Scenario, Usage> {
        let scenario = Scenario {
            input: self.isl,
            prefix: self.prefix,
            output: self.osl,
            kv: model.kv_format(self.kv),
            memory_share,
        };
        scenario.check(model).map_err(Usage)?;
        Ok(scenario)
    }
}

/// `fp8`, or `experts=mxfp4,attention=fp8`.
pub fn store_as(model: &mut Model, text: &str) -> Result<(), String> {
    model.precision = model.precision.stored_as(text)?;
    Ok(())
}

/// Limits or times as `ttft=500ms,tpot=20ms,e2el=30s`; `option` is what gave them.
///
/// # Errors
/// Where a word is not understood or stands twice.
pub fn times(option: &str, text: &str) -> Result<Slo, Usage> {
    let refuse = |part: &str, why: &str| {
        Usage(format!(
            "{option} {part:?}: {why}; write ttft=500ms,tpot=20ms,e2el=30s, with a point before a \
             fraction"
        ))
    };
    let mut slo = Slo::default();
    for part in text.split(',') {
        let (name, time) =
            part.split_once('=').ok_or_else(|| refuse(part, "there is no = in it"))?;
        let (digits, scale) = match (time.strip_suffix("ms"), time.strip_suffix('s')) {
            (Some(digits), _) => (digits, 1e-3),
            (None, Some(digits)) => (digits, 1.0),
            _ => {
                let why = format!("{time:?} has no unit, which is ms or s");
                return Err(refuse(part, &why));
            }
        };
        let value = number::positive(digits).map_err(|why| refuse(part, &why))?;
        let place = match name {
            "ttft" => &mut slo.first_token,
            "tpot" => &mut slo.token,
            "e2el" => &mut slo.end_to_end,
            _ => {
                let why = format!("{name:?} is none of ttft, tpot and e2el");
                return Err(refuse(part, &why));
            }
        };
        if place.replace(Seconds(value * scale)).is_some() {
            return Err(refuse(part, &format!("{name} stands twice")));
        }
    }
    Ok(slo)
}

/// The layout of `shapes`: one that is not a copy of the model.
pub fn layout_of(text: &str, model: &Model) -> Result<Layout, Usage> {
    let layout: Layout = text.parse().map_err(Usage)?;
    layout.check(model).map_err(Usage)?;
    Ok(layout)
}

/// Tensor parallelism over n devices.
pub fn tensor(devices: u32) -> String {
    Layout { replicas: 1, split: Split::Tensor(devices) }.to_string()
}
