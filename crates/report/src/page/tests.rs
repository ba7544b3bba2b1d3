//! Pages of comparisons: what leads, what is folded, how large they become.

use std::fmt::Write;
use std::path::Path;

use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};

use crate::chart::Style;
use crate::content::{Report, build};
use crate::figures::Figures;
use crate::input::read;
use crate::page::{render, tables};
use vos::decode::RgbImage;
use vos::overlay::write_jpeg;

const SIDES: [(&str, &str, f64); 4] = [
    ("tensorrt-fp16", "fp16", 400.0),
    ("reduce_overhead-fp16", "fp16", 150.0),
    ("eager-fp16", "fp16", 50.0),
    ("eager-fp32", "fp32", 20.0),
];
const MODELS: [&str; 5] = ["m_a_points", "m_b_points", "m_c_points", "m_d_points", "m_e_points"];

fn settings(side: &str, precision: &str) -> Value {
    let models = json!([{"tag": "m", "precision": precision}]);
    if side.starts_with("tensorrt") {
        return json!({"provider": "cpu", "gpu": {"device": 0}, "models": models});
    }
    let graphs = side.starts_with("reduce");
    json!({"provider": "pytorch", "gpu": null, "implementation": "meta", "models": models,
        "run_mode": if graphs { "compile" } else { "eager" },
        "compile_mode": if graphs { json!("reduce-overhead") } else { Value::Null }})
}

/// A comparison's folder with run folders of `clips` clips and, with `pictures`, small pictures.
fn comparison(dir: &Path, models: &[&str], imgsz: usize, clips: usize, pictures: bool) {
    let verdict = json!({"judgement": "valid", "findings": []});
    let held = json!({"judgement": "invalid", "findings": [
        {"code": "unsteady", "sentence": "eager: the latencies spread by 18 % of their \
                                          mean", "weight": "fault"}]});
    let mut judged = Vec::new();
    for model in models {
        let mut sides = Vec::new();
        let mut ratios = Vec::new();
        for (at, (side, precision, fps)) in SIDES.into_iter().enumerate() {
            let folder = format!("runs/{model}/{side}/from_round_1/round_1");
            let invalid = side == "eager-fp16";
            run_folder(&dir.join(&folder), model, imgsz, (side, precision), fps, clips);
            let shown: Vec<Value> = ["prompt", "best", "median", "worst"]
                .into_iter()
                .map(|kind| {
                    let path = format!("frames/{model}__{side}__{kind}.jpg");
                    if pictures {
                        picture(&dir.join(&path), at);
                    }
                    json!({"kind": kind, "video": "clip_1", "object": "000", "frame": 7, "round": 1,
                        "iou": 0.9985, "picture": path})
                })
                .collect();
            sides.push(json!({"side": side, "precision": precision, "device": "NVIDIA H200",
                "outcome": if side == "eager-fp32" { "reference" } else { "same" },
                "backend": "b", "rounds": 3, "folders": [folder],
                "speed": {"frames": 60 * clips, "fps": fps, "fps_interval": {"low": 0.98 * fps, "high": 1.03 * fps},
                    "round_fps": [fps], "first_frame_ms": 3.0, "p50_ms": 1000.0 / fps},
                "equality": {"same": true, "proves": true, "mean_iou": 0.9997, "min_iou": 0.9985, "shown": shown,
                    "scores": {"objects": clips, "j": 80.0, "f": 84.0, "jf": 82.0, "reference_jf": 82.0, "difference": 0.001}},
                "verdict": if invalid { &held } else { &verdict }}));
            if at > 0 {
                ratios.push(json!({"subject": "tensorrt-fp16", "baseline": side,
                    "times_as_fast": {"ratio": 400.0 / fps, "interval": {"low": 390.0 / fps, "high": 410.0 / fps}},
                    "at_least": if invalid { json!(7.409) } else { Value::Null },
                    "verdict": if invalid { &held } else { &verdict }}));
            }
        }
        judged.push(
            json!({"model": model, "imgsz": imgsz.to_string(), "clips": clips, "objects": clips,
            "sides": sides, "ratios": ratios}),
        );
    }
    let facts: serde_json::Map<String, Value> = SIDES
        .into_iter()
        .map(|(side, precision, _)| {
            (side.to_owned(), json!({"configuration": settings(side, precision)}))
        })
        .collect();
    let curves: Vec<Value> = models
        .iter()
        .flat_map(|model| SIDES.map(|(side, ..)| json!({"model": model, "side": side, "memory": "free",
            "frame": (0..60).collect::<Vec<_>>(), "iou": vec![0.9999; 60], "lowest": vec![0.9985; 60]})))
        .collect();
    let whole = json!({"format": "segtrt comparison result 1", "measured_on": ["2026-11-24"],
        "command": "segtrt compare --models m", "subject": "tensorrt-fp16", "reference": "eager-fp32",
        "models": judged, "drift_curves": curves, "sides": facts});
    std::fs::write(dir.join("comparison.json"), whole.to_string()).unwrap();
}

