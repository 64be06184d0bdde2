//! `fizeau shapes`: the shapes of a model as a suite that `run` takes.

use super::{disk, exit::Usage, global::Global, models, output};
use crate::data::Catalogue;
use clap::{Args, ValueEnum};
use fizeau_domain::suite::Suite;
use fizeau_projection::project::shapes::{Forms, Shapes};
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `shapes`.
#[derive(Args, Clone, Debug)]
pub struct ShapesArgs {
    /// A model: a name that is built in, or a path to a config.json of the Hugging Face hub
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// What is asked of it
    #[command(flatten)]
    pub load: models::LoadArgs,
    /// How the model is spread over devices: tp8, ep8, pp4, tp2pp4 [default: one device]
    #[arg(long, alias = "tp", value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Which products of the same input are fused into one: queries, keys and values; gate and up
    #[arg(long, value_enum, default_value_t = FormsChosen::Both)]
    pub forms: FormsChosen,
    /// Write the suite to this file and not to standard output; end it in .toml
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Which products of a layer that read the same input are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormsChosen {
    /// Fused, as in most engines, and as projections look them up
    Fused,
    /// Each its own
    Separate,
    /// Both, to see what fusing gains
    Both,
}

impl FormsChosen {
    fn forms(self) -> Forms {
        match self {
            FormsChosen::Fused => Forms::Fused,
            FormsChosen::Separate => Forms::Separate,
            FormsChosen::Both => Forms::Both,
        }
    }
}

/// Prints the suite, or writes it.
///
/// # Errors
/// Where the model or the layout is not understood, or the file cannot be written.
pub fn run(args: &ShapesArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let model = args.load.model(&args.model, &catalogue)?;
    let scenario = args.load.scenario(&model, 1.0)?;
    let layout = match args.layout.as_deref().map(|layout| (layout, layout.parse())) {
        None => models::tensor(1),
        // As `--tp 8` was written.
        Some((_, Ok(devices))) => models::tensor(devices),
        Some((layout, Err(_))) => layout.to_owned(),
    };
    let layout = models::layout_of(&layout, &model)?;
    let concurrency = &args.load.concurrency.0;
    let shapes = Shapes::of(&model, layout, &scenario, concurrency, args.forms.forms());
    let description = format!(
        "{}, {layout}: decode of {} requests at {} tokens, prefill of {}",
        model.name,
        args.load.concurrency,
        scenario.middle(),
        scenario.input
    );
    let text = shapes.suite("shapes", &description);
    // What `run` would refuse is not written.
    Suite::parse(&text).map_err(Usage)?;
    for what in &shapes.left_out {
        output::say(&format!("no suite measures {what}: left out"));
    }
    match &args.out {
        Some(path) => {
            disk::write_file(path, text.as_bytes(), "--out FILE")?;
            output::say(&format!("to measure them: fizeau run --suite {}", output::shown(path)));
        }
        None => output::write_out(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
