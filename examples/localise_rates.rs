//! How often `fizeau localise` is right, by simulation: prints the tables of
//! docs/appendix/localise-rates.md, and fails if a rate is beyond its limit (from 50 runs on).
//! `localise_rates [RUNS] [WORDS]` takes 200 runs of each row unless told otherwise, and only of
//! the tables whose titles have these words; every run has a seed of its own, the same each time.

use fizeau_judge::localise::power::{Fault, rounds_needed};

#[path = "../tests/fabric/mod.rs"]
mod fabric;
#[expect(dead_code, reason = "what sessions have in common is for judges of fleets")]
#[path = "../tests/zoo/mod.rs"]
mod zoo;

use fabric::{Fabric, SlowComponent, Topology, tally};
use zoo::NOISES;

/// With fewer runs limits are not judged: one run alone would break some of them.
const RUNS_MIN: u32 = 50;

/// Worlds from this many ranks on are played less often, by this factor: one run takes seconds.
const LARGE: u32 = 512;
const RUNS_OF_LARGE: u32 = 4;

/// Sizes of the worlds with faults.
const SIZES: [u32; 3] = [8, 64, 256];

/// What a row has to keep to; a rate that has no limit is only shown.
#[derive(Clone, Copy, Default)]
struct Limits {
    recall: Option<f64>,
    /// Wrong names in a run.
    wrong: Option<f64>,
    /// Share of runs in which somebody is named, nobody is, it cannot be told.
    somebody: Option<f64>,
    nobody: Option<f64>,
    undecided: Option<f64>,
    /// Share of runs in which the planted link or group is named.
    structure: Option<f64>,
}

/// The tables as they are printed, and the rows that break a limit.
struct Tables {
    runs: u32,
    broken: Vec<String>,
    /// Tables whose titles have these words are made.
    words: String,
    is_made: bool,
}

