//! Matrices of rates as programs print them: CUDA's p2pBandwidthLatencyTest and nvbandwidth, with a
//! row and a column for each GPU.

use super::raw::RawExchange;

/// The part of a heading that states the unit.
const UNIT: &str = "(gb/s)";

/// A matrix with its heading.
struct Matrix<'t> {
    heading: &'t str,
    /// Row by row; none where a cell is `N/A`.
    rows: Vec<Vec<Option<f64>>>,
}

/// The numbers of the columns, which a line names: `D\D 0 1 2 3`.
fn columns(line: &str) -> Option<usize> {
    let words = line.split_whitespace().skip_while(|word| *word == "D\\D");
    let mut count = 0;
    for word in words {
        if word.parse() != Ok(count) {
            return None;
        }
        count += 1;
    }
    (count > 1).then_some(count)
}

fn row(line: &str, number: usize, columns: usize) -> Option<Vec<Option<f64>>> {
    let mut words = line.split_whitespace();
    if words.next()?.parse() != Ok(number) {
        return None;
    }
    let cell = |word: &str| match word {
        "N/A" => Some(None),
        word => word.parse::<f64>().ok().map(Some),
    };
    let cells: Option<Vec<Option<f64>>> = words.map(cell).collect();
    cells.filter(|cells| cells.len() == columns)
}

/// Every matrix of a text.
fn matrices(text: &str) -> Vec<Matrix<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(count) = columns(line) else { continue };
        let below = lines.get(at + 1..).unwrap_or_default();
        let rows = (0..count).map(|number| row(below.get(number)?, number, count));
        if let Some(rows) = rows.collect() {
            let before = lines[..at].iter().rev().find(|line| !line.trim().is_empty());
            found.push(Matrix { heading: before.copied().unwrap_or_default().trim(), rows });
        }
    }
    found
}

/// The exchanges of the one matrix of rates in a text; none where it has no matrix.
///
/// # Errors
/// In words: where several matrices have rates, or none says that it has.
pub fn exchanges(text: &str) -> Option<Result<Vec<RawExchange>, String>> {
    let all = matrices(text);
    if all.is_empty() {
        return None;
    }
    let is_of_rates = |one: &&Matrix<'_>| one.heading.to_ascii_lowercase().contains(UNIT);
    let of_rates: Vec<&Matrix<'_>> = all.iter().filter(is_of_rates).collect();
    Some(match of_rates[..] {
        [] => Err("it has a matrix whose heading, on the line before, does not end in (GB/s): \
                   keep that line with it"
            .into()),
        [one] => Ok(of(one)),
        [first, second, ..] => Err(format!(
            "it has {} matrices of rates ({:?}, {:?}, ..): leave one with its heading",
            of_rates.len(),
            first.heading,
            second.heading
        )),
    })
}

/// Each pair of a matrix: both of its cells, which are one direction each.
fn of(matrix: &Matrix<'_>) -> Vec<RawExchange> {
    let cells = matrix.rows.iter().enumerate().flat_map(|(row, cells)| {
        cells.iter().enumerate().map(move |(column, cell)| (row, column, *cell))
    });
    // A pair without access to each other has no rate.
    let known = cells.filter_map(|(row, column, cell)| Some((row, column, cell?)));
    let pairs = known.filter(|(row, column, _)| row != column);
    pairs
        .map(|(row, column, rate)| RawExchange {
            rank_a: row as u32,
            rank_b: column as u32,
            bytes_per_second: Some(rate * 1e9),
            ..RawExchange::default()
        })
        .collect()
}
