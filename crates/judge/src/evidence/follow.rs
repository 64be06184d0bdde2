//! Whether a verdict follows from a bundle's records: all is decided again, by the same code.

use super::account::{Account, Group};
use crate::accept::{
    Action, Judged, Level, between, changes, history, network, node::Sample, profile::Profile,
};
use fizeau_domain::{node_state::NodeState, verdict::Verdict};
use fizeau_record::Record;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What was decided again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// Checks that came out as the verdict has them.
    pub same: usize,
    /// Checks of the verdict that bundles have no records of.
    pub others: usize,
}

/// What a verdict was made of.
pub struct Sources<'s> {
    /// What was done.
    pub account: &'s Account,
    /// The profiles, by their files.
    pub profiles: &'s BTreeMap<String, Profile>,
    /// The node at rest, before anything was measured.
    pub state: &'s NodeState,
    /// The node at rest, after everything was measured.
    pub after: &'s NodeState,
    /// The records, by the names of their runs.
    pub records: &'s BTreeMap<String, Record>,
}

/// How far two computations of one number may be apart, as a share: another C library may round
/// logarithms differently.
const ROUNDING: f64 = 1e-9;

/// Decides again, and sets what comes out beside `verdict`, the JSON of the verdict's file.
///
/// # Errors
/// In words: the first check, or the first of the node's own words, that does not follow.
pub fn follow(sources: &Sources<'_>, verdict: &Value) -> Result<Again, String> {
    let listed = verdict["checks"].as_array().ok_or("it has no list of checks")?;
    let mut left: Vec<&Value> = listed.iter().collect();
    let mut same = 0;
    for judged in decided(sources)? {
        let own = serde_json::to_value(&judged).map_err(|error| error.to_string())?;
        match left.iter().position(|other| difference(&own, other).is_none()) {
            Some(at) => drop(left.remove(at)),
            None => return Err(unlike(&own, &left)),
        }
        same += 1;
    }
    conclusion(verdict, listed)?;
    Ok(Again { same, others: left.len() })
}

/// What lasts, in the course of time, as the records have it.
///
/// # Errors
/// In words, where a record or a profile is not there.
pub fn samples(sources: &Sources<'_>) -> Result<Vec<Sample>, String> {
    let mut all = Vec::new();
    for Group { profile: file, devices, events } in &sources.account.groups {
        let profile = sources.profiles.get(file).ok_or_else(|| format!("{file} is not there"))?;
        let (level, records) = (sources.account.level, sources.records);
        all.extend(history::again(profile, level, devices.clone(), events, records)?.samples());
    }
    Ok(all)
}

/// Every check whose sources a bundle holds.
fn decided(sources: &Sources<'_>) -> Result<Vec<Judged>, String> {
    let Account { at_rest, level, groups, network: told, between: ranks, dcgm, .. } =
        sources.account;
    let mut all = at_rest.judge(sources.state, *level);
    for Group { profile: file, devices, events } in groups {
        let profile = sources.profiles.get(file).ok_or_else(|| format!("{file} is not there"))?;
        let node = history::again(profile, *level, devices.clone(), events, sources.records)?;
        all.extend(node.judged());
    }
    if let Some(told) = told {
        all.extend(network::again(network::ports(sources.state), told)?.judged());
    }
    if let Some(ranks) = ranks {
        all.push(between::judge(ranks)?);
    }
    all.extend(dcgm.iter().flat_map(|told| told.judged()));
    if *level > Level::Passive {
        all.extend(changes::judge(sources.state, sources.after));
    }
    Ok(all)
}

/// Says how a check that was decided again differs from what is listed.
fn unlike(own: &Value, listed: &[&Value]) -> String {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or("nothing").to_owned();
    let name = match own["point"].as_str() {
        Some(point) => {
            format!("{:?} ({point}) of {}", text(own, "check"), text(own, "device"))
        }
        None => format!("{:?} of {}", text(own, "check"), text(own, "device")),
    };
    let is_same =
        |other: &&&Value| ["check", "device", "point"].iter().all(|key| own[*key] == other[*key]);
    match listed.iter().find(is_same) {
        None => format!("it lacks the check {name}, whose records are there"),
        Some(other) => {
            let key = difference(own, other).unwrap_or_default();
            let [says, follows] = [*other, own].map(|of| of[&key].to_string());
            format!("check {name}: its {key} is {says}, and {follows} follows from the records")
        }
    }
}

