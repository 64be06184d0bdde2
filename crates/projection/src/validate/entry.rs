//! A list of measurements as CSV.

use crate::{
    claim::{Answer, Claim, Per, Statement},
    project::{
        Layout, Split,
        layout::DEVICES_MAX,
        sweep::{CONCURRENCY_MAX, TOKENS_MAX},
    },
};
use fizeau_domain::{model::Format, number};
use std::collections::BTreeMap;

/// The longest file, in bytes.
pub const TEXT_MAX: u64 = 16 << 20;

/// The most measurements of one file.
const ENTRIES_MAX: usize = 100_000;

/// Columns that a file has to have.
const NEEDED: [&str; 5] = ["model", "part", "value", "unit", "source"];

/// Columns that it may have.
const OPTIONAL: [&str; 9] =
    ["id", "layout", "precision", "kv", "isl", "osl", "context", "concurrency", "acceptance"];

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Output tokens a second of one user, while decoding.
    User,
    /// Milliseconds from one output token of a user to the next (TPOT): the reverse of that.
    Token,
    /// Output tokens a second of all users on one device, prompts included where lengths are given.
    Device,
    /// The same on all devices.
    System,
}

impl Unit {
    /// All of them, by how they are written.
    pub const ALL: [(&str, Unit); 4] = [
        ("tok/s/user", Unit::User),
        ("ms/token", Unit::Token),
        ("tok/s/GPU", Unit::Device),
        ("tok/s", Unit::System),
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        Unit::ALL.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }
}

/// One measurement with its conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The line of the file, or the name of a point.
    pub id: String,
    /// The model: a name that is built in, or a path to a config.json.
    pub model: String,
    /// The part, or a record.
    pub part: String,
    /// How the model is spread.
    pub layout: Layout,
    /// In what its linear layers are stored; none: as published.
    pub precision: Option<String>,
    /// In what keys and values are stored; none: bf16 where attention's weights have 16 bits, else
    /// fp8.
    pub kv: Option<Format>,
    /// Tokens of a prompt.
    pub input: Option<u32>,
    /// Tokens of an answer.
    pub output: Option<u32>,
    /// Tokens before the one that is made, where prompts and answers are not stated.
    pub context: Option<u32>,
    /// Requests at once; none: as many as fit.
    pub concurrency: Option<u32>,
    /// Tokens accepted for each step of speculative decoding; none without.
    pub acceptance: Option<f64>,
    /// The measured number.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
    /// Who measured it, and where that is to be read.
    pub source: String,
}

impl Entry {
    /// A published rate of tokens that was measured (its verdict is "possible"); none of another
    /// claim.
    ///
    /// # Errors
    /// In words: what of it is not understood.
    pub fn of_claim(claim: &Claim) -> Result<Option<Entry>, String> {
        let refuse = |why: String| format!("{}: {why}", claim.id);
        let statement = claim.value.parse::<Statement>().map_err(refuse)?;
        let (Statement::Tokens { per, rate, .. }, Some(model), Some(part)) =
            (statement, &claim.model, &claim.on)
        else {
            return Ok(None);
        };
        if claim.verdict != Some(Answer::Possible) {
            return Ok(None);
        }
        let even = || Layout { replicas: 1, split: Split::Even(claim.gpus.unwrap_or(1)) };
        let layout = claim.layout.as_ref().map_or_else(|| Ok(even()), |text| text.parse());
        let kv = claim.kv.as_ref().map(|text| text.parse()).transpose();
        Ok(Some(Entry {
            id: claim.id.clone(),
            model: model.clone(),
            part: part.clone(),
            layout: layout.map_err(refuse)?,
            precision: claim.precision.clone(),
            kv: kv.map_err(refuse)?,
            input: claim.isl,
            output: claim.osl,
            context: claim.context,
            concurrency: claim.concurrency,
            acceptance: claim.acceptance,
            value: rate,
            unit: match per {
                Per::User => Unit::User,
                Per::Device => Unit::Device,
                Per::System => Unit::System,
            },
            source: claim.source.clone().unwrap_or_default(),
        }))
    }

