//! Selectors over every case of every built-in suite: `!` excludes exactly what the same selector
//! selects.

use fizeau::data::Catalogue;
use fizeau_bench::{self as bench, Rank};
use fizeau_comm::Alone;
use fizeau_device::fake::Fake;
use fizeau_domain::selector::Selector;
use std::collections::BTreeSet;

/// The cases of each built-in suite that plans any here.
fn suites() -> Vec<Vec<String>> {
    let catalogue = Catalogue::load(None).expect("the catalogue");
    let device = Fake::default().device();
    let rank = Rank { device: &device, peers: &Alone };
    let ids = |name: &str| -> Vec<String> {
        let (suite, _) = catalogue.suite(name).expect("a suite");
        bench::cases(&suite, rank).iter().map(ToString::to_string).collect()
    };
    catalogue.suite_names().map(ids).filter(|ids| !ids.is_empty()).collect()
}

/// Selectors made of an id: whole beginnings of it, with globs in every place of them.
fn selectors(id: &str) -> BTreeSet<String> {
    let parts: Vec<&str> = id.split('/').collect();
    let mut all = BTreeSet::from([format!("*{}*", parts[parts.len() - 1])]);
    for end in 1..=parts.len() {
        let beginning = parts[..end].join("/");
        let (first, last) = (parts[..end - 1].join("/"), parts[end - 1]);
        let within = if first.is_empty() { String::new() } else { format!("{first}/") };
        if end < parts.len() {
            all.insert(format!("{beginning}/"));
        }
        all.extend([
            beginning.clone(),
            format!("{beginning}*"),
            format!("{within}*"),
            format!("{within}{{{last},gone}}"),
            format!("{within}?{}", last.get(1..).unwrap_or_default()),
        ]);
    }
    all
}

#[track_caller]
fn selected(words: &[&str], ids: &[String]) -> BTreeSet<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let selector = Selector::parse(&words).expect("a selector");
    ids.iter().filter(|id| selector.selects(id)).cloned().collect()
}

#[test]
fn a_selector_and_its_exclusion_make_the_whole() {
    let suites = suites();
    assert!(suites.len() > 5, "{} suites plan cases", suites.len());
    for ids in suites {
        let whole: BTreeSet<String> = ids.iter().cloned().collect();
        // Some twenty ids stand for the others, whose selectors are alike.
        let step = (ids.len() / 20).max(1);
        let words: BTreeSet<String> =
            ids.iter().step_by(step).chain(ids.last()).flat_map(|id| selectors(id)).collect();
        for word in &words {
            let with = selected(&[word], &ids);
            let without = selected(&[&format!("!{word}")], &ids);
            assert!(!with.is_empty(), "{word} was made of an id");
            assert!(with.is_disjoint(&without), "{word}");
            assert_eq!(with.union(&without).cloned().collect::<BTreeSet<_>>(), whole, "{word}");
            // Within what another selector leaves it is the same.
            let operation = ids[0].split('/').next().expect("an operation");
            let [inside, both] = [vec![operation], vec![operation, &format!("!{word}")]]
                .map(|words| selected(&words, &ids));
            assert_eq!(both, inside.difference(&with).cloned().collect(), "{operation} !{word}");
        }
    }
}
