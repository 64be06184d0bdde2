//! Names that may have been meant by one that does not exist.

/// The most names that are offered.
const OFFERED: usize = 3;

/// A name without what people write differently: case, and signs between its words.
fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}

/// Letters to insert, drop, change or swap with their neighbour to get from one to the other
/// (optimal string alignment).
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, one) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let changed = last[column] + usize::from(one != other);
            let mut least = changed.min(last[column + 1] + 1).min(next[column] + 1);
            let is_swapped =
                row > 0 && column > 0 && from[row - 1] == *other && to[column - 1] == *one;
            if is_swapped {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

/// How far a name is from what is wanted: as a whole, or up to one of its signs, since people leave
/// out how names end ("h200" for "h200-sxm").
fn away(wanted: &[char], name: &str) -> usize {
    let beginnings = name.match_indices('-').map(|(at, _)| &name[..at]);
    let all = beginnings.chain([name]).map(|one| distance(wanted, &plain(one)));
    all.min().unwrap_or(usize::MAX)
}

/// The names that are nearest to one that is not among them, the nearest first; none where all are
/// far from it.
pub fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let wanted = plain(wanted);
    let most = (wanted.len() / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> =
        names.into_iter().map(|name| (away(&wanted, name), name)).collect();
    near.retain(|(away, _)| *away <= most && wanted.len() > 1);
    near.sort();
    let least = near.first().map_or(0, |(away, _)| *away);
    near.retain(|(away, _)| *away == least);
    near.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// What people call something, and what it is called in ids and names of devices.
const ALSO_CALLED: &[(&str, &str)] = &[
    ("cpu", "host"),
    ("matmul", "gemm"),
    ("copybandwidth", "stream"),
    ("bandwidth", "stream"),
    ("memory", "stream"),
    ("memcpy", "transfer"),
    ("flashattention", "attention"),
    ("nccl", "collective"),
    ("linearattention", "recurrence"),
    ("deltanet", "recurrence"),
    ("mamba", "recurrence"),
    ("ssm", "recurrence"),
    ("sparseattention", "sparse"),
    ("dsa", "sparse"),
    ("flashmla", "sparse"),
    ("topk", "top_k"),
    ("gdn", "gated_delta"),
    ("gateddeltanet", "gated_delta"),
    ("mamba", "mamba2"),
    ("rmsnorm", "norm"),
    ("layernorm", "norm"),
    ("moe", "grouped"),
];

/// The name among those given that a word of other tools stands for.
pub fn also_called<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wanted: String = plain(wanted).into_iter().collect();
    let here = ALSO_CALLED.iter().filter(|(typed, _)| *typed == wanted).map(|(_, name)| *name);
    let here: Vec<&str> = here.collect();
    names.into_iter().find(|name| here.contains(name))
}

/// The nearest names as words behind an error: " (nearest: a, b)"; empty where none is near.
pub fn hint<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut words = wanted.split([',', ' ']).filter(|word| !word.is_empty());
    if wanted.contains(',') && words.all(|word| !nearest(word, names.iter().copied()).is_empty()) {
        return " (several names in one: name one, or repeat the option)".to_owned();
    }
    if let Some(name) = also_called(wanted, names.iter().copied()) {
        return format!(" (it is called {name} here)");
    }
    match nearest(wanted, names) {
        none if none.is_empty() => String::new(),
        names => format!(" (nearest: {})", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{hint, nearest};

    #[test]
    fn slips_of_the_pen_find_the_name_that_was_meant() {
        let models = ["llama-2-70b", "llama-3.1-70b", "llama-3.1-8b", "qwen3-8b"];
        assert!(nearest("llama3-70b", models).contains(&"llama-3.1-70b"));
        assert_eq!(nearest("Qwen-3-8B", models), ["qwen3-8b"]);
        let parts = ["h100-sxm", "h200-nvl", "h200-sxm", "mi300x", "epyc-9005"];
        assert_eq!(nearest("h2000", parts), ["h200-nvl", "h200-sxm"]);
        assert_eq!(nearest("m1300x", parts), ["mi300x"]);
        assert_eq!(nearest("mi3000x", parts), ["mi300x"]);
        assert_eq!(nearest("hots", ["host", "cuda", "hip"]), ["host"]);
        assert_eq!(nearest("cudda", ["host", "cuda", "hip"]), ["cuda"]);
        assert_eq!(hint("quik", ["quick", "full"]), " (nearest: quick)");
    }

    #[test]
    fn what_is_far_from_all_names_gets_no_offer() {
        assert_eq!(hint("unicorn", ["h100-sxm", "mi300x"]), "");
        assert_eq!(hint("", ["host"]), "");
        assert_eq!(hint("x", ["hip"]), "");
    }
}
