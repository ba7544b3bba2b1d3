/*!
`jetson_benchmark_summary.csv`: the rows of all models in the predecessor's order and columns, ours
behind them.

Values are taken over from each model's own summary as they stand there, so that no number can
change on the way.
*/

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};

use vos::files::atomic;
use vos::files::python_format::{Cell, write_csv_row};

/// File name, the predecessor's.
pub const FILE_NAME: &str = "jetson_benchmark_summary.csv";

/// The predecessor's columns, in order.
const COLUMNS: [&str; 15] = [
    "video",
    "object",
    "model",
    "imgsz",
    "frames",
    "fps",
    "latency_ms",
    "gpu_peak_alloc_MiB",
    "gpu_peak_reserved_MiB",
    "cpu_peak_rss_MiB",
    "J",
    "JandF_proxy",
    "overlay",
    "cudnn_benchmark",
    "setup_ms",
];

/// One model's rows as they stand in its summary.
#[derive(Clone, Debug, Default)]
pub struct ModelRows {
    /// Their folder, below that of the table of all models.
    folder: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Most system memory in use while it ran, of all programs, MiB.
    pub system_peak_used_mib: Option<f64>,
}

impl ModelRows {
    /// Reads `sav_benchmark_summary.csv` of a model; `folder` is where it lies, below the folder of
    /// the table of all models.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub fn read(path: &Path, folder: &str, system_peak_used_mib: Option<f64>) -> Result<Self> {
        let damaged = || format!("cannot read the rows in {}", path.display());
        let mut reader = csv::Reader::from_path(path).with_context(damaged)?;
        let header = reader.headers().with_context(damaged)?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for row in reader.records() {
            rows.push(row.with_context(damaged)?.iter().map(str::to_owned).collect());
        }
        Ok(Self { folder: folder.to_owned(), header, rows, system_peak_used_mib })
    }

    /// One column; empty where there is none of that name.
    pub fn column(&self, name: &str) -> Vec<&str> {
        let at = self.header.iter().position(|column| column == name);
        at.map_or_else(Vec::new, |at| {
            self.rows.iter().filter_map(|row| row.get(at)).map(String::as_str).collect()
        })
    }

    /// The largest number of a column; none where no row has one.
    pub fn largest(&self, name: &str) -> Option<f64> {
        self.column(name).iter().filter_map(|text| text.parse().ok()).reduce(f64::max)
    }

    /// The mean of a column over the rows that have a number.
    pub fn mean(&self, name: &str) -> Option<f64> {
        let values: Vec<f64> =
            self.column(name).iter().filter_map(|text| text.parse().ok()).collect();
        vos::stats::mean(&values)
    }
}

/// The rows of all models.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Clips in order.
    pub videos: Vec<String>,
    /// Clip → frames of the whole clip.
    pub clip_frames: HashMap<String, usize>,
    /// Models in order.
    pub models: Vec<ModelRows>,
}

impl Summary {
    /// Header and rows: by clip, object, model.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut header: Vec<String> = COLUMNS.iter().map(|name| (*name).to_owned()).collect();
        header.push("video_frames".to_owned());
        for name in self.models.iter().flat_map(|model| &model.header) {
            if !header.contains(name) {
                header.push(name.clone());
            }
        }
        header.push("system_peak_used_MiB".to_owned());
        let mut objects: HashMap<(String, String), usize> = HashMap::new();
        let mut rows = Vec::new();
        for (model_at, model) in self.models.iter().enumerate() {
            let place: HashMap<&str, usize> =
                model.header.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
            for row in &model.rows {
                let field = |name: &str| -> String {
                    place.get(name).and_then(|at| row.get(*at)).cloned().unwrap_or_default()
                };
                let (video, object) = (field("video"), field("object"));
                let at = self.videos.iter().position(|name| *name == video);
                let seen = objects.len();
                let object = *objects.entry((video.clone(), object)).or_insert(seen);
                let cells = header.iter().map(|name| match name.as_str() {
                    // That generation of the predecessor scored J alone and called it both.
                    "JandF_proxy" => field("J"),
                    "cudnn_benchmark" => Cell::Bool(false).to_string(),
                    "video_frames" => {
                        Cell::count(self.clip_frames.get(&video).copied()).to_string()
                    }
                    "system_peak_used_MiB" => {
                        Cell::rounded(model.system_peak_used_mib, 1).to_string()
                    }
                    "overlay" => match field("overlay") {
                        path if path.is_empty() => path,
                        path => format!("{}/{path}", model.folder),
                    },
                    name => field(name),
                });
                rows.push(((at.unwrap_or(usize::MAX), object, model_at), cells.collect()));
            }
        }
        rows.sort_by_key(|(order, _): &(_, Vec<String>)| *order);
        (header, rows.into_iter().map(|(_, cells)| cells).collect())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, path: &Path) -> Result<()> {
        let (header, rows) = self.table();
        atomic::write(path, |out| {
            write_csv_row(out, &header)?;
            for row in &rows {
                write_csv_row(out, row)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(dir: &Path, name: &str, rows: &[&str]) -> ModelRows {
        let path = dir.join(name);
        let header = "video,object,model,imgsz,precision,frames,fps,J,F,JandF,overlay,status";
        std::fs::write(&path, format!("{header}\r\n{}\r\n", rows.join("\r\n"))).unwrap();
        ModelRows::read(&path, "runs/m", Some(1234.56)).unwrap()
    }

    #[test]
    fn rows_of_all_models_stand_by_clip_object_and_model_with_the_old_columns_first() {
        let dir = tempfile::tempdir().unwrap();
        let a =
            ["b,001,m1,256,fp32,9,2.5,0.5,0.7,0.6,o.mp4,ok", "b,000,m1,256,fp32,9,3.0,0.25,,,,ok"];
        let a = model(dir.path(), "a", &[a[0], a[1], "a,1,m1,256,fp32,,,,,,,failed"]);
        let b = model(dir.path(), "b", &["b,000,m2,256,fp32,9,4.0,0.75,0.7,0.6,,ok"]);
        let summary = Summary {
            videos: vec!["b".into(), "a".into()],
            clip_frames: HashMap::from([("b".to_owned(), 12)]),
            models: vec![a, b],
        };
        let path = dir.path().join(FILE_NAME);
        summary.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            lines[0],
            "video,object,model,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,JandF_proxy,overlay,cudnn_benchmark,setup_ms,video_frames,precision,F,JandF,status,system_peak_used_MiB"
        );
        assert_eq!(
            lines[1],
            "b,001,m1,256,9,2.5,,,,,0.5,0.5,runs/m/o.mp4,False,,12,fp32,0.7,0.6,ok,1234.6"
        );
        assert_eq!(lines[2], "b,000,m1,256,9,3.0,,,,,0.25,0.25,,False,,12,fp32,,,ok,1234.6");
        assert_eq!(lines[3], "b,000,m2,256,9,4.0,,,,,0.75,0.75,,False,,12,fp32,0.7,0.6,ok,1234.6");
        assert_eq!(lines[4], "a,1,m1,256,,,,,,,,,,False,,,fp32,,,failed,1234.6");
        assert_eq!(summary.models[0].mean("fps"), Some(2.75));
        assert_eq!(summary.models[0].largest("gpu_peak_alloc_MiB"), None);
    }
}
