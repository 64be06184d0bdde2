//! What the machine says of itself, what launchers say of ranks, and requests to `load serve`.

use super::{
    kinds::corpus_texts,
    mutate::{Chance, change_bytes, change_lines},
    served::harmless,
};
use fizeau::client::known::request;
use fizeau_device::{
    hip::metrics,
    host::{cpuinfo::CpuInfo, cpus::cpu_list},
};
use fizeau_domain::{
    launcher::{self, RANKS_MAX},
    node_state::faults,
    spec::Properties,
    text::clean,
};
use fizeau_record::identity::vital_product_data;
use std::{collections::BTreeMap, io::Read, sync::LazyLock};

/// Texts of the kernel: logs, `/proc/cpuinfo`, lists of CPUs, variables of launchers.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| corpus_texts("machine"));

/// What a machine says: a text of the kernel, a table of a driver, or a board's own data.
pub fn said(chance: &mut Chance) -> Vec<u8> {
    match chance.below(4) {
        0 => {
            // A table of AMD's driver: size, format and content revision, then sensors.
            let (content, size) =
                *chance.pick(&[(3u8, 120u16), (4, 288), (5, 360), (6, 1664), (7, 2208), (8, 3872)]);
            let mut bytes = vec![chance.below(256) as u8; usize::from(size)];
            bytes[..2].copy_from_slice(&size.to_le_bytes());
            (bytes[2], bytes[3]) = (1, content);
            for _ in 0..chance.below(9) {
                let at = chance.below(bytes.len());
                bytes[at] = chance.below(256) as u8;
            }
            bytes
        }
        1 => {
            let mut bytes = b"\x82\x05\0Board\x90\x14\0PN\x05PART1SN\x06SERIAL\x78".to_vec();
            change_bytes(&mut bytes, chance);
            bytes
        }
        _ => {
            let (text, other) = (chance.pick(&TEXTS).clone(), chance.pick(&TEXTS).clone());
            change_lines(&text, &other, chance).into()
        }
    }
}

/// Reads it by every reader of such texts and tables; whether one of them found anything.
pub fn read_said(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let found = faults(&text);
    found.iter().for_each(|one| harmless(&clean(&one.line)));
    let cpu = CpuInfo::parse(&text);
    cpu.describe(None, &mut Properties::default());
    let cpus: usize = text.lines().take(64).map(|line| cpu_list(line).len()).sum();
    let variables: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once('=')).collect();
    let world = launcher::world(|name| variables.get(name).map(|value| (*value).to_owned()));
    if let Ok(Some(world)) = &world {
        assert!(world.size.is_none_or(|size| size <= RANKS_MAX && world.rank < size), "{world:?}");
    }
    let board = vital_product_data(input);
    let has_board = board.iter().any(Option::is_some);
    let is_table = metrics::read(input).is_some();
    !found.is_empty() || cpus > 0 || matches!(world, Ok(Some(_))) || has_board || is_table
}

/// Requests of clients.
pub fn requests(chance: &mut Chance) -> Vec<u8> {
    const BODY: &str = r#"{"model":"m","prompt":"a b c","max_tokens":5,"stream":true}"#;
    let mut all = Vec::new();
    for number in 0..1 + chance.below(3) {
        let stated = match chance.below(8) {
            0 => chance.below(1 << 40),
            1 => 0,
            _ => BODY.len(),
        };
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\
             X-Request-Id: fizeau-0-{number}\r\nContent-Length: {stated}\r\n\r\n"
        );
        let head = if chance.one_in(3) { change_lines(&head, &head, chance) } else { head };
        all.extend(head.into_bytes());
        all.extend(BODY.bytes());
    }
    if chance.one_in(3) {
        change_bytes(&mut all, chance);
    }
    all
}

/// Reads requests until the connection ends.
pub fn read_requests(input: &[u8]) -> bool {
    /// A connection that has a few bytes ready at a time.
    struct InPieces<'b>(&'b [u8]);
    impl Read for InPieces<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            let most = bytes.len().min(61);
            self.0.read(&mut bytes[..most])
        }
    }
    let (mut stream, mut rest, mut count) = (InPieces(input), Vec::new(), 0);
    while let Ok(Some(request)) = request::read(&mut stream, &mut rest) {
        assert!(request.body.len() <= input.len());
        count += 1;
        assert!(count <= input.len(), "requests without an end");
    }
    count > 0
}
