//! `fizeau load serve`: a server with known laws.

use crate::cmd::time::Time;
use crate::{
    client::{
        known::{Fault, Laws, Server, Service},
        tokenizer::Dialect,
    },
    cmd::{exit::Usage, output::print},
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use fizeau_device::clock;
use fizeau_domain::units::Seconds;
use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    str::FromStr,
};

/// Arguments of `load serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The address to listen at
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// The port; 0 takes a free one, which is printed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// Requests that are served at once; others wait in the order in which they came
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub slots: u32,
    /// How long a request takes: fixed=20ms, exponential=20ms (that mean), token=1ms (for each
    /// token of the answer)
    #[arg(long, value_name = "LAW", default_value = "token=1ms")]
    pub service: ServiceText,
    /// Exponential times follow from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Tokens of a chunk
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub chunk: u32,
    /// Write answers in pieces of this many bytes, wherever that cuts them
    #[arg(long, value_name = "BYTES")]
    pub piece: Option<usize>,
    /// What goes wrong: KIND@NUMBER for one request of each level, KIND/NUMBER for every NUMBER-th
    /// (429@3, cut/10); any other word prints the kinds. Repeatable
    #[arg(long, value_name = "KIND@N")]
    pub fault: Vec<Fault>,
    /// Serve nothing for a time, a time after the first request: 2s@10s
    #[arg(long, value_name = "LONG@AFTER")]
    pub pause: Option<Pause>,
    /// The text of a token; several are sent in turn
    #[arg(long, value_name = "TEXT", default_value = " word")]
    pub text: Vec<String>,
    /// Whose /tokenize it has
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = DialectName::Vllm)]
    pub tokenize: DialectName,
    /// Answer only who sends the API key of the variable FIZEAU_API_KEY
    #[arg(long)]
    pub ask_for_key: bool,
}

/// Whose `/tokenize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DialectName {
    /// vLLM's
    Vllm,
    /// llama.cpp's
    LlamaCpp,
    /// None at all
    None,
}

/// A law as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceText(pub Service);

impl FromStr for ServiceText {
    type Err = String;

    fn from_str(text: &str) -> Result<ServiceText, String> {
        let refuse = || format!("{text:?}: write fixed=20ms, exponential=20ms or token=1ms");
        let (law, time) = text.split_once('=').ok_or_else(refuse)?;
        let time = time.parse::<Time>()?.0;
        Ok(ServiceText(match law {
            "fixed" => Service::Fixed(time),
            "exponential" => Service::Exponential(time),
            "token" => Service::Token(time),
            _ => return Err(refuse()),
        }))
    }
}

/// A pause as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// How long.
    pub long: Seconds,
    /// After the first request.
    pub after: Seconds,
}

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Pause, String> {
        let (long, after) =
            text.split_once('@').ok_or_else(|| format!("{text:?}: write 2s@10s"))?;
        Ok(Pause { long: long.parse::<Time>()?.0, after: after.parse::<Time>()?.0 })
    }
}

/// Serves until the process is ended.
///
/// # Errors
/// Where the address cannot be had.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let key = std::env::var("FIZEAU_API_KEY").ok().filter(|_| args.ask_for_key);
    if args.ask_for_key && key.is_none() {
        return Err(Usage("--ask-for-key: set FIZEAU_API_KEY to the key".into()).into());
    }
    let laws = Laws {
        slots: args.slots,
        service: args.service.0,
        seed: args.seed,
        chunk: args.chunk,
        piece: args.piece,
        faults: args.fault.clone(),
        pause: args.pause.map(|pause| (pause.after, pause.long)),
        texts: args.text.clone(),
        key,
        dialect: match args.tokenize {
            DialectName::Vllm => Some(Dialect::Vllm),
            DialectName::LlamaCpp => Some(Dialect::LlamaCpp),
            DialectName::None => None,
        },
    };
    let _ = crate::client::level::open_files_as_permitted();
    let address = SocketAddr::new(args.address, args.port);
    let server =
        Server::begin(address, laws).with_context(|| format!("cannot serve at {address}"))?;
    print(&server.url())?;
    loop {
        clock::rest(Seconds(3_600.0));
    }
}
