//! Documents of runs on a stub driver: every number that would stand there is the word `stub`, but
//! for those that say how one thing is beside another of its kind, which are marked.

use super::{Block, Cell, Document, Fact, FactLimit, Heat};
use fizeau_domain::spec::STUB;

/// A document without its numbers: cells, facts and numbers in words become `stub`, charts and
/// heat maps are left out. [Relative](Cell::Relative) numbers stay, each marked.
pub fn without_numbers(document: Document) -> Document {
    let warning = "this is a stub driver for tests: nothing was measured; what is relative is \
                   marked (stub), and no other number is shown";
    let mut blocks = vec![Block::Warning(warning.into())];
    let mut rest = document.blocks.into_iter().filter_map(block).peekable();
    while let Some(block) = rest.next() {
        // A section of charts alone has nothing left.
        let is_heading = |block: &Block| matches!(block, Block::Heading(_));
        if !(is_heading(&block) && rest.peek().is_none_or(is_heading)) {
            blocks.push(block);
        }
    }
    Document { title: words(&document.title), subtitle: words(&document.subtitle), blocks }
}

fn block(block: Block) -> Option<Block> {
    Some(match block {
        Block::Heading(text) => Block::Heading(words(&text)),
        Block::Text(text) => Block::Text(words(&text)),
        Block::Warning(text) => Block::Warning(words(&text)),
        Block::Note(text) => Block::Note(words(&text)),
        Block::Failure(text) => Block::Failure(words(&text)),
        Block::Facts(facts) => Block::Facts(facts.into_iter().map(fact).collect()),
        Block::Table(mut table) => {
            for value in table.rows.iter_mut().flatten() {
                *value = cell(value);
            }
            Block::Table(table)
        }
        Block::HeatMap(mut map) => {
            let mut values = map.rows.iter().flat_map(|row| &row.values);
            if !values.any(|heat| matches!(heat.value, Cell::Relative { .. })) {
                return None;
            }
            for heat in map.rows.iter_mut().flat_map(|row| &mut row.values) {
                *heat = Heat { value: cell(&heat.value), share: None };
            }
            Block::HeatMap(map)
        }
        Block::Chart(_) => return None,
        // A listing is text that a user wrote, and nothing that was measured.
        Block::Listing(listing) => Block::Listing(listing),
    })
}

fn fact(fact: Fact) -> Fact {
    // Whose limit it is is no number; the reasons have some.
    let limit = FactLimit { tier: fact.limit.tier, ..FactLimit::default() };
    Fact { value: cell(&fact.value), share: None, of: words(&fact.of), limit, ..fact }
}

fn cell(value: &Cell) -> Cell {
    match value {
        Cell::Text(text) => Cell::Text(words(text)),
        Cell::Code(name) => Cell::Code(name.clone()),
        Cell::Absent => Cell::Absent,
        Cell::StubShare(share) => Cell::StubShare(*share),
        Cell::Relative { value, .. } => Cell::Relative { value: *value, is_stub: true },
        Cell::Bandwidth(_)
        | Cell::Throughput(_)
        | Cell::Time(_)
        | Cell::Size(_)
        | Cell::Share(_)
        | Cell::Ratio(_)
        | Cell::Number(..)
        | Cell::Span(..)
        | Cell::Count(_) => Cell::Text(STUB.into()),
    }
}

/// A text in which every word that starts with a digit is replaced. Names such as `cuda:0`,
/// `sm_90a` or a case's id start with a letter and stay, and so do the driver's own words for an
/// error, which come with its code in brackets.
fn words(text: &str) -> String {
    let replaced = text.split(' ').map(|word| {
        let bare = word.trim_start_matches(['(', '+', '-', '~', '<', '>']);
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
        let end = bare.trim_end_matches([',', '.', ')', ';', ':', '%']);
        match (is_number, bare.strip_prefix(end)) {
            (true, Some(marks)) => {
                let start = word.strip_suffix(bare).unwrap_or_default();
                format!("{start}{STUB}{marks}")
            }
            _ => word.to_owned(),
        }
    });
    replaced.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, HeatMap, HeatRow, Table, Weight};
    use fizeau_domain::units::Seconds;

    #[test]
    fn a_section_without_a_block_has_no_heading() {
        let heading = |text: &str| Block::Heading(text.into());
        let blocks =
            vec![heading("Transfers"), heading("Cases"), Block::Text("all".into()), heading("End")];
        let document = Document { title: String::new(), subtitle: String::new(), blocks };
        let headings = without_numbers(document).blocks.into_iter().filter_map(|one| match one {
            Block::Heading(text) => Some(text),
            _ => None,
        });
        assert_eq!(headings.collect::<Vec<_>>(), ["Cases"]);
    }

    #[test]
    fn no_number_is_left() {
        let text = "4 of 7 cases at (1.98 GHz), cuda:0 sm_90a, 95 %.";
        assert_eq!(words(text), "stub of stub cases at (stub GHz), cuda:0 sm_90a, stub %.");
        let column = Column { key: "median_seconds", title: "median", weight: Weight::Essential };
        let table = Table {
            name: "cases".into(),
            title: String::new(),
            columns: vec![column],
            rows: vec![
                vec![Cell::Time(Seconds(1e-6))],
                vec![Cell::Absent],
                vec![Cell::Relative { value: 0.85, is_stub: false }],
            ],
        };
        let map = |value| HeatMap {
            name: "ranks".into(),
            title: String::new(),
            caption: String::new(),
            corner: String::new(),
            columns: vec!["rank 0".into()],
            rows: vec![HeatRow {
                label: "stream/copy".into(),
                values: vec![Heat { value, share: Some(0.9) }],
            }],
        };
        let blocks = vec![
            Block::Table(table),
            Block::HeatMap(map(Cell::Relative { value: 0.9, is_stub: false })),
            Block::HeatMap(map(Cell::Time(Seconds(1.0)))),
        ];
        let document = Document { title: "8 units".into(), subtitle: String::new(), blocks };
        let hidden = without_numbers(document);
        assert_eq!(hidden.title, "stub units");
        let rows: Vec<_> = hidden.tables().flat_map(|table| table.rows.concat()).collect();
        let marked = |value| Cell::Relative { value, is_stub: true };
        assert_eq!(rows, [Cell::Text("stub".into()), Cell::Absent, marked(0.85)]);
        let maps: Vec<_> =
            hidden.blocks.iter().filter(|b| matches!(b, Block::HeatMap(_))).collect();
        let [Block::HeatMap(map)] = maps[..] else { panic!("{maps:?}") };
        assert_eq!(map.rows[0].values, [Heat { value: marked(0.9), share: None }]);
    }
}
