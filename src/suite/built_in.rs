/*!
The predecessor's three suites: names, image sizes and strides are its own.

SA-V is annotated on every fourth frame, so an annotation stride of 6 scores every twelfth frame and
not every sixth; the descriptions say what is scored.
*/

use super::{Experiment, Suite};
use vos::strides::Strides;

/// Their names, as they are typed.
pub(super) const NAMES: [&str; 3] = ["additional", "lowfps", "stride_sweep"];

/// Name, description, image size, input stride, annotation stride.
type BuiltIn = (&'static str, &'static str, usize, usize, usize);

const ADDITIONAL: [BuiltIn; 2] = [
    ("imgsz512_baseline", "512 pixels, every frame, every annotation", 512, 1, 0),
    (
        "imgsz768_stride6",
        "768 pixels, every frame, annotations on multiples of 6 frames (SA-V: 2 Hz)",
        768,
        1,
        6,
    ),
];

const LOW_FPS: [BuiltIn; 2] = [
    (
        "imgsz768_input12_anno6",
        "768 pixels, 12 frames a second, annotations on multiples of 4 frames (6 Hz)",
        768,
        2,
        4,
    ),
    (
        "imgsz512_input24_anno6",
        "512 pixels, 24 frames a second, annotations on multiples of 4 frames (6 Hz)",
        512,
        1,
        4,
    ),
];

const STRIDE_SWEEP: [BuiltIn; 4] = [
    ("imgsz768_stride8", "768 pixels, every 8th frame fed and scored (3 Hz)", 768, 8, 8),
    ("imgsz1024_stride4", "1024 pixels, every 4th frame fed and scored (6 Hz)", 1024, 4, 4),
    (
        "imgsz1024_stride6",
        "1024 pixels, every 6th frame fed (4 Hz), scored where annotated (SA-V: 2 Hz)",
        1024,
        6,
        6,
    ),
    ("imgsz1024_stride8", "1024 pixels, every 8th frame fed and scored (3 Hz)", 1024, 8, 8),
];

/// The suite of that name; hyphens and underscores are the same.
pub(super) fn find(text: &str) -> Option<Suite> {
    let name = text.replace('-', "_");
    let (rows, summary): (&[BuiltIn], &str) = match name.as_str() {
        "additional" => (&ADDITIONAL, "additional_experiments_summary.csv"),
        "lowfps" => (&LOW_FPS, "lowfps_suite_summary.csv"),
        "stride_sweep" => (&STRIDE_SWEEP, "stride_sweep_summary.csv"),
        _ => return None,
    };
    let experiment = |&(name, description, imgsz, input, annotation): &BuiltIn| Experiment {
        name: name.to_owned(),
        description: description.to_owned(),
        imgsz: Some(imgsz),
        strides: Strides { input, annotation },
    };
    let experiments = rows.iter().map(experiment).collect();
    Some(Suite { name, summary: summary.to_owned(), experiments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predecessors_experiments_are_here() {
        let told: Vec<String> = NAMES
            .iter()
            .flat_map(|name| {
                let suite = find(name).unwrap();
                let line = |e: &Experiment| {
                    let Strides { input, annotation } = e.strides;
                    format!("{} {} {:?} {input} {annotation}", suite.summary, e.name, e.imgsz)
                };
                suite.experiments.iter().map(line).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            told,
            [
                "additional_experiments_summary.csv imgsz512_baseline Some(512) 1 0",
                "additional_experiments_summary.csv imgsz768_stride6 Some(768) 1 6",
                "lowfps_suite_summary.csv imgsz768_input12_anno6 Some(768) 2 4",
                "lowfps_suite_summary.csv imgsz512_input24_anno6 Some(512) 1 4",
                "stride_sweep_summary.csv imgsz768_stride8 Some(768) 8 8",
                "stride_sweep_summary.csv imgsz1024_stride4 Some(1024) 4 4",
                "stride_sweep_summary.csv imgsz1024_stride6 Some(1024) 6 6",
                "stride_sweep_summary.csv imgsz1024_stride8 Some(1024) 8 8",
            ]
        );
        assert_eq!(find("stride-sweep"), find("stride_sweep"));
        assert_eq!(find("strides"), None);
    }
}
