//! A search for the fastest matrix product as a document: every shape that was tried.

use super::{Block, Cell, Column, Document, Table, Weight, without_numbers};
use fizeau_domain::{dtype::Dtype, text::counted};
use fizeau_judge::discover::search::{Search, Tried};
use fizeau_record::Record;

/// What a search found, in `seconds` of a budget.
pub fn document(record: &Record, search: &Search, dtype: Dtype, seconds: [f64; 2]) -> Document {
    let (header, tried) = (&record.header, search.tried());
    let measured = tried.iter().filter(|one| one.best().is_some()).count();
    let [spent, budget] = seconds;
    let best = match search.best() {
        Some(Tried { shape: [m, n, k], found }) => {
            let kernel = found.first().map_or("", |(kernel, _)| kernel);
            format!("the fastest is {m} x {n} x {k} (m x n x k) by {kernel}")
        }
        None => "none could be measured".into(),
    };
    let blocks = vec![
        Block::Text(format!(
            "Best of {}, searched from coarse to fine in {spent:.0} s of a budget of \
             {budget:.0} s: {best}.",
            counted(measured, "shape")
        )),
        Block::Table(table(&tried)),
        Block::Note(
            "the fastest of several medians is partly luck: measured again it is likely to be a \
             little slower. A shape that was not tried may be faster"
                .into(),
        ),
    ];
    let subtitle = format!("{}, fizeau {}, run {}", header.started, header.fizeau, header.run);
    let title = format!("{}: the fastest {dtype} product", header.device.name);
    let document = Document { title, subtitle, blocks };
    if header.device.is_stub() { without_numbers(document) } else { document }
}

fn table(tried: &[&Tried]) -> Table {
    let most = tried.first().and_then(|one| one.best()).map(|(_, rate)| *rate);
    let row = |one: &&Tried| {
        let [m, n, k] = one.shape;
        let shape = Cell::Code(format!("{m}x{n}x{k}"));
        match (one.best(), most) {
            (Some((kernel, rate)), Some(most)) => vec![
                shape,
                Cell::Code(kernel.clone()),
                Cell::Throughput(*rate),
                Cell::Share(rate.0 / most.0),
            ],
            _ => vec![shape, Cell::Text("not measured".into()), Cell::Absent, Cell::Absent],
        }
    };
    let column = |key, title| Column { key, title, weight: Weight::Essential };
    let title = "Every shape that was tried, by its fastest kernel";
    let columns = vec![
        column("shape", "m x n x k"),
        column("kernel", "kernel"),
        column("flops_per_second", "rate"),
        column("share_of_best", "of the best"),
    ];
    Table::new("shapes", title, columns, tried.iter().map(row))
}