impl Tables {
    fn begin(&mut self, title: &str, says: &str) {
        self.is_made = title.contains(&self.words);
        if !self.is_made {
            return;
        }
        println!("\n## {title}\n\n{says}\n");
        println!(
            "| world | ranks | rounds | rounds used | recall | wrong names a run | somebody | \
             nobody | cannot tell | link or group | |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
    }

    fn row(
        &mut self,
        world: &str,
        [ranks, rounds]: [u32; 2],
        limits: Limits,
        fabric: impl Fn(&mut oorandom::Rand64) -> Fabric + Sync,
    ) {
        if !self.is_made {
            return;
        }
        // Rows differ in their seeds, and a row keeps its own whatever is added elsewhere.
        let name = format!("{world} {ranks} {rounds}");
        let seed = name.bytes().fold(1u64, |seed, byte| (seed * 31 + u64::from(byte)) % 65_521);
        let runs = if ranks < LARGE { self.runs } else { self.runs.div_ceil(RUNS_OF_LARGE) };
        let tally = tally(runs, seed, rounds, fabric);
        let all = f64::from(tally.runs);
        let share = |count: u32| f64::from(count) / all;
        let recall = f64::from(tally.found) / f64::from(tally.planted.max(1));
        let structure = share(tally.links + tally.groups + tally.components);
        let values = [
            (recall, limits.recall, true),
            (share(tally.wrong), limits.wrong, false),
            (share(tally.somebody), limits.somebody, false),
            (share(tally.nobody), limits.nobody, false),
            (share(tally.undecided), limits.undecided, false),
            (structure, limits.structure, true),
        ];
        let kept = values.iter().all(|(value, limit, least)| {
            limit.is_none_or(|limit| if *least { *value >= limit } else { *value <= limit })
        });
        let any = runs >= RUNS_MIN && values.iter().any(|(_, limit, _)| limit.is_some());
        let mark = match (any, kept) {
            (false, _) => "",
            (true, true) => "within limits",
            (true, false) => "**beyond a limit**",
        };
        if any && !kept {
            self.broken.push(name);
        }
        let has_slow = tally.planted > 0;
        let recall = if has_slow { format!("{recall:.3}") } else { String::new() };
        let [_, wrong, somebody, nobody, undecided, _] = values.map(|(value, ..)| value);
        let of_structure =
            if limits.structure.is_some() { format!("{structure:.3}") } else { String::new() };
        println!(
            "| {world} | {ranks} | {rounds} | {:.1} | {recall} | {wrong:.3} | {somebody:.3} | \
             {nobody:.3} | {undecided:.3} | {of_structure} | {mark} |",
            share(tally.rounds)
        );
    }
}

/// A few slow ranks: one of up to 32, else one in 32.
fn few(ranks: u32) -> usize {
    (ranks as usize / 32).max(1)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn constant(tables: &mut Tables) {
    tables.begin(
        "Ranks that are always slow",
        "One slow rank of 8, one in 32 of more. Limits: recall 0.90 by 4 rounds, 0.95 by 10 and \
         more; 0.1 wrong names a run; \"cannot tell\" in 10 % of runs.",
    );
    let worlds = [(0.01, 0.8), (0.05, 0.8), (0.05, 0.5)].map(|world| (world, [4, 10]));
    for ((jitter, rate), rounds) in worlds.into_iter().chain([((0.1, 0.8), [10, 16])]) {
        for ranks in SIZES {
            for rounds in rounds {
                let recall = Some(if rounds < 10 { 0.9 } else { 0.95 });
                let (wrong, undecided) = (Some(0.1), Some(0.1));
                let limits = Limits { recall, wrong, undecided, ..Limits::default() };
                let world = format!("at {}, jitter {}", percent(rate), percent(jitter));
                tables.row(&world, [ranks, rounds], limits, |random| {
                    Fabric::healthy(ranks, jitter).with_slow(few(ranks), rate, random)
                });
            }
        }
    }
}

fn intermittent(tables: &mut Tables) {
    tables.begin(
        "Ranks that are slow in half of their exchanges",
        "As above, by 16 rounds. Limits: recall 0.90, 0.1 wrong names a run.",
    );
    for (jitter, rate) in [(0.05, 0.8), (0.05, 0.5), (0.1, 0.5)] {
        for ranks in SIZES {
            let limits = Limits {
                recall: Some(0.9),
                wrong: Some(0.1),
                undecided: Some(0.1),
                ..Limits::default()
            };
            let world = format!("at {}, jitter {}", percent(rate), percent(jitter));
            tables.row(&world, [ranks, 16], limits, |random| Fabric {
                presence: 0.5,
                ..Fabric::healthy(ranks, jitter).with_slow(few(ranks), rate, random)
            });
        }
    }
}

fn many(tables: &mut Tables) {
    tables.begin(
        "A quarter of all ranks slow, and more",
        "Limits for a quarter: recall 0.90, 0.1 wrong names a run, \"cannot tell\" in 10 % of \
         runs. Where two fifths are slow five exchanges of eight are, and no median of rates says \
         what is healthy.",
    );
    let worlds =
        [(0.25, 0.5, [4, 10], true), (0.25, 0.8, [10, 16], true), (0.4, 0.5, [10, 16], false)];
    for (share, rate, rounds, limited) in worlds {
        for ranks in SIZES {
            for rounds in rounds {
                let limits = Limits {
                    recall: Some(0.9),
                    wrong: Some(0.1),
                    undecided: Some(0.1),
                    ..Limits::default()
                };
                let limits = if limited { limits } else { Limits::default() };
                let world =
                    format!("{} of ranks at {}, jitter 10 %", percent(share), percent(rate));
                let count = (f64::from(ranks) * share) as usize;
                tables.row(&world, [ranks, rounds], limits, |random| {
                    Fabric::healthy(ranks, 0.1).with_slow(count, rate, random)
                });
            }
        }
    }
}

fn most(tables: &mut Tables) {
    tables.begin(
        "Half of all ranks slow, and more",
        "Jitter 5 %, 10 rounds. Limits: \"nobody is slow\" in 5 % of runs, 0.1 wrong names a run. \
         Of 8 ranks with two healthy ones a single pair is fast; it meets once or twice in 10 \
         rounds, and again on doubt. Where all ranks but one are slow no exchange is fast, and no \
         rates can tell that: shown without limits.",
    );
    let limits = Limits { nobody: Some(0.05), wrong: Some(0.1), ..Limits::default() };
    for (share, rate) in [(0.5, 0.5), (0.625, 0.5), (0.75, 0.5), (0.5, 0.8), (0.625, 0.8)] {
        for ranks in [8, 16, 64] {
            let world = format!("{:.1} % of ranks at {}", share * 100.0, percent(rate));
            let count = (f64::from(ranks) * share) as usize;
            tables.row(&world, [ranks, 10], limits, |random| {
                Fabric::healthy(ranks, 0.05).with_slow(count, rate, random)
            });
        }
    }
    for hosts in [1, 2] {
        let world = format!("{hosts} of 4 hosts with a slow uplink, at 50 %");
        tables.row(&world, [32, 10], limits, |_| Fabric {
            hosts: (0..32).map(|rank| rank / 8).collect(),
            near: 8.0,
            slow_hosts: Some((1..1 + hosts, 0.5)),
            ..Fabric::healthy(32, 0.05)
        });
    }
    for ranks in [8, 64] {
        tables.row("all ranks but one at 50 %", [ranks, 10], Limits::default(), |random| {
            Fabric::healthy(ranks, 0.05).with_slow(ranks as usize - 1, 0.5, random)
        });
    }
}

fn smallest(tables: &mut Tables) {
    tables.begin(
        "A rank that is slower by three times the jitter",
        "Limits: \"nobody is slow\" in 5 % of runs, \"cannot tell\" in 10 %, 0.1 wrong names.",
    );
    for jitter in [0.01, 0.05, 0.1] {
        for ranks in SIZES {
            let limits = Limits {
                nobody: Some(0.05),
                wrong: Some(0.1),
                undecided: Some(0.1),
                ..Limits::default()
            };
            let world = format!("jitter {}", percent(jitter));
            tables.row(&world, [ranks, 4], limits, |random| {
                Fabric::healthy(ranks, jitter).with_slow(1, 1.0 - 3.0 * jitter, random)
            });
        }
    }
}

fn read(tables: &mut Tables) {
    tables.begin(
        "Rates that are read from a file",
        "As `localise --from` judges them: no round follows on doubt. Jitter 5 %; one rank is slow \
         in all of its exchanges, or none is. Limits: \"nobody is slow\" beside a slow rank in 5 % \
         of runs, 0.1 wrong names; somebody in a healthy world in 2 %. After one round a rank is \
         known with one partner alone, and the answer is \"cannot tell\".",
    );
    for ranks in SIZES {
        for rounds in 1..=4 {
            for (world, rate) in [("at 50 %", 0.5), ("three times the jitter", 0.85)] {
                let limits = Limits { nobody: Some(0.05), wrong: Some(0.1), ..Limits::default() };
                tables.row(&format!("{world}, from a file"), [ranks, rounds], limits, |random| {
                    Fabric::healthy(ranks, 0.05).with_slow(1, rate, random).read_back()
                });
            }
            let limits = Limits { somebody: Some(0.02), ..Limits::default() };
            tables.row("healthy, from a file", [ranks, rounds], limits, |_| {
                Fabric::healthy(ranks, 0.05).read_back()
            });
        }
    }
}

fn healthy(tables: &mut Tables) {
    tables.begin(
        "Healthy worlds",
        "Limits: somebody is named in 2 % of runs, \"cannot tell\" in none. Ranks that differ by \
         more than their rates scatter have no limit of \"cannot tell\": one that is near the \
         least effect of 2 % is neither slow nor well.",
    );
    for jitter in [0.01, 0.05, 0.1] {
        for ranks in [8, 16, 32, 64, 128, 256, 512, 1024] {
            let limits = Limits { somebody: Some(0.02), undecided: Some(0.0), ..Limits::default() };
            let world = format!("jitter {}", percent(jitter));
            tables.row(&world, [ranks, 4], limits, |_| Fabric::healthy(ranks, jitter));
        }
    }
    for ranks in [8, 64, 256] {
        let limits = Limits { somebody: Some(0.02), ..Limits::default() };
        tables.row("jitter 0.3 %, ranks differ by 0.5 %", [ranks, 4], limits, |_| Fabric {
            differ: 0.005,
            ..Fabric::healthy(ranks, 0.003)
        });
    }
    // A rank of a hundred is slower by more than the least effect.
    tables.row("jitter 0.3 %, ranks differ by 1 %", [64, 4], Limits::default(), |_| Fabric {
        differ: 0.01,
        ..Fabric::healthy(64, 0.003)
    });
}

fn structures(tables: &mut Tables) {
    tables.begin(
        "Links, switches and hosts",
        "One link at half rate, also where congestion slows other exchanges; one leaf switch, an \
         eighth of all ranks in a fat tree, of which exchanges leave at 60 %; one host of 8 ranks \
         at 60 %, where exchanges within a host are 8 times as fast; one slow rank at 70 % in such \
         a world. Jitter 5 %. Limits: the link or group is named in 95 % of runs, 0.1 wrong names \
         a run; with congestion and no slow link somebody in 5 % of runs, since each pair meets \
         three times and congestion may meet a pair each time.",
    );
    let kept = Limits { wrong: Some(0.1), structure: Some(0.95), ..Limits::default() };
    for ranks in [16, 64, 256] {
        tables.row("slow link", [ranks, 4], kept, |random| {
            let one = random.rand_range(0..u64::from(ranks)) as u32;
            let other = (one + 1 + random.rand_range(0..u64::from(ranks) - 1) as u32) % ranks;
            // Two that meet in the planned rounds; others never see each other.
            let met = (0..4).flat_map(|round| fizeau_judge::localise::plan::round(ranks, round));
            let mut met =
                met.filter(|pair| [pair.0, pair.1].iter().any(|rank| [one, other].contains(rank)));
            let (a, b) = met.next().unwrap_or((one, other));
            Fabric { links: vec![((a.min(b), a.max(b)), 0.5)], ..Fabric::healthy(ranks, 0.05) }
        });
    }
    for (ranks, rounds, congestion) in [(8, 21, 0.02), (16, 45, 0.01), (16, 45, 0.03)] {
        let world = format!("slow link, congestion {}", percent(congestion));
        tables.row(&world, [ranks, rounds], kept, |random| {
            let one = random.rand_range(0..u64::from(ranks)) as u32;
            let other = (one + 1 + random.rand_range(0..u64::from(ranks) - 1) as u32) % ranks;
            let links = vec![((one.min(other), one.max(other)), 0.5)];
            Fabric { links, congestion, ..Fabric::healthy(ranks, 0.05) }
        });
        let limits = Limits { somebody: Some(0.05), undecided: Some(0.02), ..Limits::default() };
        let world = format!("no link, congestion {}", percent(congestion));
        tables.row(&world, [ranks, rounds], limits, |_| Fabric {
            congestion,
            ..Fabric::healthy(ranks, 0.05)
        });
    }
    for ranks in [64, 256] {
        tables.row("congested leaf", [ranks, 4], kept, |random| {
            let size = ranks / 8;
            let first = size * random.rand_range(0..8) as u32;
            Fabric { leaf: Some((first..first + size, 0.6)), ..Fabric::healthy(ranks, 0.05) }
        });
    }
    let hosts = |ranks: u32| Fabric {
        hosts: (0..ranks).map(|rank| rank / 8).collect(),
        near: 8.0,
        ..Fabric::healthy(ranks, 0.05)
    };
    for ranks in [64, 256] {
        tables.row("slow host", [ranks, 4], kept, |random| {
            let first = 8 * random.rand_range(0..u64::from(ranks) / 8) as u32;
            Fabric { leaf: Some((first..first + 8, 0.6)), ..hosts(ranks) }
        });
        let limits = Limits { recall: Some(0.9), wrong: Some(0.1), ..Limits::default() };
        tables.row("slow rank among hosts", [ranks, 4], limits, |random| {
            hosts(ranks).with_slow(1, 0.7, random)
        });
        let limits = Limits { somebody: Some(0.02), undecided: Some(0.0), ..Limits::default() };
        tables.row("healthy hosts", [ranks, 4], limits, |_| hosts(ranks));
    }
}

/// Networks whose components are known by name.
fn components(tables: &mut Tables) {
    tables.begin(
        "Leaves, rails and paths that --labels names",
        "Leaves of 16 ranks that follow each other and 8 rails, jitter 5 %. An uplink slows what \
         leaves a leaf, a rail all that its ranks take part in, a path what is between two leaves. \
         *Apart*: one exchange at most leaves each leaf in a round (`--apart leaf`). Limits: the \
         component or path is named in 95 % of runs, 0.1 other names a run; of healthy networks \
         somebody in 2 % of runs, \"cannot tell\" in none.",
    );
    let kept = Limits { wrong: Some(0.1), structure: Some(0.95), ..Limits::default() };
    let named = |ranks| Fabric {
        kinds: fabric::leaves_and_rails(ranks, 16, 8),
        ..Fabric::healthy(ranks, 0.05)
    };
    let some =
        |random: &mut oorandom::Rand64, count: u32| random.rand_range(0..u64::from(count)) as u32;
    for ranks in [64, 256, 1024] {
        let leaves = ranks / 16;
        for rate in [0.8, 0.5] {
            let world = format!("leaf at {}", percent(rate));
            tables.row(&world, [ranks, 4], kept, |random| Fabric {
                slow_component: Some(SlowComponent::Uplink(0, some(random, leaves), rate)),
                ..named(ranks)
            });
            let world = format!("rail at {}", percent(rate));
            tables.row(&world, [ranks, 4], kept, |random| Fabric {
                slow_component: Some(SlowComponent::Whole(1, some(random, 8), rate)),
                ..named(ranks)
            });
        }
        // Of 2,016 paths one is met every fourth round.
        let rounds = if ranks > 256 { 16 } else { 8 };
        tables.row("path at 50 %", [ranks, rounds], kept, |random| {
            let one = some(random, leaves);
            let other = (one + 1 + some(random, leaves - 1)) % leaves;
            let ends = [one.min(other), one.max(other)];
            let slow_component = Some(SlowComponent::Path(0, ends, 0.5));
            Fabric { slow_component, ..named(ranks) }
        });
        tables.row("leaf at 50 %, apart", [ranks, 8], kept, |random| Fabric {
            slow_component: Some(SlowComponent::Uplink(0, some(random, leaves), 0.5)),
            apart: Some(0),
            ..named(ranks)
        });
        let limits = Limits { somebody: Some(0.02), undecided: Some(0.0), ..Limits::default() };
        tables.row("healthy, named components", [ranks, 4], limits, |_| named(ranks));
        tables.row("healthy, apart", [ranks, 8], limits, |_| Fabric {
            apart: Some(0),
            ..named(ranks)
        });
        let congested = Limits { somebody: Some(0.05), ..Limits::default() };
        tables.row("healthy, congestion 1 %", [ranks, 8], congested, |_| Fabric {
            congestion: 0.01,
            ..named(ranks)
        });
    }
}

/// Rounds that a fault is said to need, and what they find.
fn needed(tables: &mut Tables) {
    tables.begin(
        "Rounds that a fault needs",
        "One slow rank of 64, by the number of rounds that `localise` says it needs for 95 %. \
         Limit: recall 0.90.",
    );
    for jitter in [0.02, 0.05, 0.1] {
        for (loss, presence) in
            [(0.5, 1.0), (0.2, 1.0), (0.1, 1.0), (0.5, 0.5), (0.2, 0.5), (0.5, 0.25)]
        {
            let world = format!(
                "slower by {} in {} of exchanges, jitter {}",
                percent(loss),
                percent(presence),
                percent(jitter)
            );
            let Some(rounds) = rounds_needed(64, jitter, Fault { loss, presence }) else {
                if !tables.is_made {
                    continue;
                }
                println!("| {world} | 64 | more than 100 | | | | | | | | |");
                continue;
            };
            let limits = Limits { recall: Some(0.9), wrong: Some(0.1), ..Limits::default() };
            tables.row(&world, [64, rounds], limits, |random| Fabric {
                presence,
                ..Fabric::healthy(64, jitter).with_slow(1, 1.0 - loss, random)
            });
        }
    }
}

fn beyond(tables: &mut Tables) {
    tables.begin(
        "Where it reaches its end",
        "Shown without limits: congestion that slows 1 % of exchanges; ranks that differ by 2 % \
         though none has a fault; intermittent faults with too few rounds.",
    );
    for ranks in SIZES {
        let congested =
            |ranks, jitter| Fabric { congestion: 0.01, ..Fabric::healthy(ranks, jitter) };
        let none = Limits::default();
        tables.row("congestion, jitter 2 %", [ranks, 4], none, |_| congested(ranks, 0.02));
        tables.row("congestion, slow ranks at 70 %, jitter 2 %", [ranks, 4], none, |random| {
            congested(ranks, 0.02).with_slow(few(ranks), 0.7, random)
        });
        for jitter in [0.005, 0.02] {
            let world = format!("ranks differ by 2 %, jitter {:.1} %", jitter * 100.0);
            tables.row(&world, [ranks, 4], none, |_| Fabric {
                differ: 0.02,
                ..Fabric::healthy(ranks, jitter)
            });
        }
        for (rate, jitter, rounds) in [(0.5, 0.05, 4), (0.8, 0.05, 4), (0.8, 0.1, 16)] {
            let world = format!("half-time at {}, jitter {}", percent(rate), percent(jitter));
            tables.row(&world, [ranks, rounds], none, |random| Fabric {
                presence: 0.5,
                ..Fabric::healthy(ranks, jitter).with_slow(few(ranks), rate, random)
            });
        }
    }
}

/// Scale of each noise: its standard deviation, were it normal.
const SCALES: [f64; 3] = [0.01, 0.02, 0.05];

/// Noises that are no normal one.
fn zoo(tables: &mut Tables) {
    tables.begin(
        "A zoo of noises",
        "10 rounds. Rates scatter as tests/zoo/mod.rs draws times; *detours* slow a quarter of the \
         exchanges by 8 %, *congestion* a tenth to anything from 10 % to 90 %. Half of the rows \
         have one rank at 80 %, the others nobody. Limits: 0.1 wrong names a run, recall 0.95.",
    );
    let nobody = Limits { wrong: Some(0.1), ..Limits::default() };
    let one = Limits { wrong: Some(0.1), recall: Some(0.95), ..Limits::default() };
    for ranks in [8, 64, 512] {
        let noises = NOISES.into_iter().flat_map(|noise| SCALES.map(|scale| (noise, scale)));
        let noises = noises.map(|(noise, scale)| {
            let world = format!("{noise:?}, {}", percent(scale));
            (world, Fabric { noise, ..Fabric::healthy(ranks, scale) })
        });
        let healthy = Fabric::healthy(ranks, 0.01);
        let others = [
            ("detours", Fabric { detour: (0.25, 0.92), ..healthy.clone() }),
            ("congestion", Fabric { congestion: 0.1, ..healthy }),
        ];
        let others = others.map(|(world, fabric)| (format!("{world}, 1 %"), fabric));
        for (world, fabric) in noises.chain(others) {
            tables.row(&format!("{world}: nobody"), [ranks, 10], nobody, |_| fabric.clone());
            tables.row(&format!("{world}: one at 80 %"), [ranks, 10], one, |random| {
                fabric.clone().with_slow(1, 0.8, random)
            });
        }
    }
}

/// Machines whose ranks are in groups.
fn groups(tables: &mut Tables) {
    tables.begin(
        "Groups behind switches, from a file",
        "One rate for each meeting of two ranks and nothing else, as tools that measure all pairs \
         print. *Drawn*: 4 to 16 ranks in 2 to 4 groups. Limits: somebody in 0.5 % of healthy \
         runs; with a rank at 80 % a recall of 0.90 by two meetings.",
    );
    let kept = Limits { somebody: Some(0.005), ..Limits::default() };
    let found = Limits { recall: Some(0.9), wrong: Some(0.1), ..Limits::default() };
    let shapes: [&[usize]; 6] = [&[3, 2], &[4, 4], &[5, 3], &[4; 3], &[4; 4], &[6, 4, 3, 2]];
    for meetings in 1..=3 {
        for sizes in shapes {
            for (what, within, across) in [("within", 1.0, 0.6), ("across", 0.6, 1.0)] {
                let topology = Topology::new(sizes, within, across);
                let fabric = Fabric::grouped(topology, 0.01, meetings);
                let ranks = fabric.hosts.len() as u32;
                let rounds = [ranks, (ranks - 1 + ranks % 2) * meetings];
                let world = format!("groups of {sizes:?}, faster {what}");
                tables.row(&world, rounds, kept, |_| fabric.clone());
                if sizes.len() == 2 && ranks < 8 {
                    continue;
                }
                let found = if meetings < 2 { Limits { recall: None, ..found } } else { found };
                let world = format!("{world}, one at 80 %");
                tables
                    .row(&world, rounds, found, |random| fabric.clone().with_slow(1, 0.8, random));
            }
        }
    }
    for meetings in 1..=3 {
        for jitter in [0.005, 0.01, 0.02, 0.03] {
            let times = if meetings > 1 { format!("{meetings} times") } else { "once".into() };
            let world = format!("drawn, jitter {:.1} %, met {times}", jitter * 100.0);
            tables.row(&world, [16, 15 * meetings], kept, |random| {
                Fabric::grouped(Topology::drawn(random), jitter, meetings)
            });
        }
    }
}

fn main() {
    let runs = std::env::args().nth(1).map_or(Ok(200u32), |runs| runs.parse());
    let words = std::env::args().nth(2).unwrap_or_default();
    let Ok(runs) = runs else {
        eprintln!("usage: localise_rates [RUNS] [WORDS]");
        std::process::exit(2);
    };
    println!("# How often `fizeau localise` is right\n");
    println!(
        "Simulated, {runs} runs of each row and {} of rows of {LARGE} ranks and more, by `cargo \
         run --release --example localise_rates`. A pair's rate is that of its slower rank or \
         link, times a normal number of mean 1 whose standard deviation is the jitter. *Rounds* \
         are the planned ones; *rounds used* is their mean with those that followed on doubt. \
         *Recall* is the share of slow ranks that were named; a wrong name is a healthy rank, link \
         or group. *Somebody*, *nobody* and *cannot tell* are shares of runs. No row has been \
         measured on a machine.",
        runs.div_ceil(RUNS_OF_LARGE)
    );
    let mut tables = Tables { runs, broken: Vec::new(), words, is_made: true };
    constant(&mut tables);
    intermittent(&mut tables);
    many(&mut tables);
    most(&mut tables);
    smallest(&mut tables);
    read(&mut tables);
    healthy(&mut tables);
    structures(&mut tables);
    components(&mut tables);
    needed(&mut tables);
    beyond(&mut tables);
    zoo(&mut tables);
    groups(&mut tables);
    if !tables.broken.is_empty() {
        eprintln!("beyond their limits: {}", tables.broken.join("; "));
        std::process::exit(1);
    }
}