    /// The value as a rate: tokens a second.
    pub fn rate(&self) -> f64 {
        match self.unit {
            Unit::Token => 1e3 / self.value,
            Unit::User | Unit::Device | Unit::System => self.value,
        }
    }
}

/// The fields of one line by their columns.
struct Fields<'a> {
    line: u64,
    columns: &'a BTreeMap<String, usize>,
    record: &'a csv::StringRecord,
}

impl Fields<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let text = self.record.get(*self.columns.get(column)?)?.trim();
        (!text.is_empty()).then_some(text)
    }

    fn refuse(&self, column: &str, why: &str) -> String {
        format!("line {}, {column}: {why}", self.line)
    }

    fn needed(&self, column: &str) -> Result<&str, String> {
        self.text(column).ok_or_else(|| self.refuse(column, "it is empty"))
    }

    fn whole(&self, column: &str, most: u32) -> Result<Option<u32>, String> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let number = text.parse::<u32>().ok().filter(|one| (1..=most).contains(one));
        let refuse = || self.refuse(column, &format!("{text:?}: a whole number from 1 to {most}"));
        number.map(Some).ok_or_else(refuse)
    }

    fn above_zero(&self, column: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(column) else { return Ok(None) };
        number::positive(text).map(Some).map_err(|why| self.refuse(column, &why))
    }

    /// `tp8` and the like, or `even8`: shared evenly, for figures that state no layout.
    fn layout(&self) -> Result<Layout, String> {
        let Some(text) = self.text("layout") else {
            return Ok(Layout { replicas: 1, split: Split::Tensor(1) });
        };
        let even = text.strip_prefix("even").and_then(|n| n.parse::<u32>().ok());
        match even.filter(|n| (1..=DEVICES_MAX).contains(n)) {
            Some(n) => Ok(Layout { replicas: 1, split: Split::Even(n) }),
            None => text.parse().map_err(|why: String| self.refuse("layout", &why)),
        }
    }

    fn entry(&self) -> Result<Entry, String> {
        let value = self.needed("value")?;
        let value = number::positive(value).map_err(|why| self.refuse("value", &why))?;
        let unit = self.needed("unit")?;
        let known = Unit::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let (_, unit) = known.ok_or_else(|| {
            let all = Unit::ALL.map(|(name, _)| name).join(", ");
            self.refuse("unit", &format!("{unit:?} is none of {all}"))
        })?;
        let kv = self.text("kv").map(str::parse::<Format>).transpose();
        let entry = Entry {
            id: self.text("id").map_or_else(|| format!("line {}", self.line), str::to_owned),
            model: self.needed("model")?.to_owned(),
            part: self.needed("part")?.to_owned(),
            layout: self.layout()?,
            precision: self.text("precision").map(str::to_owned),
            kv: kv.map_err(|why| self.refuse("kv", &why))?,
            input: self.whole("isl", TOKENS_MAX)?,
            output: self.whole("osl", TOKENS_MAX)?,
            context: self.whole("context", TOKENS_MAX)?,
            concurrency: self.whole("concurrency", CONCURRENCY_MAX)?,
            acceptance: self.above_zero("acceptance")?,
            value,
            unit: *unit,
            source: self.needed("source")?.to_owned(),
        };
        if entry.input.is_some() != entry.output.is_some() {
            return Err(self.refuse("isl", "give both isl and osl, or neither"));
        }
        if entry.input.is_some() && entry.context.is_some() {
            return Err(self.refuse("context", "give isl and osl, or context"));
        }
        let is_of_user = matches!(entry.unit, Unit::User | Unit::Token);
        if is_of_user && entry.concurrency.is_none() {
            return Err(self.refuse("concurrency", "a user's rate needs the requests at once"));
        }
        if entry.acceptance.is_some_and(|tokens| tokens < 1.0) {
            return Err(self.refuse("acceptance", "1 token a step at least"));
        }
        Ok(entry)
    }
}

