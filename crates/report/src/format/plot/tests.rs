use super::*;

#[test]
fn ticks_are_round() {
    let sizes: Vec<_> = binary_ticks(11.5, 30.5)
        .into_iter()
        .map(|place| label(Quantity::Size, place.exp2()))
        .collect();
    assert_eq!(sizes, ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"]);
    let times: Vec<_> = decimal_ticks(0.9e-9f64.log2(), 120e-9f64.log2())
        .into_iter()
        .map(|place| label(Quantity::Time, place.exp2()))
        .collect();
    assert_eq!(times, ["1 ns", "2 ns", "5 ns", "10 ns", "20 ns", "50 ns", "100 ns"]);
    let narrow: Vec<_> = decimal_ticks(49.2e-3f64.log2(), 51.9e-3f64.log2())
        .into_iter()
        .map(|place| label(Quantity::Time, place.exp2()))
        .collect();
    assert_eq!(narrow, ["49.5 ms", "50 ms", "50.5 ms", "51 ms", "51.5 ms"]);
    assert_eq!(even_ticks(47.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
}

/// The x, the anchor and the words of each text of a picture.
fn texts(svg: &str) -> Vec<(i32, String, String)> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let text = |part: &str| {
        let (tag, rest) = part.split_once('>')?;
        let (words, _) = rest.split_once('<')?;
        let x = attribute(tag, "x")?.parse().ok()?;
        let anchor = attribute(tag, "text-anchor").unwrap_or_default();
        Some((x, anchor, words.trim().to_owned()))
    };
    svg.split("<text").skip(1).filter_map(text).collect()
}

#[test]
fn a_phone_has_a_narrow_picture_with_all_its_words_inside() {
    let axis =
        |title: &str, quantity| Axis { title: title.into(), quantity, scale: Scale::Logarithmic };
    let series = |name: &str, kind| Series {
        name: name.into(),
        kind,
        points: vec![(4096.0, 1e9), (65536.0, 5e8), (2f64.powi(27), 1e8)],
        cases: Vec::new(),
    };
    let chart = Chart {
        name: "bandwidth".into(),
        title: "Bandwidth".into(),
        caption: String::new(),
        x: axis("working set", Quantity::Time),
        y: axis("bandwidth", Quantity::Bandwidth),
        series: vec![
            series("a curve with a long name", SeriesKind::Curve),
            series("the datasheet", SeriesKind::Limit),
            series("points", SeriesKind::Points),
        ],
        marks: Vec::new(),
    };
    for (dress, width) in [(Dress::Page, 1240), (Dress::Phone, 716)] {
        let svg = svg(&chart, dress).expect("a picture");
        let all = texts(&svg);
        assert!(all.len() > 8, "{svg}");
        for name in chart.series.iter().map(|series| &series.name) {
            assert!(all.iter().any(|(.., words)| words == name), "{name} in {svg}");
        }
        for (x, anchor, words) in &all {
            let wide = words.chars().count() as i32 * 13;
            let (from, to) = match anchor.as_str() {
                "middle" => (x - wide / 2, x + wide / 2),
                "end" => (x - wide, *x),
                _ => (*x, x + wide),
            };
            assert!(from >= 0 && to <= width, "{words} at {from} to {to} of {width}");
        }
    }
}

#[test]
fn names_are_a_line_apart_and_inside() {
    let mut heights = [100, 101, 102, 790, 795];
    spread(&mut heights, 50, 800);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE), "{heights:?}");
    assert!(heights.iter().all(|height| (50..=800).contains(height)), "{heights:?}");
}