/// The first key in which two checks differ. Words are not among them: numbers in them are rounded.
fn difference(own: &Value, other: &Value) -> Option<String> {
    let empty = Map::new();
    let [a, b] = [own, other].map(|value| value.as_object().unwrap_or(&empty));
    let keys = a.keys().chain(b.keys()).filter(|key| *key != "words");
    let differs = |key: &&String| match (a.get(*key), b.get(*key)) {
        (Some(one), Some(other)) => !is_near(one, other),
        _ => true,
    };
    keys.into_iter().find(differs).cloned()
}

/// Whether two values are the same, but for the rounding of numbers.
fn is_near(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => {
                a == b || (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0)
            }
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_near(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_near(a, b)))
        }
        _ => one == other,
    }
}

/// Whether the verdict on the node, and what to do, follow from the checks.
fn conclusion(verdict: &Value, checks: &[Value]) -> Result<(), String> {
    let known = |word: &Value| {
        let is_named = |one: &Verdict| word.as_str() == Some(one.to_string().as_str());
        let found = Verdict::ALL.into_iter().find(is_named);
        found.ok_or_else(|| format!("{word} is no verdict"))
    };
    let mut all = Vec::new();
    for check in checks {
        all.push(known(&check["verdict"])?);
    }
    if verdict["complete"] != true {
        all.push(Verdict::Inconclusive);
    }
    let (is, follows) = (known(&verdict["verdict"])?, Verdict::on_all(all));
    if is != follows {
        return Err(format!("its verdict is {is}, and {follows} follows from its checks"));
    }
    let failed = checks.iter().filter(|check| check["verdict"] == "fail");
    let actions = failed.filter_map(|check| Action::deserialize(&check["action"]).ok());
    let follows = actions.max().map_or(Value::Null, |action| action.to_string().into());
    match verdict["action"] == follows {
        true => Ok(()),
        false => Err(format!(
            "its action is {}, and {follows} follows from its checks",
            verdict["action"]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        accept::{at_rest::AtRest, profile::Expected},
        evidence::account::{FORMAT, Program},
    };
    use fizeau_domain::node_state::{Gpu, Interface};
    use serde_json::json;

    /// A node that lacks a GPU, and the verdict on it.
    fn node() -> (Account, NodeState) {
        let program =
            Program { version: String::new(), build: String::new(), sha256: String::new() };
        let expected = Expected { gpus: Some(2), ..Expected::default() };
        let account = Account {
            format: FORMAT,
            command: Vec::new(),
            program,
            started: String::new(),
            closed: String::new(),
            level: Level::Passive,
            at_rest: AtRest {
                expected,
                broken_drivers: vec!["it does not answer".into()],
                ..AtRest::default()
            },
            groups: Vec::new(),
            network: None,
            between: None,
            records: Vec::new(),
            dcgm: None,
            challenge: None,
            redacted: Vec::new(),
        };
        let gpu = Gpu { name: "cuda:0".into(), has_driver: true, ..Gpu::default() };
        let gpu = Gpu { lanes: Some([16, 16]), ecc: Some(true), ..gpu };
        (account, NodeState { gpus: vec![gpu], ..NodeState::default() })
    }

    fn followed(verdict: &Value) -> Result<Again, String> {
        let (account, state) = node();
        followed_from(&account, [&state, &state], verdict)
    }

    fn followed_from(
        account: &Account,
        [state, after]: [&NodeState; 2],
        verdict: &Value,
    ) -> Result<Again, String> {
        let (profiles, records) = (&BTreeMap::new(), &BTreeMap::new());
        follow(&Sources { account, profiles, state, after, records }, verdict)
    }

    #[test]
    fn a_verdict_follows_and_one_that_was_bettered_does_not() {
        let (account, state) = node();
        let checks = account.at_rest.judge(&state, account.level);
        let whole = json!({
            "checks": checks, "verdict": "fail", "action": "CONTACT_SUPPORT", "complete": true,
        });
        let same = checks.len();
        assert_eq!(followed(&whole), Ok(Again { same, others: 0 }));
        let at = |check: &str| {
            let all = whole["checks"].as_array().expect("checks");
            all.iter().position(|one| one["check"] == check).expect(check)
        };
        let (count, driver) = (at("GPU count"), at("GPU driver"));
        let spoilt = |spoil: &dyn Fn(&mut Value)| {
            let mut verdict = whole.clone();
            spoil(&mut verdict);
            followed(&verdict).expect_err("it does not follow")
        };
        let words = spoilt(&|one| one["checks"][count]["verdict"] = "pass".into());
        assert!(words.contains("\"GPU count\" of node: its verdict is \"pass\""), "{words}");
        let words = spoilt(&|one| one["checks"][driver]["action"] = "RESTART_APP".into());
        assert!(words.contains("its action is"), "{words}");
        let words = spoilt(&|one| {
            one["checks"].as_array_mut().expect("checks").remove(driver);
        });
        assert!(words.contains("lacks the check \"GPU driver\""), "{words}");
        let words = spoilt(&|one| one["verdict"] = "pass".into());
        assert!(words.contains("its verdict is pass, and fail follows"), "{words}");
        let words = spoilt(&|one| one["action"] = "RESTART".into());
        assert!(words.contains("its action is \"RESTART\""), "{words}");
        // Words may be rounded otherwise, and a check that has no records may stand beside.
        let mut other = whole.clone();
        other["checks"][count]["words"] = "one of two".into();
        other["checks"].as_array_mut().expect("checks").push(json!({
            "check": "more", "device": "node", "verdict": "pass"
        }));
        assert_eq!(followed(&other), Ok(Again { same, others: 1 }));
    }

    #[test]
    fn the_network_and_what_changed_meanwhile_are_decided_again() {
        let (account, state) = node();
        let port = Interface {
            name: "mlx5_0/1".into(),
            state: Some("4: ACTIVE".into()),
            gigabits: Some(400.0),
            ..Interface::default()
        };
        let state = NodeState { interfaces: vec![port], ..state };
        let after = NodeState { gpus: Vec::new(), ..state.clone() };
        let told = |port| {
            let rounds = vec![vec![([port, 0], Err("no answer".into()))]];
            Some(network::Told { rounds, ended: false })
        };
        let account = Account { level: Level::Quick, network: told(0), ..account };
        let checks = [
            account.at_rest.judge(&state, account.level),
            network::again(network::ports(&state), &told(0).expect("told")).expect("it").judged(),
            changes::judge(&state, &after),
        ]
        .concat();
        let whole = json!({
            "checks": checks, "verdict": "fail", "action": "CONTACT_SUPPORT", "complete": true,
        });
        let same = checks.len();
        let both = [&state, &after];
        assert_eq!(followed_from(&account, both, &whole), Ok(Again { same, others: 0 }));
        // Nothing changed by the states that are there.
        let why = followed_from(&account, [&state, &state], &whole).expect_err("another state");
        assert!(why.contains("\"state afterwards\" of node"), "{why}");
        let other = Account { network: told(1), ..account.clone() };
        let why = followed_from(&other, both, &whole).expect_err("no such port");
        assert!(why.contains("1 are up"), "{why}");
        let none = Account { network: None, ..account };
        let same = same - 1;
        assert_eq!(followed_from(&none, both, &whole), Ok(Again { same, others: 1 }));
    }

    #[test]
    fn numbers_are_the_same_but_for_their_rounding() {
        assert!(is_near(&json!([1.0, {"a": 2e9}]), &json!([1.0 + 1e-12, {"a": 2e9 + 1e-3}])));
        for (one, other) in [
            (json!(1.0), json!(1.001)),
            (json!([1]), json!([1, 2])),
            (json!({"a": 1}), json!({"b": 1})),
            (json!("1"), json!(1)),
        ] {
            assert!(!is_near(&one, &other), "{one} {other}");
        }
    }
}
