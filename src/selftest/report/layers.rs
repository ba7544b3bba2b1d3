/*!
The layers' times as CSV: one line a layer, in the order in which the engine runs them.
*/

use std::path::Path;

use anyhow::Result;

use crate::selftest::EngineRow;
use vos::files::atomic;

/// Writes the layers of each case once, though the case has a row for each of its outputs.
pub fn write(path: &Path, rows: &[EngineRow]) -> Result<()> {
    atomic::write(path, |out| {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record([
            "platform",
            "model",
            "imgsz",
            "precision",
            "role",
            "profile",
            "case",
            "position",
            "layer",
            "median_ms",
            "share",
            "plan",
        ])?;
        let mut last = None;
        for row in rows {
            let of = (&row.engine, &row.plan, row.profile, &row.case);
            if last.replace(of) == Some(of) {
                continue;
            }
            let total: f64 = row.cost.layers.iter().map(|layer| layer.median_ms).sum();
            for (position, layer) in row.cost.layers.iter().enumerate() {
                let engine = &row.engine;
                writer.write_record([
                    engine.platform.clone(),
                    engine.model.clone(),
                    engine.imgsz.to_string(),
                    engine.precision.to_string(),
                    row.role.map_or_else(String::new, |role| role.name().to_owned()),
                    row.profile.map_or_else(String::new, |profile| profile.to_string()),
                    row.case.clone(),
                    position.to_string(),
                    layer.layer.clone(),
                    format!("{:.5}", layer.median_ms),
                    format!("{:.4}", layer.median_ms / total.max(f64::MIN_POSITIVE)),
                    row.plan.clone().unwrap_or_default(),
                ])?;
            }
        }
        Ok(writer.flush()?)
    })
}
