//! How a product is checked.
//!
//! Every element of C is covered by products with random vectors (Freivalds, "Probabilistic
//! machines can use less running time", 1977): with signs x, `C x` is compared with `A (B x)` row
//! by row, in `f64`. A sample of elements, the corners always among them, is compared with its own
//! dot product in `f64`. C is filled with NaN before (integers: with a value no product reaches),
//! so that an element never written fails the first comparison for certain.
//!
//! What rounding may do. Summing k products in any order, each sum rounded to unit roundoff u,
//! leaves an element off by at most `k u |A||B|`, and by `8 sqrt(k) u |A||B|` but with a
//! probability below 1e-13 where roundings are independent (Higham and Mary, "A new approach to
//! probabilistic rounding error analysis", 2019); the smaller of the two is allowed, and one
//! rounding v to C's element type, `v |C|`. For a row with signs these errors add like a random
//! walk (Hoeffding): allowed is 8 times the root of the sum of their squares, where
//! `|a_i|_2 |B|_F` bounds the root of the sum of squares of `|A||B|` in row i (Cauchy and
//! Schwarz). The sums of n products with signs are rounded themselves, at sizes that grow like a
//! walk too: `u sqrt(n / 2)` of the row's root of squares for each of the two sides, u of `f64`.
//! Integer products are exact, and nothing is allowed.

use super::super::element::{Element, F64_ROUNDOFF};
use fizeau_domain::outcome::Check;

/// Elements that are compared one by one, at least (all of them if there are fewer).
const SAMPLED: usize = 256;

/// Random vectors that C is multiplied with: one misses an error of one element never, an error
/// spread over a row at most half of the time.
const VECTORS: usize = 4;

/// Deviations allowed of a random walk.
pub(super) const DEVIATIONS: f64 = 8.0;

/// One row times each of the random vectors.
type Products = [f64; VECTORS];

/// What a right product is known by; see the module's text.
pub(super) struct Reference<E> {
    /// Columns of C.
    n: usize,
    /// A random sign for each column of C and vector.
    signs: Vec<Products>,
    /// `A (B x)`, row by row of C.
    rows: Vec<Products>,
    /// What rounding of sums may do to a row's products.
    allowed: Vec<f64>,
    sampled: Vec<Sampled>,
    /// Error allowed in an element, relative to `|A||B|`.
    tolerance: f64,
    /// Unit roundoff of C's elements.
    output_roundoff: f64,
    elements: std::marker::PhantomData<E>,
}

/// Unit roundoffs of a product.
#[derive(Clone, Copy)]
pub(super) struct Roundoff {
    /// Of sums; 0 where they are exact.
    pub(super) sum: f64,
    /// Of C's elements where they are narrower than the sums, else 0.
    pub(super) output: f64,
}

impl Roundoff {
    /// Of an element type.
    pub(super) fn of<E: Element>() -> Roundoff {
        Roundoff { sum: E::SUM_ROUNDOFF, output: E::OUTPUT_ROUNDOFF }
    }
}

/// One element of C, known by itself.
struct Sampled {
    at: usize,
    value: f64,
    allowed: f64,
}

impl<E: Element> Reference<E> {
    /// Of values whose product has elements of this type.
    pub(super) fn new<V: Element>(
        a: &[V],
        b: &[V],
        [m, n, k]: [usize; 3],
        roundoff: Roundoff,
        random: &mut oorandom::Rand64,
    ) -> Self {
        let sign =
            |random: &mut oorandom::Rand64| if random.rand_u64() >> 63 == 0 { 1.0 } else { -1.0 };
        let signs: Vec<Products> = (0..n).map(|_| std::array::from_fn(|_| sign(random))).collect();
        let rows = multiply(a, &multiply(b, &signs));
        let tolerance = tolerance(k, roundoff.sum);
        let output_roundoff = roundoff.output;
        let norm_b = squares(b).sqrt();
        let of_signs = if tolerance > 0.0 { F64_ROUNDOFF * (n as f64).sqrt() } else { 0.0 };
        let share = DEVIATIONS * (tolerance + of_signs) * norm_b;
        let allowed = a.chunks(k).map(|row| share * squares(row).sqrt()).collect();
        let sampled = sample(m, n, random)
            .into_iter()
            .map(|at| {
                let (row, column) = (at / n, at % n);
                let pairs = a[row * k..][..k].iter().zip(b[column..].iter().step_by(n));
                let (value, magnitude) = dot(pairs.map(|(a, b)| (a.value(), b.value())));
                let allowed = tolerance * magnitude + output_roundoff * value.abs();
                Sampled { at, value, allowed }
            })
            .collect();
        let elements = std::marker::PhantomData;
        Reference { n, signs, rows, allowed, sampled, tolerance, output_roundoff, elements }
    }