/// Ends of lines between two places of a text.
fn newlines(text: &str, from: usize, to: usize) -> u64 {
    let bytes = text.as_bytes().get(from..to).unwrap_or_default();
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Bytes of the comments and empty lines that a text begins with: a record's place is before them.
fn passed_over(text: &str) -> usize {
    let lines = text.split_inclusive('\n');
    let is_passed = |line: &&str| line.starts_with('#') || line.trim().is_empty();
    lines.take_while(is_passed).map(str::len).sum()
}

/// Reads a list. Lines that begin with `#` are comments.
///
/// # Errors
/// In words, by line: which column is missing or not known, which number cannot be.
pub fn read(text: &str) -> Result<Vec<Entry>, String> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut columns = BTreeMap::new();
    for (at, name) in headers.iter().enumerate() {
        let name = name.trim().to_ascii_lowercase();
        if !NEEDED.contains(&name.as_str()) && !OPTIONAL.contains(&name.as_str()) {
            let all: Vec<_> = NEEDED.iter().chain(&OPTIONAL).copied().collect();
            return Err(format!(
                "line 1: no column is called {name:?}; there are: {}",
                all.join(", ")
            ));
        }
        if columns.insert(name.clone(), at).is_some() {
            return Err(format!("line 1: the column {name} stands twice"));
        }
    }
    if let Some(lacks) = NEEDED.iter().find(|name| !columns.contains_key(**name)) {
        return Err(format!("line 1: the column {lacks} is missing"));
    }
    let mut entries = Vec::new();
    let (mut line, mut at) = (1, 0);
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let begin = record.position().map_or(0, |position| position.byte() as usize);
        line += newlines(text, at, begin);
        at = begin + passed_over(text.get(begin..).unwrap_or_default());
        line += newlines(text, begin, at);
        entries.push(Fields { line, columns: &columns, record: &record }.entry()?);
        if entries.len() > ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} measurements: split the file"));
        }
    }
    match entries.len() {
        0 => Err("it has no measurement below its first line".into()),
        _ => Ok(entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "model,part,layout,isl,osl,concurrency,value,unit,source\n";

    #[test]
    fn a_line_is_read_with_its_conditions() {
        let text = format!("{HEAD}# a comment\n\nm,h200,tp2,1000,500,4,12.5,ms/token,\"a, b\"\n");
        let entries = read(&text).expect("a list");
        let [one] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((one.rate(), one.unit, one.input), (80.0, Unit::Token, Some(1000)));
        assert_eq!((one.layout.to_string(), one.source.as_str()), ("tp2".into(), "a, b"));
        assert_eq!(one.id, "line 4");
    }

    #[test]
    fn lists_that_are_none_are_refused_by_line_and_column() {
        for (text, words) in [
            ("", "the column model is missing"),
            ("model,part,value,unit\n", "the column source is missing"),
            ("model,part,value,unit,source,speed\n", "no column is called \"speed\""),
            ("model,part,value,unit,source,part\n", "stands twice"),
            (HEAD, "no measurement"),
        ] {
            assert!(read(text).expect_err(text).contains(words), "{text}");
        }
        for (line, words) in [
            ("m,h200,tp2,1000,500,4,fast,ms/token,s", "line 2, value"),
            ("m,h200,tp2,1000,500,4,-1,ms/token,s", "line 2, value"),
            ("m,h200,tp2,1000,500,4,1,furlongs,s", "line 2, unit: \"furlongs\" is none of"),
            ("m,h200,tp0,1000,500,4,1,tok/s,s", "line 2, layout"),
            ("m,h200,tp2,1000,,4,1,tok/s,s", "line 2, isl"),
            ("m,h200,tp2,0,500,4,1,tok/s,s", "line 2, isl"),
            ("m,h200,tp2,,,,1,tok/s/user,s", "line 2, concurrency"),
            ("m,h200,tp2,,,4,1,tok/s,", "line 2, source: it is empty"),
            ("m,h200,tp2,,,4,1", "found record with 7 fields"),
        ] {
            let why = read(&format!("{HEAD}{line}\n")).expect_err(line);
            assert!(why.contains(words), "{line}: {why}");
        }
    }
}
