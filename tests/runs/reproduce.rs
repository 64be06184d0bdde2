//! `fizeau reproduce`: real measurements of a small case, a claim that holds, one that does not,
//! one whose condition is not met, and a bundle that the other side checks.

use crate::program::{Place, Said, say};
use serde_json::Value;
use std::fs;

const GEMM: &str = "[claim.run.suite.gemm]\ndtypes = [\"f32\"]\nshapes = [[64, 64, 64]]\n";

const STREAM: &str = "[claim.run.suite.stream]\nmemory = []\nscaling = []\nsweep = [\"copy\"]\n\
                      sweep_units = [\"one\"]\nsweep_points_per_octave = 1\n";

/// A claim about one core, measured in milliseconds.
fn claim(value: &str, conditions: &str) -> String {
    format!(
        "[[claim]]\nid = \"own\"\nvalue = \"{value}\"\nsource = \"a test\"\n\n[claim.run]\n\
         tolerance = 0.5\n\n[claim.run.suite.measure]\nsamples_min = 10\nsamples_max = 20\n\
         noise_max = 0.05\ntime_min = 0.005\ntime_max = 0.05\nwarmup_max = 0.005\n\
         sample_min = 0.001\ndeadline = 30.0\n\n{GEMM}\n[claim.run.conditions]\n{conditions}"
    )
}

fn reproduce(place: &Place, out: &str, value: &str, conditions: &str) -> (Said, Option<Value>) {
    fs::write(place.path("claim.toml"), claim(value, conditions)).expect("written");
    let args = ["reproduce", "claim.toml", "--device", "host", "--rounds", "3", "--out", out];
    let said = say(place.fizeau(args).arg("--no-host-name"));
    let text = fs::read_to_string(place.path(out).join("reproduction.json")).ok();
    (said, text.map(|text| serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn a_claim_is_reproduced_refuted_or_neither_and_the_other_side_can_check_it() {
    let place = Place::new();
    // Every core that fizeau runs on does this; none does what the next one says.
    let (said, bundle) = reproduce(&place, "met", "0.0001 GFLOP/s f32", "units = 1\n");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let bundle = bundle.expect("an answer");
    assert_eq!(bundle["answer"], "reproduced");
    assert!(bundle["share"].as_f64().expect("a share") > 1.0);
    assert_eq!(bundle["conditions"][0]["met"], "met");
    assert!(said.out.contains("Reproduced: "), "{}", said.out);

    // On a fake device: a busy machine would rightly refute nothing about its host.
    let text = claim("900 TB/s", "").replace(GEMM, STREAM);
    let text = text.replace("tolerance = 0.5", "cases = [\"stream/copy/{?,??}KiB/*\"]");
    fs::write(place.path("false.toml"), text).expect("written");
    let args = ["reproduce", "false.toml", "--device", "fake:", "--rounds", "3", "--out", "false"];
    let said = say(&mut place.fizeau(args)).ended(1);
    assert!(said.out.contains("Not reproduced: 0."), "{}", said.out);

    let conditions = "features = [\"unobtainium\"]\npower_limit_w = 1.0\n";
    let (said, bundle) = reproduce(&place, "unmet", "0.0001 GFLOP/s f32", conditions);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    let bundle = bundle.expect("an answer");
    assert_eq!(bundle["answer"], "cannot tell");
    let met: Vec<&Value> = bundle["conditions"].as_array().expect("a list").iter().collect();
    assert_eq!((&met[0]["met"], &met[1]["met"]), (&"NOT met".into(), &"unknown".into()));
    let why = bundle["why"].as_str().expect("words");
    assert!(why.contains("instruction set") && why.contains("reached here all the same"), "{why}");

    // The page says all that is needed to do it again.
    let page = fs::read_to_string(place.path("met/reproduction.html")).expect("a page");
    let page = page.replace("&#x2f;", "/");
    for words in
        ["0.0001 GFLOP/s f32", "fizeau reproduce claim.toml --device host", "SHA-256", "met"]
    {
        assert!(page.contains(words), "{words}");
    }
    // A claim's own file is the same byte for byte, so that its hash can be compared.
    let kept = fs::read_to_string(place.path("met/claim.toml")).expect("kept");
    assert_eq!(kept, claim("0.0001 GFLOP/s f32", "units = 1\n"));

    let check = || say(&mut place.fizeau(["reproduce", "--check", "met"]));
    let checked = check();
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    // Planted: an answer that the records do not give, and a record that was changed.
    let path = place.path("met/reproduction.json");
    let text = fs::read_to_string(&path).expect("an answer");
    fs::write(&path, text.replace("\"reproduced\"", "\"not reproduced\"")).expect("written");
    let checked = check();
    assert_eq!(checked.code, Some(1), "{}", checked.out);
    assert!(checked.out.contains("judged again it is \"reproduced\""), "{}", checked.out);
    fs::write(&path, text).expect("written");
    let suite = place.path("met/suite.toml");
    let text = fs::read_to_string(&suite).expect("a suite");
    fs::write(&suite, text + "# changed\n").expect("written");
    let checked = check();
    assert_eq!(checked.code, Some(1), "{}", checked.out);
    assert!(checked.out.contains("suite.toml: its SHA-256"), "{}", checked.out);
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    let place = Place::new();
    let refused = |args: &[&str], code, words: &str| {
        let said = say(&mut place.fizeau([&["reproduce"], args].concat()));
        assert_eq!(said.code, Some(code), "{args:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    };
    refused(&["gpt-fast-llama-2-7b"], 3, "claims about tokens are not run");
    refused(&["h200-busbw-untold"], 2, "no [claim.run]");
    refused(&["h100-bf16-cublas"], 3, "no");
    refused(&["missing.toml"], 3, "missing.toml");
    let two = claim("1 GB/s", "") + &claim("2 GB/s", "").replace("\"own\"", "\"other\"");
    fs::write(place.path("two.toml"), two).expect("written");
    refused(&["two.toml"], 2, "own, other");
    refused(&["two.toml", "--id", "third"], 2, "third");
    fs::write(place.path("odd.toml"), claim("1 GB/s", "moon = 1\n")).expect("written");
    refused(&["odd.toml"], 2, "moon");
    let text = claim("1 GB/s", "").replace("[[64, 64, 64]]", "[[0, 64, 64]]");
    fs::write(place.path("zero.toml"), text).expect("written");
    refused(&["zero.toml"], 2, "[run.suite]");
    let list = say(&mut place.fizeau(["reproduce", "--list", "--device", "host", "--json"])).json();
    let rows = list["tables"]["claims"].as_array().expect("claims");
    assert!(rows.len() >= 30, "{}", rows.len());
    let of = |id: &str| rows.iter().find(|row| row["claim"] == id).expect("listed")["runs"].clone();
    assert!(of("gpt-fast-llama-2-7b").as_str().is_some_and(|words| words.contains("tokens")));
    assert_eq!(of("h100-copy"), "on its GPU");
}
