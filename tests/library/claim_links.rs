//! Claims about links: every figure of the catalogue as its vendor writes it, and figures that no
//! link reaches.

use super::claims::judged;
use fizeau::data::Catalogue;
use fizeau_domain::spec::{Reach, Wire};
use fizeau_projection::claim::{Answer, Claim, Verdict};

fn of(catalogue: &Catalogue, on: Option<&str>, value: String) -> (String, Verdict) {
    let claim = Claim { value, on: on.map(str::to_owned), ..Claim::default() };
    let verdict = judged(catalogue, &claim)
        .unwrap_or_else(|why| panic!("{:?} on {on:?}: {why}", claim.value));
    (format!("{:?} on {on:?}: {verdict:#?}", claim.value), verdict)
}

fn is_true(catalogue: &Catalogue, on: Option<&str>, value: String, named: &str) {
    let (text, verdict) = of(catalogue, on, value);
    assert_eq!(verdict.answer, Answer::Possible, "{text}");
    assert!(verdict.why.starts_with("true, as the stated "), "{text}");
    assert!(verdict.why.contains(named), "{named}: {text}");
}

/// A link as texts write it, and the words that its judgement must name.
fn written(wire: &Wire) -> (String, String) {
    match wire.reach {
        _ if wire.name.contains("C2C") => ("NVLink-C2C".into(), "C2C".into()),
        Some(Reach::Host) if wire.name.starts_with("xGMI") => {
            ("CPU-GPU link".into(), wire.name.clone())
        }
        Some(Reach::Network) => ("network".into(), "network".into()),
        Some(Reach::Peers) if wire.name.starts_with("UALoE") => ("UALoE".into(), "UALoE".into()),
        Some(Reach::Peers) if wire.name.contains('/') => ("xGMI".into(), "xGMI".into()),
        _ => match wire.name.strip_suffix(" 1") {
            Some(name) => (format!("first-generation {name}"), wire.name.clone()),
            None => (wire.name.clone(), wire.name.clone()),
        },
    }
}

#[test]
fn every_link_figure_of_a_parts_file_is_judged_against_that_link() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let (mut asked, mut refuted) = (0, 0);
    for part in catalogue.parts.iter().filter(|part| !part.is_host()) {
        for wire in &part.wires {
            let (name, named) = written(wire);
            let giga = |rate: f64| rate / 1e9;
            let on = Some(part.id.as_str());
            let mut figures = vec![
                format!("{name} {} GB/s one way", giga(wire.each_way)),
                format!("{name}: {} GB/s bidirectional", giga(wire.each_way * 2.0)),
                format!("{} GB/s of {name} in each direction", giga(wire.each_way)),
                format!("{name}, up to {} GB/s", giga(wire.each_way * 2.0)),
            ];
            if let Some(each) = wire.each_link {
                figures.push(format!("{name} {} GB/s per link one way", giga(each)));
                figures.push(format!("{} GB/s per {name} link", giga(each * 2.0)));
            }
            if wire.reach == Some(Reach::Network) {
                figures.push(format!("{name} {} Gb/s", giga(wire.each_way * 8.0)));
            }
            if let Some(domain) = wire.domain {
                let all = giga(wire.each_way * 2.0 * f64::from(domain));
                figures.push(format!("{all} GB/s {name} on {domain} GPUs"));
                figures.push(format!("{all} GB/s aggregate {name} bandwidth"));
            }
            for figure in figures {
                is_true(&catalogue, on, figure, &named);
                asked += 1;
            }
            // Rounded figures are within 5 %, and several rates of one link are told apart.
            let others = wire.others.iter().map(|(rate, _)| *rate);
            let most = others.fold(wire.each_way, f64::max);
            for value in [
                format!("{name} {:.3} GB/s one way", giga(most * 1.13)),
                format!("{name} {:.3} GB/s per GPU bidirectional", giga(most * 2.3)),
            ] {
                let (text, verdict) = of(&catalogue, on, value);
                // A slot that is named has its rate whichever part is in it.
                let is_known = wire.is_confirmed || name.starts_with("PCIe");
                let expected = if is_known { Answer::Impossible } else { Answer::Suspicious };
                assert_eq!(verdict.answer, expected, "{text}");
                refuted += 1;
            }
        }
    }
    assert!(asked > 500 && refuted > 200, "{asked} {refuted}");
}

