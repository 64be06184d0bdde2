//! Arguments of `fizeau load ab`.

use super::{ready::key, send_args::SendArgs};
use crate::{
    client::Key,
    cmd::{exit::Usage, share::Share, time::Time},
};
use clap::{Arg, Args};
use fizeau_projection::load::{
    ab::{Arm, ERROR_RATE, LEAST_EFFECT, ROUNDS_MIN, Settings},
    target::Target,
};
use std::path::PathBuf;

/// Arguments of `load ab`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("url", url_a))]
pub struct AbArgs {
    /// What both are sent.
    #[command(flatten)]
    pub send: SendArgs,
    /// Server B; the URL of A again where only settings differ
    #[arg(value_name = "URL_B", index = 2)]
    pub url_b: String,
    /// Rounds, 5 at least: in each both sides are sent the same load, in the order A B, B A, ..
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Rest between the end of one run and the beginning of the next
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub cool_down: Time,
    /// As --set, for A alone
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_a: Vec<String>,
    /// As --set, for B alone
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_b: Vec<String>,
    /// As --model, for A alone
    #[arg(long, value_name = "NAME")]
    pub model_a: Option<String>,
    /// As --model, for B alone
    #[arg(long, value_name = "NAME")]
    pub model_b: Option<String>,
    /// A file with the API key of B, where it has another than A
    #[arg(long, value_name = "FILE")]
    pub api_key_file_b: Option<PathBuf>,
    /// The least difference that counts: a share (0.02) or a percentage (2%)
    #[arg(long, value_name = "SHARE", default_value_t = Share(LEAST_EFFECT))]
    pub least_effect: Share,
    /// Probability that any metric is called different wrongly: a share or a percentage
    #[arg(long, value_name = "SHARE", default_value_t = Share(ERROR_RATE))]
    pub error_rate: Share,
    /// Exit code 1 where B was found worse by more than this in any metric, and 4 where the rounds
    /// do not exclude it: a share or a percentage
    #[arg(long, value_name = "SHARE")]
    pub fail_if_worse: Option<Share>,
}

/// The URL of `load URL` as A's. Its place is stated: an argument that is changed goes behind the
/// others.
fn url_a(url: Arg) -> Arg {
    url.index(1).value_name("URL_A").required(true).help("Server A: http://host:8000")
}

/// One of the two, as the command line has it.
pub struct Side {
    /// Which.
    pub arm: Arm,
    /// The arguments with what is for this side alone.
    pub args: SendArgs,
    /// Its server.
    pub target: Target,
    /// Its API key.
    pub key: Option<Key>,
    /// Fields of `--set-a` or `--set-b`.
    own: Vec<String>,
}

impl Side {
    /// In words, with the model's name.
    pub fn words(&self, model: &str) -> String {
        let mut words = vec![self.target.to_string(), format!("model {model}")];
        words.extend(self.own.iter().cloned());
        words.join(", ")
    }
}

impl AbArgs {
    /// What to judge by.
    pub fn settings(&self) -> Result<Settings, Usage> {
        if (self.rounds as usize) < ROUNDS_MIN {
            return Err(Usage(format!(
                "--rounds {}: {ROUNDS_MIN} at least. A verdict is by the scatter between rounds, \
                 which fewer do not show",
                self.rounds
            )));
        }
        if self.fail_if_worse.is_some_and(|Share(most)| most < self.least_effect.0 || most > 10.0) {
            return Err(Usage(
                "--fail-if-worse is from --least-effect (1 % unless it is given) to 10: below the \
                 least effect no difference counts"
                    .into(),
            ));
        }
        let Share(least_effect) = self.least_effect;
        let Share(error_rate) = self.error_rate;
        if !(0.0..1.0).contains(&least_effect) || !(1e-9..0.5).contains(&error_rate) {
            return Err(Usage(
                "--least-effect is from 0 to below 1, --error-rate above 0 and below 0.5; write \
                 0.02 for 2 %"
                    .into(),
            ));
        }
        Ok(Settings { least_effect, error_rate })
    }

    /// A and B.
    pub fn sides(&self) -> anyhow::Result<[Side; 2]> {
        let url_a = self.send.url.clone().unwrap_or_default();
        let a = self.side(Arm::A, url_a, &self.model_a, &self.set_a)?;
        let mut b = self.side(Arm::B, self.url_b.clone(), &self.model_b, &self.set_b)?;
        if self.api_key_file_b.is_some() {
            b.args.api_key_file.clone_from(&self.api_key_file_b);
            b.key = key(&b.args)?;
        }
        Ok([a, b])
    }

    fn side(
        &self,
        arm: Arm,
        url: String,
        model: &Option<String>,
        own: &[String],
    ) -> anyhow::Result<Side> {
        let target = Target::parse(&url, self.send.endpoint.map(Into::into)).map_err(Usage)?;
        let mut args = SendArgs { url: Some(url), ..self.send.clone() };
        if model.is_some() {
            args.model.clone_from(model);
        }
        // What is for one side alone stands above what is for both.
        args.set.extend_from_slice(own);
        args.fields()?;
        let key = key(&args)?;
        Ok(Side { arm, args, target, key, own: own.to_vec() })
    }
}
