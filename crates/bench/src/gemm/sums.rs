//! Where a product is wrong, by sums that need no right product beside it: with e a vector of ones,
//! `(e^T A) B = e^T C` names the columns and `A (B e) = C e` the rows (Huang and Abraham,
//! "Algorithm-based fault tolerance for matrix operations", 1984). They cost as much as reading the
//! matrices.
//!
//! What rounding may do to a sum is allowed as in [`super::reference`]: errors of elements add like
//! a random walk. So a flipped bit below rounding does not show here, only in a comparison of bits;
//! products of integers are exact, and every bit shows.

use super::{
    super::element::{Element, F64_ROUNDOFF},
    reference::{DEVIATIONS, Roundoff, squares, tolerance},
};
use bytemuck::pod_collect_to_vec;

/// What the sums of a right product are, and what each may be off by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sums {
    shape: [usize; 2],
    rows: Vec<Line>,
    columns: Vec<Line>,
    output_roundoff: f64,
}

/// A row's or a column's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    sum: f64,
    allowed: f64,
}

/// Rows and columns whose sums are wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Where {
    /// Rows, ascending.
    pub rows: Vec<u32>,
    /// Columns, ascending.
    pub columns: Vec<u32>,
}

/// The sums of a product of operands as the device has them: B column by column, or row by row.
pub(super) fn of_operands<E: Element, const BY_COLUMNS: bool>(
    a: &[u8],
    b: &[u8],
    [m, n, k]: [usize; 3],
) -> Sums {
    let (a, b): (Vec<E>, Vec<E>) = (pod_collect_to_vec(a), pod_collect_to_vec(b));
    let at = |row: usize, column: usize| match BY_COLUMNS {
        true => b[column * k + row].value(),
        false => b[row * n + column].value(),
    };
    let (mut of_a, mut of_b) = (vec![0.0; k], vec![0.0; k]);
    let mut squares_b = vec![0.0; n];
    for row in a.chunks(k) {
        of_a.iter_mut().zip(row).for_each(|(sum, element)| *sum += element.value());
    }
    for (row, sum) in of_b.iter_mut().enumerate() {
        for (column, square) in squares_b.iter_mut().enumerate() {
            let value = at(row, column);
            *sum += value;
            *square += value * value;
        }
    }
    let roundoff = Roundoff::of::<E>();
    let each = tolerance(k, roundoff.sum);
    let own = |length: usize| match each > 0.0 {
        true => F64_ROUNDOFF * (length as f64).sqrt(),
        false => 0.0,
    };
    let share = |length: usize| DEVIATIONS * (each + own(length));
    let norm = |squares: f64| squares.sqrt();
    let norm_a = norm(squares(&a));
    let norm_b = norm(squares_b.iter().sum());
    let rows = a.chunks(k).map(|row| {
        let sum = row.iter().zip(&of_b).map(|(element, sum)| element.value() * sum).sum();
        Line { sum, allowed: share(n) * norm(squares(row)) * norm_b }
    });
    let mut columns = vec![0.0; n];
    for (row, sum) in of_a.iter().enumerate() {
        for (column, total) in columns.iter_mut().enumerate() {
            *total += sum * at(row, column);
        }
    }
    let columns = columns
        .iter()
        .zip(&squares_b)
        .map(|(&sum, &square)| Line { sum, allowed: share(m) * norm_a * norm(square) });
    Sums {
        shape: [m, n],
        rows: rows.collect(),
        columns: columns.collect(),
        output_roundoff: roundoff.output,
    }
}

impl Sums {
    /// Rows and columns of a product whose sums are not these.
    pub(super) fn wrong<E: Element>(&self, c: &[E]) -> Where {
        let [m, n] = self.shape;
        let (mut rows, mut columns) = (vec![[0.0; 2]; m], vec![[0.0; 2]; n]);
        for (row, elements) in rows.iter_mut().zip(c.chunks(n)) {
            for (column, element) in columns.iter_mut().zip(elements) {
                let value = element.value();
                for line in [&mut *row, column] {
                    line[0] += value;
                    line[1] += value * value;
                }
            }
        }
        let off = |found: &[[f64; 2]], right: &[Line]| -> Vec<u32> {
            let is_off = |(at, ([sum, square], right)): (usize, (&[f64; 2], &Line))| {
                let rounding = DEVIATIONS * self.output_roundoff * square.sqrt();
                let error = (sum - right.sum).abs();
                // In this order, so that what is not a number is wrong.
                let is_right = error <= right.allowed + rounding && error.is_finite();
                (!is_right).then_some(at as u32)
            };
            found.iter().zip(right).enumerate().filter_map(is_off).collect()
        };
        Where { rows: off(&rows, &self.rows), columns: off(&columns, &self.columns) }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::element::E4m3, *};
    use half::bf16;

    const SHAPE: [usize; 3] = [37, 29, 83];

    /// The sums of random operands, and their product.
    fn made<E: Element>(round: impl Fn(f64) -> E::Output) -> (Sums, Vec<E::Output>) {
        let [m, n, k] = SHAPE;
        let mut random = oorandom::Rand64::new(11);
        let a: Vec<E> = (0..m * k).map(|_| E::random(&mut random)).collect();
        let b: Vec<E> = (0..k * n).map(|_| E::random(&mut random)).collect();
        let value = |at: usize| {
            let pairs = a[at / n * k..][..k].iter().zip(b[at % n..].iter().step_by(n));
            round(pairs.map(|(a, b)| a.value() * b.value()).sum())
        };
        let product = (0..m * n).map(value).collect();
        let by_columns: Vec<E> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
        let bytes = |elements: &[E]| bytemuck::cast_slice::<E, u8>(elements).to_vec();
        let sums = of_operands::<E, true>(&bytes(&a), &bytes(&by_columns), SHAPE);
        assert_eq!(sums, of_operands::<E, false>(&bytes(&a), &bytes(&b), SHAPE));
        (sums, product)
    }

    #[test]
    fn right_products_have_no_wrong_sum() {
        let none = Where::default();
        let (sums, c) = made::<f32>(|value| value as f32);
        assert_eq!(sums.wrong(&c), none);
        let (sums, c) = made::<f64>(|value| value);
        assert_eq!(sums.wrong(&c), none);
        let (sums, c) = made::<bf16>(bf16::from_f64);
        assert_eq!(sums.wrong(&c), none);
        let (sums, c) = made::<E4m3>(bf16::from_f64);
        assert_eq!(sums.wrong(&c), none);
    }

    #[test]
    fn a_wrong_element_is_named_by_its_row_and_column() {
        let place = Where { rows: vec![5], columns: vec![7] };
        let at = 5 * SHAPE[1] + 7;
        let (sums, mut c) = made::<i8>(|value| value as i32);
        assert_eq!(sums.wrong(&c), Where::default());
        c[at] ^= 1;
        assert_eq!(sums.wrong(&c), place, "integers are exact: their lowest bit shows");
        let (sums, mut c) = made::<f32>(|value| value as f32);
        c[at] += 0.1;
        assert_eq!(sums.wrong(&c), place);
        c[at] = f32::NAN;
        assert_eq!(sums.wrong(&c), place);
    }
}