/// Each file of `data/links` by the words that its maker uses.
const WRITTEN: [(&str, &str); 32] = [
    ("cx6", "ConnectX-6"),
    ("cx7", "ConnectX-7"),
    ("cx8", "ConnectX-8"),
    ("cx9", "ConnectX-9"),
    ("efa-p5", "EFA"),
    ("efa-p6-b300", "EFA"),
    ("ib-hdr-200", "InfiniBand HDR"),
    ("ib-ndr-400", "InfiniBand NDR"),
    ("ib-xdr-800", "XDR InfiniBand"),
    ("nvlink-c2c-gb200", "NVLink-C2C"),
    ("nvlink-c2c-gh200", "NVLink-C2C"),
    ("nvlink-c2c-rubin", "NVLink-C2C"),
    ("nvlink2-v100", "NVLink 2"),
    ("nvlink3-a100", "NVLink 3.0"),
    ("nvlink4-h100", "fourth-generation NVLink"),
    ("nvlink4-h800", "NVLink4"),
    ("nvlink5-blackwell", "NVLink 5"),
    ("nvlink6-rubin", "NVLink-6"),
    ("pcie3-x16", "PCIe 3.0 x16"),
    ("pcie4-x16", "PCIe Gen4 x16"),
    ("pcie5-x16", "PCI Express 5.0 x16"),
    ("pcie6-x16", "PCIe Gen 6 x16"),
    ("pollara400", "Pollara"),
    ("roce-400", "RoCE v2"),
    ("thor2", "Thor 2"),
    ("ualoe-mi455x", "UALoE"),
    ("vulcano800", "Vulcano"),
    ("xgmi-mi100", "xGMI"),
    ("xgmi-mi250x", "xGMI 2"),
    ("xgmi-mi250x-host", "Infinity Fabric"),
    ("xgmi-mi300x", "xGMI 3"),
    ("xgmi-mi355x", "xGMI 4"),
];

#[test]
fn every_file_of_links_is_judged_without_a_part() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    assert_eq!(catalogue.links.len(), WRITTEN.len());
    for (id, name) in WRITTEN {
        let file = catalogue.links.get(id).unwrap_or_else(|| panic!("no file {id}"));
        let raw = file.raw_gb_per_s_per_dir;
        let mut figures =
            vec![format!("{name} {raw} GB/s one way"), format!("{name} {} GB/s", raw * 2.0)];
        if let Some(bits) = file.gbit_per_s {
            figures.push(format!("{name} {bits} Gb/s"));
            figures.push(format!("{name} {bits} Gbps per port"));
        }
        if let Some(each) = file.gb_per_s_per_link_per_dir {
            figures.push(format!("{name} {} GB/s per link bidirectional", each * 2.0));
        }
        for figure in figures {
            is_true(&catalogue, None, figure, "");
        }
        if let Some(lane) = file.gt_per_s {
            let (text, verdict) = of(&catalogue, None, format!("{name} {lane} GT/s"));
            assert!(verdict.why.starts_with("true"), "{text}");
        }
    }
}

/// A rate that does not say what it is of is put beside everything that has its unit.
#[test]
fn a_rate_that_names_nothing_is_judged_against_all_of_its_unit() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let (text, verdict) = of(&catalogue, Some("gb200"), "1.8 TB/s".into());
    assert!(verdict.why.contains("true, as the stated NVLink 5"), "{text}");
    let (text, verdict) = of(&catalogue, Some("gb200"), "1.5 TB/s".into());
    for name in ["NVLink 5", "NVLink-C2C", "PCIe 5.0 x16", "network"] {
        let lines = verdict.arithmetic.iter().filter(|line| line.contains(name)).count();
        assert_eq!(lines, 1, "{name}: {text}");
    }
    assert!(verdict.missing.iter().any(|line| line.contains("what the figure is of")), "{text}");
    let (text, verdict) = of(&catalogue, None, "5 TB/s".into());
    assert_eq!(verdict.answer, Answer::CannotTell, "{text}");
    assert!(verdict.missing[0].contains("--on"), "{text}");
}
