//! Contrast by WCAG 2; colour blindness by the matrices of Machado, Oliveira and Fernandes (2009).

use super::*;

/// Linear red, green and blue, 0..1.
fn linear(hex: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |hex| {
        let [red, green, blue] = linear(hex);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    };
    let (a, b) = (luminance(one), luminance(other));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

const EYES: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ],
    ),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.3039],
        ],
    ),
];

fn lab(eye: &[[f64; 3]; 3], hex: &str) -> [f64; 3] {
    let colour = linear(hex);
    let [red, green, blue] =
        eye.map(|row| row.iter().zip(colour).map(|(m, c)| m * c).sum::<f64>().clamp(0.0, 1.0));
    let x = 0.4124 * red + 0.3576 * green + 0.1805 * blue;
    let y = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    let z = 0.0193 * red + 0.1192 * green + 0.9505 * blue;
    let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let (x, y, z) = (f(x / 0.95047), f(y), f(z / 1.08883));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

#[test]
fn text_and_series_stand_out_from_what_is_behind_them() {
    for theme in [&LIGHT, &DARK] {
        for text in [theme.ink, theme.muted, theme.accent, theme.good, theme.bad, theme.warn] {
            for behind in [theme.page, theme.card] {
                assert!(
                    contrast(text, behind) >= 4.5,
                    "{text} on {behind}: {}",
                    contrast(text, behind)
                );
            }
        }
        for series in theme.series {
            assert!(contrast(series, theme.card) >= 3.0, "{series} on {}", theme.card);
        }
    }
}

#[test]
fn series_stay_apart_for_every_kind_of_eye() {
    for theme in [&LIGHT, &DARK] {
        for (name, eye) in &EYES {
            for (at, one) in theme.series.iter().enumerate() {
                for other in &theme.series[at + 1..] {
                    let (a, b) = (lab(eye, one), lab(eye, other));
                    let apart = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                    assert!(apart >= 12.0, "{one} and {other} are {apart:.1} apart with {name}");
                }
            }
        }
    }
}

#[test]
fn files_have_literal_colours_and_pages_have_none() {
    assert!(!file_rules(&LIGHT).contains("var(") && file_rules(&LIGHT).contains(LIGHT.series[7]));
    assert!(!page_rules().contains('#') && page_rules().contains("var(--c7)"));
    assert!(DARK.variables().contains("--card:#181c22;"));
}