    /// Of the product times a positive factor.
    pub(super) fn times(mut self, factor: f64) -> Self {
        let of_rows = self.rows.iter_mut().flatten().chain(&mut self.allowed);
        let of_sampled = self.sampled.iter_mut().flat_map(|one| [&mut one.value, &mut one.allowed]);
        of_rows.chain(of_sampled).for_each(|value| *value *= factor);
        self
    }

    /// Of C.
    pub(super) fn elements(&self) -> usize {
        self.rows.len() * self.n
    }

    pub(super) fn check(&self, output: &[E]) -> Check {
        let mut worst = 0f64;
        let mut wrong = 0;
        let mut compare = |error: f64, allowed: f64| {
            // In this order, so that what is not a number is wrong.
            wrong += u64::from(!(error <= allowed && error.is_finite()));
            let share = if allowed > 0.0 { error / allowed * self.tolerance } else { error };
            worst = if share.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(share) };
        };
        let products = multiply(output, &self.signs);
        for (row, products) in products.iter().enumerate() {
            let rounding = if self.output_roundoff > 0.0 {
                let row = &output[row * self.n..][..self.n];
                DEVIATIONS * self.output_roundoff * squares(row).sqrt()
            } else {
                0.0
            };
            for (product, expected) in products.iter().zip(&self.rows[row]) {
                compare((product - expected).abs(), self.allowed[row] + rounding);
            }
        }
        for sampled in &self.sampled {
            compare((output[sampled.at].value() - sampled.value).abs(), sampled.allowed);
        }
        Check { error: worst, tolerance: self.tolerance, compared: output.len() as u64, wrong }
    }
}

/// What rounding may do to an element, relative to `|A||B|`: of the kernel's sums, and of the
/// reference's own.
pub(super) fn tolerance(k: usize, sum_roundoff: f64) -> f64 {
    if sum_roundoff == 0.0 {
        return 0.0;
    }
    let roundings = k as f64;
    roundings.min(DEVIATIONS * roundings.sqrt()) * (sum_roundoff + F64_ROUNDOFF)
}

/// A matrix, row by row, times each of the vectors.
fn multiply<E: Element>(matrix: &[E], vectors: &[Products]) -> Vec<Products> {
    let product = |row: &[E]| {
        let mut sums = [0.0; VECTORS];
        for (element, vector) in row.iter().zip(vectors) {
            let value = element.value();
            for (sum, factor) in sums.iter_mut().zip(vector) {
                *sum += value * factor;
            }
        }
        sums
    };
    matrix.chunks(vectors.len()).map(product).collect()
}

pub(super) fn squares<E: Element>(elements: &[E]) -> f64 {
    elements.iter().map(|element| element.value() * element.value()).sum()
}

/// The sum of products and of their magnitudes, the first as if in twice the precision (Ogita,
/// Rump and Oishi, "Accurate sum and dot product", 2005, algorithm 5.3).
fn dot(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut sum, mut lost, mut magnitude) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let product = a * b;
        let next = sum + product;
        let kept = next - sum;
        lost += (sum - (next - kept)) + (product - kept) + a.mul_add(b, -product);
        sum = next;
        magnitude += product.abs();
    }
    (sum + lost, magnitude)
}

