//! Where the key of a chart stands: in the corner of the plot that fewest points lie in.

/// A rectangle in pixels of the picture; `y` grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Left edge.
    pub left: i32,
    /// Upper edge.
    pub top: i32,
    /// Right edge.
    pub right: i32,
    /// Lower edge.
    pub bottom: i32,
}

impl Frame {
    fn holds(&self, (x, y): (i32, i32)) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }
}

/// Points that are looked at between two neighbours of a curve.
const BETWEEN: i32 = 8;

/// The part of a plot for a key of a width and a height: the lower right corner, or another one
/// that fewer curves and points pass through.
pub fn frame(plot: Frame, (wide, high): (i32, i32), curves: &[Vec<(i32, i32)>]) -> Frame {
    let of = |is_left: bool, is_top: bool| {
        let left = if is_left { plot.left } else { plot.right - wide };
        let top = if is_top { plot.top } else { plot.bottom - high };
        Frame { left, top, right: left + wide, bottom: top + high }
    };
    let places: Vec<(i32, i32)> = curves.iter().flat_map(|curve| filled(curve)).collect();
    let crossed = |frame: &Frame| places.iter().filter(|place| frame.holds(**place)).count();
    // The first of those with the fewest.
    let corners = [of(false, false), of(true, false), of(true, true), of(false, true)];
    let [usual, ..] = corners;
    corners.into_iter().min_by_key(crossed).unwrap_or(usual)
}

/// A curve's points and others on the lines between them.
fn filled(curve: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let between = |pair: &[(i32, i32)]| {
        let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
        (1..BETWEEN)
            .map(move |at| (x + (to_x - x) * at / BETWEEN, y + (to_y - y) * at / BETWEEN))
            .collect::<Vec<_>>()
    };
    curve.iter().copied().chain(curve.windows(2).flat_map(between)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Frame = Frame { left: 0, top: 0, right: 1000, bottom: 600 };

    #[test]
    fn a_key_stands_where_no_curve_is() {
        let size = (300, 100);
        let usual = frame(PLOT, size, &[]);
        assert_eq!((usual.left, usual.top), (700, 500), "the lower right corner");
        // A front that falls to the right ends in that corner.
        let falling = vec![(0, 0), (600, 200), (900, 590)];
        let other = frame(PLOT, size, std::slice::from_ref(&falling));
        assert_eq!((other.left, other.top), (0, 500), "the lower left one is empty");
        assert!(!filled(&falling).iter().any(|place| other.holds(*place)));
        // A line may cross a corner although its ends lie beyond it.
        let crossing = vec![(0, 560), (1000, 560)];
        let above = frame(PLOT, size, &[crossing, falling]);
        assert_eq!((above.left, above.top), (700, 0));
    }
}
