//! A table in Markdown.

/// Rows under titles; the first column to the left, the others to the right.
pub fn markdown(titles: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let rule = format!("| --- |{}\n", " ---: |".repeat(titles.len() - 1));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(&titles) + &rule + &rows
}

/// A share in percent, one decimal.
pub fn percent(count: usize, of: usize) -> String {
    format!("{:.1}", 100.0 * count as f64 / of as f64)
}