fn run_folder(
    folder: &Path,
    model: &str,
    imgsz: usize,
    (side, precision): (&str, &str),
    fps: f64,
    clips: usize,
) {
    std::fs::create_dir_all(folder).unwrap();
    let mut table =
        "video,object,model,imgsz,precision,frames,fps,status,device,mode,verdict,verdict_reason\n"
            .to_owned();
    let mut passes = Vec::new();
    for clip in 0..clips {
        let fps = fps * (1.0 + clip as f64 / 1000.0);
        writeln!(
            table,
            "clip_{clip},000,{model},{imgsz},{precision},60,{fps},ok,NVIDIA H200,latency,VALID,"
        )
        .unwrap();
        let times: Vec<f64> =
            (0..60).map(|frame| 1000.0 / fps + f64::from(frame * 37 % 11) / 100.0).collect();
        passes.push(
            json!({"video": format!("clip_{clip}"), "object": "000", "model": model, "run": 0,
            "frame_times": {"latency_ms": times}}),
        );
    }
    std::fs::write(folder.join("profile_summary.csv"), table).unwrap();
    let sidecar = json!({"environment": {"hostname": "vm"}, "configuration": settings(side, precision), "passes": passes});
    std::fs::write(folder.join("sidecar.json"), sidecar.to_string()).unwrap();
}

/// A picture as large as that of a busy scene.
fn picture(path: &Path, seed: usize) {
    let (width, height) = (484, 135);
    let noise = |at: usize| (at.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 13) as u8;
    let data =
        (0..3 * width * height).map(|at| 96 + noise(at / 24) % 64 + noise(at) % 12).collect();
    write_jpeg(path, &RgbImage { width, height, data }).unwrap();
}

fn report_of(paths: &[&Path]) -> Report {
    let given: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    build(read(&given, &[]).unwrap(), None, "then".into())
}

fn page_of(report: &Report) -> String {
    render(report, &Figures::of(report, Style::Page), "T")
}

fn all<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

