//! What comes before a load: the key, the client, a server that is ready, a request that is tried.

use super::{
    prepare::{Maker, PROBE, Sketch},
    send_args::SendArgs,
};
use crate::{
    client::{Client, Connections, Key},
    cmd::{
        exit::{Interrupted, Usage},
        output::{say, shown},
    },
};
use anyhow::{Context as _, bail};
use fizeau_device::clock;
use fizeau_domain::{text::clean, units::Seconds};
use fizeau_projection::load::{
    Ending,
    target::{Endpoint, Target},
};
use fizeau_record::file;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// The longest file of an API key.
const KEY_MAX: u64 = 64 << 10;

/// The longest file of certificates.
const CERTIFICATES_MAX: u64 = 16 << 20;

/// How often an end that the user asks for is looked for.
const LOOK: Seconds = Seconds(0.05);

/// The longest wait for one answer whether the server is ready.
const PATIENCE: Seconds = Seconds(10.0);

/// Between two questions whether a server is ready.
const ASK_EVERY: Seconds = Seconds(0.2);

/// How often the time that is left is said.
const SAY_EVERY: Seconds = Seconds(10.0);

/// The API key of the file or the variable.
pub fn key(args: &SendArgs) -> anyhow::Result<Option<Key>> {
    let text = match &args.api_key_file {
        Some(path) => {
            let text = file::read_text(path, KEY_MAX);
            Some((text.with_context(|| shown(path))?, shown(path)))
        }
        None => std::env::var("FIZEAU_API_KEY").ok().map(|text| (text, "FIZEAU_API_KEY".into())),
    };
    let key = |(text, from): (String, String)| {
        Key::new(&text).map_err(|why| Usage(format!("the API key of {from}: {why}")))
    };
    Ok(text.map(key).transpose()?)
}

/// The client of a server, with what the command line says of time-outs and certificates.
pub fn client(args: &SendArgs, target: Target, key: Option<Key>) -> anyhow::Result<Client> {
    let deadlines = args.deadlines.map(|one| one.0).unwrap_or_default();
    let authorities = match &args.ca {
        Some(path) => Some(file::read(path, CERTIFICATES_MAX).with_context(|| shown(path))?),
        None => None,
    };
    let client = Client::new(target, deadlines, key, authorities.as_deref());
    let mut client = client.map_err(|why| anyhow::anyhow!("{why}"))?;
    client.headers = args.headers()?;
    Ok(client)
}

/// Does what asks the server before the load. An end that the user asks for meanwhile gives up what
/// is under way on these connections.
///
/// # Errors
/// Those of the work, and [`Interrupted`].
pub fn before_load<T>(
    connections: &Connections,
    interrupted: &AtomicBool,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    /// Ends the watch also where the work panics.
    struct Over<'o>(&'o AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if interrupted.load(Ordering::Relaxed) {
                    return connections.shut_down();
                }
                clock::rest(LOOK);
            }
        });
        let _over = Over(&is_over);
        work()
    });
    match interrupted.load(Ordering::Relaxed) {
        true => Err(Interrupted.into()),
        false => done,
    }
}

/// Waits until the server answers; the names of its models, where it tells them.
///
/// # Errors
/// Where it does not in time, or refuses access; [`Interrupted`].
pub fn wait_until_ready(
    args: &SendArgs,
    client: &Client,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<String>> {
    // No question takes longer than the server may take altogether.
    let mut client = client.clone();
    let patience = Seconds(PATIENCE.0.min(args.ready.0.0));
    client.deadlines.connect = Seconds(client.deadlines.connect.0.min(patience.0));
    client.deadlines.silence = Seconds(client.deadlines.silence.0.min(patience.0));
    client.deadlines.request = patience;
    let connections = client.connections();
    before_load(&connections, interrupted, || {
        asked_until_ready(args, &client, &connections, interrupted)
    })
}

fn asked_until_ready(
    args: &SendArgs,
    client: &Client,
    connections: &Connections,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<String>> {
    let start = clock::now();
    let mut said: Option<Seconds> = None;
    loop {
        let why = match client.ask(connections, "/v1/models", None) {
            // Still loading its model, or a proxy before it that finds nobody.
            Ok((status @ (502..=504), _)) => format!("status {status}"),
            Ok((401 | 403, _)) => bail!(
                "the server refuses access: set FIZEAU_API_KEY or --api-key-file to a key that it \
                 knows"
            ),
            Ok((_, value)) => {
                let models = value["data"].as_array().cloned().unwrap_or_default();
                let names = models.iter().filter_map(|model| model["id"].as_str());
                return Ok(names.map(|name| clean(&client.harmless(name))).collect());
            }
            Err(why) => why,
        };
        if interrupted.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        if start.elapsed() > args.ready.0 {
            bail!("{} is not ready after {}: {why}", client.target, args.ready.0.human());
        }
        let waited = start.elapsed();
        if said.is_none_or(|before| waited.0 - before.0 >= SAY_EVERY.0) {
            let left = (args.ready.0.0 - waited.0).max(0.0);
            let left = Seconds(if left < 1.0 { left } else { left.round() }).human();
            say(&format!("waiting for {}, for {left} at most: {why}", client.target));
            said = Some(waited);
        }
        clock::rest(ASK_EVERY);
    }
}

/// The only model of a server.
pub fn only(models: &[String]) -> Result<String, Usage> {
    match models {
        [one] => Ok(one.clone()),
        [] => Err(Usage("the server does not tell its models: name one by --model".into())),
        several => {
            Err(Usage(format!("the server has several models: --model {}", several.join(" or "))))
        }
    }
}

/// Sends one request before the load: what is wrong with all of them, it tells at once.
pub fn probe(
    client: &Client,
    connections: &Connections,
    maker: &Maker<'_>,
    sketches: &[Sketch],
) -> anyhow::Result<()> {
    let first = sketches.iter().find_map(|sketch| sketch.lengths.first());
    let Some((input, output)) = first else { return Ok(()) };
    let lengths = [(*input, *output.min(&PROBE_TOKENS))];
    let made = maker.make(PROBE, &lengths, None, &mut |_| {})?;
    let Some(request) = made.requests.first() else { return Ok(()) };
    let row = fizeau_projection::load::Row::default();
    let outcome = client.exchange(connections, request, "fizeau-probe", clock::now(), row);
    match outcome.row.ending {
        Ending::Answered => {}
        // A load may be what a server needs to be tried with all the same.
        Ending::TooMany | Ending::ServerError => say(&format!(
            "the request before the load: {}",
            outcome.message.unwrap_or_else(|| outcome.row.ending.name().into())
        )),
        ending => {
            let message = outcome.message.unwrap_or_default();
            // A status without any words after it.
            let message = message.trim_end_matches([':', ' ']);
            let said = if message.is_empty() { String::new() } else { format!(": {message}") };
            let hint = outcome.row.status.filter(|status| *status == 404).map(|_| {
                let other = match maker.asked.endpoint {
                    Endpoint::Completions => Endpoint::Chat,
                    Endpoint::Chat => Endpoint::Completions,
                };
                let name = other.name();
                format!("; the server may offer the other interface: --endpoint {name}")
            });
            bail!(
                "the request before the load failed ({}{said}), so that no load was sent{}",
                ending.name(),
                hint.unwrap_or_default()
            )
        }
    }
    Ok(())
}

/// Tokens of the answer to the request before the load, at most.
const PROBE_TOKENS: u32 = 16;