/// Places of the elements compared one by one: corners, the middles of edges, and random ones;
/// all of them in a small C.
fn sample(m: usize, n: usize, random: &mut oorandom::Rand64) -> Vec<usize> {
    if m * n <= SAMPLED {
        return (0..m * n).collect();
    }
    let along = |length: usize| [0, length / 2, length - 1];
    let marked = along(m).into_iter().flat_map(|row| along(n).map(|column| row * n + column));
    let drawn = (0..SAMPLED).map(|_| random.rand_range(0..(m * n) as u64) as usize);
    marked.chain(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::element::{E4m3, Tf32},
        *,
    };
    use half::{bf16, f16};
    use proptest::prelude::*;

    const SHAPE: [usize; 3] = [23, 37, 41];

    /// A reference and the right output for it.
    fn right<E: Element>(
        round: impl Fn(f64) -> E::Output,
    ) -> (Reference<E::Output>, Vec<E::Output>) {
        let [m, n, k] = SHAPE;
        let mut random = oorandom::Rand64::new(7);
        let a: Vec<E> = (0..m * k).map(|_| E::random(&mut random)).collect();
        let b: Vec<E> = (0..k * n).map(|_| E::random(&mut random)).collect();
        let element = |at: usize| {
            let pairs = a[at / n * k..][..k].iter().zip(b[at % n..].iter().step_by(n));
            round(pairs.map(|(a, b)| a.value() * b.value()).sum())
        };
        let output = (0..m * n).map(element).collect();
        (Reference::new(&a, &b, SHAPE, Roundoff::of::<E>(), &mut random), output)
    }

    #[test]
    fn right_products_pass() {
        let (reference, output) = right::<f64>(|value| value);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<f32>(|value| value as f32);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<bf16>(bf16::from_f64);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<f16>(f16::from_f64);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<Tf32>(|value| value as f32);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<E4m3>(bf16::from_f64);
        assert!(reference.check(&output).passed());
        let (reference, output) = right::<i8>(|value| value as i32);
        let check = reference.check(&output);
        assert!(check.passed());
        assert_eq!(check.error, 0.0);
        assert_eq!(check.compared, (SHAPE[0] * SHAPE[1]) as u64);
    }

    #[test]
    fn a_product_times_a_factor_is_known_by_it() {
        let factor = 3.7e-6;
        let (reference, output) = right::<bf16>(|value| bf16::from_f64(value * factor));
        assert!(!reference.check(&output).passed());
        let reference = reference.times(factor);
        assert!(reference.check(&output).passed());
        let more: Vec<bf16> =
            output.iter().map(|value| bf16::from_f64(value.to_f64() * 1.02)).collect();
        assert!(!reference.check(&more).passed());
        // What is allowed of an element, here a corner, has become smaller as well.
        let mut output = output;
        output[0] = bf16::from_f64(output[0].to_f64() + 1e-6);
        assert!(!reference.check(&output).passed());
    }

    proptest! {
        #[test]
        fn one_wrong_element_is_found(at in 0..SHAPE[0] * SHAPE[1]) {
            let (reference, mut output) = right::<f32>(|value| value as f32);
            output[at] += 0.01;
            prop_assert!(!reference.check(&output).passed());
            let (reference, mut output) = right::<i8>(|value| value as i32);
            output[at] ^= 1;
            prop_assert!(!reference.check(&output).passed());
            let (reference, mut output) = right::<bf16>(bf16::from_f64);
            output[at] = bf16::NAN;
            prop_assert!(!reference.check(&output).passed());
            output[at] = bf16::INFINITY;
            prop_assert!(!reference.check(&output).passed());
        }

        #[test]
        fn the_dot_product_is_of_higher_precision(seed in 0u64..1000) {
            // Terms that cancel: 1e16 + x - 1e16 loses x in plain sums.
            let x = seed as f64 / 8.0;
            let (sum, _) = dot([(1e8, 1e8), (x, 1.0), (-1e8, 1e8)].into_iter());
            prop_assert_eq!(sum, x);
        }
    }
}