fn text(element: &ElementRef<'_>) -> String {
    element.text().flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_side_at_the_power_limit_is_marked_wherever_its_verdict_stands() {
    let dir = tempfile::tempdir().unwrap();
    comparison(dir.path(), &MODELS[..1], 1024, 2, false);
    let file = dir.path().join("comparison.json");
    let mut whole: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let limited = json!({"judgement": "valid",
        "findings": [{"code": "power_limited", "sentence": "at 700 W", "weight": "note"}]});
    whole["models"][0]["sides"][0]["verdict"] = limited.clone();
    whole["models"][0]["ratios"][0]["verdict"] = limited;
    std::fs::write(&file, whole.to_string()).unwrap();
    let page = Html::parse_document(&page_of(&report_of(&[dir.path()])));
    let [figure, table] =
        ["#plot-fps svg", "#proof table"].map(|place| text(&all(&page, place)[0]));
    // The side, and the ratio to another one that rests on it.
    assert_eq!(figure.matches("VALID *").count(), 2, "{figure}");
    assert_eq!(table.matches("✓ VALID (power limit)").count(), 2, "{table}");
    let section = text(&all(&page, "#proof")[0]);
    assert!(
        section.contains("*: of a side at its power limit, and at this limit only."),
        "{section}"
    );
}

#[test]
fn a_comparison_leads_with_its_proof_and_then_shows_masks() {
    let dir = tempfile::tempdir().unwrap();
    comparison(dir.path(), &MODELS[..2], 1024, 2, true);
    let report = report_of(&[dir.path()]);
    let page = Html::parse_document(&page_of(&report));
    let sections: Vec<&str> = all(&page, "section").iter().filter_map(|s| s.attr("id")).collect();
    assert_eq!(sections[..2], ["proof", "masks"]);
    let figure = text(&all(&page, "#plot-fps svg")[0]);
    for told in [
        "segtrt TensorRT fp16",
        "PyTorch CUDA graphs fp16",
        "150.0 ± 4.5",
        "0.9985",
        "≥ 7.40 ×",
        "INVALID",
    ] {
        assert!(figure.contains(told), "no {told:?} in {figure}");
    }
    // A whisker for each side.
    assert_eq!(all(&page, "#plot-fps svg path.ink").len(), 8);
    assert_eq!(all(&page, "#masks img").len(), 2 * 4 * 4);
    // No speed of its own for rows of the comparison: that of the comparison, and its scores.
    let summary = text(&all(&page, "#summary tbody tr")[0]);
    assert!(summary.contains("82.00"), "{summary}");
    let speeds: Vec<Option<f64>> = report.groups.iter().map(|group| group.mean("fps")).collect();
    assert!(speeds.contains(&Some(400.0)) && speeds.contains(&Some(20.0)), "{speeds:?}");
    assert!(report.groups.iter().all(|group| group.side), "round folders are sides");
    assert!(!sections.contains(&"platforms"), "sides are no platforms");
    // The reasons are folded.
    assert!(all(&page, "#proof details[open]").is_empty());
    assert!(text(&all(&page, "#proof details")[0]).contains("spread by 18 %"));
}

#[test]
fn sizes_are_never_in_one_plot_and_a_side_has_one_colour() {
    let dir = tempfile::tempdir().unwrap();
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    comparison(&large, &MODELS[..1], 1024, 2, false);
    comparison(&small, &MODELS[..1], 512, 2, false);
    let report = report_of(&[&large, &small]);
    let figures = Figures::of(&report, Style::Page);
    let names: Vec<&str> = figures.all().map(|plot| plot.name.as_str()).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    for name in
        ["fps_1024", "fps_512", "drift_m_a_points_1024", "drift_m_a_points_512", "latency_ecdf_512"]
    {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    let page = Html::parse_document(&page_of(&report));
    for curve in all(&page, "#drift svg path.s0 title") {
        assert_eq!(text(&curve), "segtrt TensorRT fp16");
    }
    assert_eq!(all(&page, "#drift svg path.s0 title").len(), 2, "the same colour in both plots");
}

#[test]
fn fifty_clips_of_five_models_and_four_sides_are_a_small_page() {
    let dir = tempfile::tempdir().unwrap();
    comparison(dir.path(), &MODELS, 1024, 50, true);
    let report = report_of(&[dir.path()]);
    assert_eq!(report.rows.len(), 50 * 5 * 4);
    let source = page_of(&report);
    assert!(source.len() < 5_000_000, "the page has {} bytes", source.len());
    let page = Html::parse_document(&source);
    let pictures = all(&page, "#masks img").len();
    assert_eq!(pictures + report.gallery.omitted, 5 * 4 * 4);
    assert!(pictures >= 60, "only {pictures} pictures");
    // What a browser lays out in well under a second.
    let elements = all(&page, "*").len();
    assert!(elements < 60_000, "the page has {elements} elements");
    let names: Vec<String> =
        tables(&report, &Figures::of(&report, Style::Page)).into_iter().map(|t| t.name).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
}

#[test]
fn memory_by_use_roofline_and_projections_are_shown_where_they_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let (told, other) = (dir.path().join("told"), dir.path().join("other"));
    for folder in [&told, &other] {
        run_folder(folder, "edgetam_points", 512, ("tensorrt", "fp16"), 100.0, 2);
    }
    let without = page_of(&report_of(&[&other]));
    for never in
        ["memory bank MiB", "% of roofline", "p99 ms", "Enqueue time and launches", "Projected ms"]
    {
        assert!(!without.contains(never), "{never}");
    }
    // The same run with what a GPU pipeline says of its memory, and with stages.
    let path = told.join("sidecar.json");
    let mut sidecar: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let device = json!({"weights": 28.1, "activations": 62.7, "inputs": 6.5, "features": 14.2,
        "bank": 3.6, "outputs": 1.9, "own": 0.4, "outside": 311.0, "engines": []});
    sidecar["memory"] = json!({"edgetam_points": {"device": device}});
    for pass in sidecar["passes"].as_array_mut().unwrap() {
        pass["frame_times"]["encoder_ms"] = json!(vec![4.0; 60]);
    }
    std::fs::write(&path, sidecar.to_string()).unwrap();
    let table = told.join("profile_summary.csv");
    let rows = std::fs::read_to_string(&table).unwrap();
    let lines = rows.lines().enumerate().map(|(at, line)| match at {
        0 => format!(
            "{line},encoder_roofline,encoder_p50_ms,encoder_p99_ms,enqueue_ms,launches,\
             encoder_profiled_ms,encoder_projected_ms\n"
        ),
        1 => format!("{line},0.2,3.75,8.5,0.25,41,5.0,4.0\n"),
        _ => format!("{line},0.3,3.25,9.5,0.75,43,6.0,\n"),
    });
    std::fs::write(&table, lines.collect::<String>()).unwrap();
    let page = Html::parse_document(&page_of(&report_of(&[&told])));
    let rows: Vec<String> = all(&page, "tr").iter().map(text).collect();
    let memory = rows.iter().find(|row| row.contains("62.7")).expect("memory by use");
    assert!(memory.contains("28.1") && memory.contains("311.0"), "{memory}");
    // The mean of 20 and 30 %.
    let encoder = rows.iter().find(|row| row.starts_with("Inference: encoder 4.000")).unwrap();
    assert!(encoder.ends_with("25.0"), "{encoder}");
    assert!(encoder.starts_with("Inference: encoder 4.000 4.000 3.500 9.000"), "{encoder}");
    let page_text = text(&page.root_element());
    assert!(page_text.contains("Enqueue time and launches"));
    assert!(page_text.contains("Not measured in any line: Enqueue P99 ms, Graph launches."));
    let calls = rows.iter().find(|row| row.ends_with("0.500 42")).expect("mean of the rows");
    assert!(calls.starts_with("edgetam_points"), "{calls}");
    // Of the one row that has a projection.
    assert!(rows.iter().any(|row| row == "Inference: encoder 5.000 4.000 1.000 20.0"), "{rows:?}");
}
