/*!
The rows of a table of boards: one for each model.
*/

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::cell;

/// One model on one board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The device and, on a Jetson, its power mode.
    pub board: String,
    /// TensorRT or ONNX Runtime with its version, and the system.
    pub software: String,
    /// Model tag.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Precision of the network.
    pub precision: String,
    /// Frames of all objects over their time.
    pub fps: f64,
    /// Mean of the objects' median latencies, ms.
    pub p50_ms: Option<f64>,
    /// Mean J&F of the objects, percent.
    pub jf_percent: Option<f64>,
    /// Mean power, W.
    pub power_w: Option<f64>,
    /// Objects that were measured.
    pub objects: usize,
    /// Objects whose row is VALID.
    pub valid: usize,
}

/// A row for each model that was measured, in the order of the summary.
pub fn rows(results: &Path, summary: &[BTreeMap<String, String>]) -> Vec<Row> {
    let sidecar = std::fs::read(results.join("bench/sidecar.json")).unwrap_or_default();
    let sidecar: Value = serde_json::from_slice(&sidecar).unwrap_or_default();
    let environment = &sidecar["environment"];
    let mut models: Vec<&str> = Vec::new();
    for row in summary {
        if !models.contains(&cell(row, "model")) {
            models.push(cell(row, "model"));
        }
    }
    let of_model = |model: &str| {
        let all: Vec<_> = summary.iter().filter(|row| cell(row, "model") == model).collect();
        let measured: Vec<_> =
            all.iter().copied().filter(|row| number(row, "fps").is_some()).collect();
        let first = measured.first()?;
        let frames = |row: &BTreeMap<_, _>| number(row, "frames").unwrap_or_default();
        let time: f64 =
            measured.iter().filter_map(|row| Some(frames(row) / number(row, "fps")?)).sum();
        let power_mode = environment["gpu"]["power_mode"].as_str();
        let mode = power_mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
        Some(Row {
            board: format!("{}{mode}", cell(first, "device")),
            software: software(cell(first, "backend"), environment),
            model: model.to_owned(),
            imgsz: cell(first, "imgsz").to_owned(),
            precision: cell(first, "precision").to_owned(),
            fps: measured.iter().map(|row| frames(row)).sum::<f64>() / time,
            p50_ms: mean(&measured, "latency_p50_ms"),
            jf_percent: mean(&measured, "JandF").map(|jf| 100.0 * jf),
            power_w: mean(&measured, "power_w"),
            objects: all.len(),
            valid: all.iter().filter(|row| cell(row, "verdict") == "VALID").count(),
        })
    };
    models.into_iter().filter_map(of_model).collect()
}

/// The library that ran the network, with its version (`tensorrt 10.3.0`), and the system.
fn software(backend: &str, environment: &Value) -> String {
    let library: Vec<&str> = backend.split(' ').take(2).collect();
    let system = environment["system"].as_str().unwrap_or("unknown system");
    format!("{}, {system}", library.join(" "))
}

fn number(row: &BTreeMap<String, String>, column: &str) -> Option<f64> {
    cell(row, column).parse().ok().filter(|value: &f64| value.is_finite())
}

fn mean(rows: &[&BTreeMap<String, String>], column: &str) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(|row| number(row, column)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The rows as Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mut text = "| board | software | model | imgsz | precision | FPS | p50, ms | J&F, % | \
                    power, W | VALID |\n|---|---|---|--:|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        text += &format!(
            "| {} | {} | {} | {} | {} | {:.1} | {} | {} | {} | {} of {} |\n",
            row.board,
            row.software,
            row.model,
            row.imgsz,
            row.precision,
            row.fps,
            shown(row.p50_ms, 2),
            shown(row.jf_percent, 1),
            shown(row.power_w, 1),
            row.valid,
            row.objects
        );
    }
    text
}
