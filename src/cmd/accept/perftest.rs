//! The bandwidth of each network interface by perftest's `ib_write_bw`, where it is installed: a
//! server and a client on this node, started and read by us.

use crate::cmd::output;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{node_state::NodeState, text::counted, units::Seconds};
use fizeau_judge::accept::{
    Judged,
    network::{self, Network, Rate, Told},
};
use std::{
    io::Read as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// The program of perftest.
const PROGRAM: &str = "ib_write_bw";

/// How long one pair writes.
const SECONDS: &str = "3";

/// After this a pair has failed: what it writes for, and as long as a server may need to answer.
const DEADLINE: Seconds = Seconds(20.0);

/// How long a client waits for its server to listen, and how often it is tried.
const STARTS: Seconds = Seconds(0.1);
const TRIES: usize = 20;

/// The first port of TCP by which a pair meets; each has one of its own.
const MEETING: usize = 18_515;

/// Most of what it prints that is read, in bytes.
const SAID_MAX: u64 = 64 << 10;

/// What was measured of the network.
#[derive(Default)]
pub struct Found {
    /// A verdict on each port.
    pub judged: Vec<Judged>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// What the decision was told, where anything was measured.
    pub told: Option<Told>,
}

/// Measures the ports that are up, until each is decided or there is no time.
pub fn measure(state: &NodeState, is_over: impl Fn() -> bool) -> Found {
    let ports = network::ports(state);
    if ports.is_empty() {
        return Found::default();
    }
    let Some(program) = installed() else {
        let words = format!("the network's bandwidth was not measured: no {PROGRAM} on PATH");
        return Found { notes: vec![words], ..Found::default() };
    };
    let names: Vec<String> = ports.iter().map(|port| port.name.clone()).collect();
    let mut network = Network::new(ports);
    loop {
        let wanted = network.wanted();
        if wanted.is_empty() {
            break;
        }
        if is_over() {
            network.end();
            break;
        }
        output::say(&format!("network: {} of ports", counted(wanted.len(), "pair")));
        // One after the other: pairs share ports.
        let rate = |pair: [usize; 2]| {
            let [from, to] = pair.map(|at| names[at].as_str());
            (pair, one_pair(&program, from, to, MEETING + pair[0]))
        };
        let round: Vec<Rate> = wanted.into_iter().map(rate).collect();
        network.take(&round);
    }
    let told = Some(network.told().clone());
    Found { judged: network.judged(), notes: Vec::new(), told }
}

/// The program, where a folder of `PATH` has it.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

/// The rate from one port to another in Gbit/s.
fn one_pair(program: &PathBuf, from: &str, to: &str, meeting: usize) -> Result<f64, String> {
    let mut server = start(program, to, meeting, None)?;
    let mut why = String::new();
    for _ in 0..TRIES {
        clock::rest(STARTS);
        let client = start(program, from, meeting, Some("localhost"));
        match client.and_then(|client| said(client, clock::now())) {
            Ok(text) => {
                // It ends with its client; what it says is the same.
                let _ = said(server, clock::now());
                return network::parse(&text);
            }
            Err(words) => why = words,
        }
        // A server that has ended will not be reached by another try.
        if !matches!(server.try_wait(), Ok(None)) {
            break;
        }
    }
    let _ = server.kill();
    let told = said(server, clock::now()).err().unwrap_or_default();
    Err(format!("{PROGRAM} from {from} to {to}: {why} {told}").trim_end().to_owned())
}

/// Starts one side: the server, or the client of a host.
fn start(
    program: &PathBuf,
    port: &str,
    meeting: usize,
    host: Option<&str>,
) -> Result<Child, String> {
    let (device, number) = port.split_once('/').unwrap_or((port, "1"));
    let mut command = Command::new(program);
    command.args(["-d", device, "-i", number, "-D", SECONDS, "--report_gbits", "-F"]);
    command.args(["-p", &meeting.to_string()]).args(host);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start {PROGRAM}: {error}"))
}

/// What a process printed, once it has ended in order.
fn said(mut child: Child, began: Moment) -> Result<String, String> {
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() > DEADLINE => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no end within {DEADLINE}"));
            }
            Ok(None) => clock::rest(Seconds(0.02)),
            Err(error) => return Err(format!("cannot wait for {PROGRAM}: {error}")),
        }
    };
    let read = |stream: Option<&mut dyn std::io::Read>| {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What cannot be read is not there.
            let _ = stream.take(SAID_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let out = read(child.stdout.as_mut().map(|out| out as &mut dyn std::io::Read));
    if status.success() {
        return Ok(out);
    }
    let err = read(child.stderr.as_mut().map(|err| err as &mut dyn std::io::Read));
    let last = err.lines().chain(out.lines()).rfind(|line| !line.trim().is_empty());
    Err(format!("{status}: {}", last.unwrap_or("it said nothing").trim()))
}
