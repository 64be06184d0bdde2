//! The colours of charts: readers of any colour vision tell them apart, in both modes of the page.

use fizeau_report::format::plot::{MUTED, PALETTE};
use std::fs;

/// Red, green and blue, linear, 0..1.
type Colour = [f64; 3];

/// What people with normal vision see, and those without one kind of cone: linear RGB to linear
/// RGB. Source: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
/// Color Vision Deficiency" (2009), severity 1.
const VISIONS: [(&str, [Colour; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

/// Distance in CIELAB (CIE 1976) from which on two colours are told apart at a glance; a difference
/// of 2.3 can just be noticed (Mahy, Van Eycken and Oosterlinck, 1994).
const DISTANCE_MIN: f64 = 12.0;

/// Contrast that text needs (WCAG 2.1, 1.4.3): names stand in the colours of their curves.
const CONTRAST_MIN: f64 = 4.5;

fn linear(hex: &str) -> Colour {
    let channel = |at: usize| {
        let value = u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    [channel(0), channel(2), channel(4)]
}

fn product(matrix: &[Colour; 3], colour: Colour) -> Colour {
    matrix.map(|row| row.iter().zip(colour).map(|(a, b)| a * b).sum())
}

/// CIELAB under D65.
fn lab(colour: Colour) -> Colour {
    const XYZ: [Colour; 3] = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ];
    let of = |value: f64| {
        if value > 216.0 / 24389.0 { value.cbrt() } else { (24389.0 / 27.0 * value + 16.0) / 116.0 }
    };
    let [x, y, z] = product(&XYZ, colour);
    let [x, y, z] = [of(x / 0.95047), of(y), of(z / 1.08883)];
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(one: &str, other: &str, vision: &[Colour; 3]) -> f64 {
    let seen = |hex| lab(product(vision, linear(hex)).map(|channel| channel.clamp(0.0, 1.0)));
    let (one, other) = (seen(one), seen(other));
    one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn contrast(one: &str, other: &str) -> f64 {
    let luminance =
        |hex| linear(hex).iter().zip([0.2126, 0.7152, 0.0722]).map(|(a, b)| a * b).sum::<f64>();
    let (one, other): (f64, f64) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The colours of points and curves in the order of their use, then that of limits; and the page's.
struct Mode {
    name: &'static str,
    page: String,
    colours: Vec<String>,
}

/// Of the pictures, and what the page's style makes of them where the reader prefers a dark one.
fn modes() -> [Mode; 2] {
    let style = fs::read_to_string("crates/report/src/format/html/style.css").expect("the style");
    let hex = |colour: &plotters::style::RGBColor| {
        format!("{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
    };
    let light: Vec<String> = PALETTE.iter().chain([&MUTED]).map(hex).collect();
    let after = |text: &str, mark: &str| {
        let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("{mark}"));
        rest.split(';').next().expect("a value").trim().trim_start_matches('#').to_uppercase()
    };
    let dark = light.iter().map(|hex| {
        let [fill, stroke] = ["fill", "stroke"].map(|attribute| {
            after(&style, &format!(".chart svg [{attribute}=\"#{hex}\"] {{ {attribute}:"))
        });
        assert!(fill == stroke || *hex == light[light.len() - 1], "{hex}: {fill} and {stroke}");
        fill
    });
    let dark: Vec<String> = dark.collect();
    let (first, second) = style.split_once("@media (prefers-color-scheme: dark)").expect("both");
    let page = |text: &str| after(text, "--page:");
    [
        Mode { name: "light", page: page(first), colours: light },
        Mode { name: "dark", page: page(second), colours: dark },
    ]
}

/// Pairs that are too near each other for a kind of reader, and colours too near the page's.
fn faults(mode: &Mode) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, one) in mode.colours.iter().enumerate() {
        let contrast = contrast(one, &mode.page);
        if contrast < CONTRAST_MIN {
            faults.push(format!("{}: {one} has a contrast of {contrast:.1}", mode.name));
        }
        for other in &mode.colours[..at] {
            for (vision, matrix) in &VISIONS {
                let distance = distance(one, other, matrix);
                if distance < DISTANCE_MIN {
                    let apart = format!("{distance:.1} apart by {vision}");
                    faults.push(format!("{}: {one} and {other} are {apart}", mode.name));
                }
            }
        }
    }
    faults
}

#[test]
fn points_and_curves_are_told_apart_by_every_reader_in_both_modes() {
    let faults: Vec<String> = modes().iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn colours_that_only_some_readers_tell_apart_are_found() {
    let colours = ["C84C09", "8A6200", "DDE2E8"].map(str::to_owned).to_vec();
    let faults = faults(&Mode { name: "planted", page: "FFFFFF".into(), colours });
    assert!(faults.iter().any(|one| one.contains("protanopia")), "{faults:?}");
    assert!(faults.iter().any(|one| one.contains("contrast of 1")), "{faults:?}");
}
