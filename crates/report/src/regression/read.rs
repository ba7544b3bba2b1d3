/*!
Reads a run folder into a [`RunSummary`]: conditions, memory and quality from `profile_summary.csv`,
times from `sidecar.json`, because those in the table are rounded.
*/

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::run::{ModelRun, ObjectRun, PassSummary, RunSummary};
use super::sidecar::{Sidecar, TimedPass};
use vos::files::profile_csv;
use vos::record::{Judgement, Mode, Verdict};
use vos::stats::{percentile_of_sorted, sorted};
use vos::verdict::POWER_LIMITED;

/// Columns that must agree between two runs, with the names that allow a difference.
const CONDITIONS: [&str; 9] = [
    "imgsz",
    "precision",
    "backend",
    "device",
    "geometry",
    "prompt_policy",
    "metrics",
    "mode",
    "fidelity",
];

/// The times of passes by video, object, model and number; several if a tag was listed twice.
type Times = HashMap<(String, String, String, usize), VecDeque<Vec<f64>>>;

impl RunSummary {
    /// Reads a run folder.
    ///
    /// # Errors
    /// The folder is none of bench's, is unfinished or damaged, or has no measured pass.
    pub fn read(folder: &Path) -> Result<Self> {
        read(folder)
    }
}

fn read(folder: &Path) -> Result<RunSummary> {
    let sidecar = sidecar(&folder.join("sidecar.json"))?;
    let path = folder.join(profile_csv::FILE_NAME);
    let rows = rows(&path)?;
    let mut run = RunSummary {
        segtrt: sidecar.segtrt.clone(),
        commit: sidecar.environment.get("commit").and_then(Value::as_str).map(str::to_owned),
        machine: sidecar.machine(),
        settings: sidecar.settings(),
        inputs: sidecar
            .inputs
            .iter()
            .map(|(name, hash)| (name.clone(), hash.sha256.clone()))
            .collect(),
        models: Vec::new(),
    };
    let models = models_of(&sidecar, &rows);
    let mut times = times_by_pass(sidecar.passes);
    for (row, model) in rows.iter().zip(models) {
        let latencies = match row.text("status") == "ok" {
            true => Some(
                take(&mut times, row)
                    .with_context(|| format!("{}: {}", path.display(), row.key()))?,
            ),
            false => None,
        };
        let place = match run.models.iter().position(|known| known.is_same(&model)) {
            Some(place) => place,
            None => {
                run.models.push(model);
                run.models.len() - 1
            }
        };
        run.models[place].add(row, latencies.as_deref());
    }
    if run.passes().0 == 0 {
        bail!("{} has no measured pass; its column reason names the cause", path.display());
    }
    Ok(run)
}

fn sidecar(path: &Path) -> Result<Sidecar> {
    let file = File::open(path).with_context(|| {
        format!(
            "cannot read {}; name the --out-dir of a finished bench with --from",
            path.display()
        )
    })?;
    serde_json::from_reader(BufReader::new(file))
        .with_context(|| format!("{} is damaged; run that bench again", path.display()))
}

/// One row of the table.
struct ProfileRow(HashMap<String, String>);

impl ProfileRow {
    fn text(&self, column: &str) -> &str {
        self.0.get(column).map_or("", String::as_str)
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn key(&self) -> String {
        ["video", "object", "model", "run"].map(|column| self.text(column)).join(" ")
    }
}

fn rows(path: &Path) -> Result<Vec<ProfileRow>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(cannot)?;
    let header = reader.headers().with_context(cannot)?.clone();
    for column in ["video", "object", "model", "run", "status"] {
        if !header.iter().any(|name| name == column) {
            bail!("{} has no column {column}; expected a table of segtrt bench", path.display());
        }
    }
    let row = |row: csv::StringRecord| {
        ProfileRow(header.iter().map(str::to_owned).zip(row.iter().map(str::to_owned)).collect())
    };
    let rows = reader.records().map(|record| record.map(row)).collect::<Result<Vec<_>, _>>();
    rows.with_context(|| format!("{} is damaged; run that bench again", path.display()))
}

/// The empty model of each row. A row without numbers may lack its conditions, because its worker
/// died early; it belongs to the measured model with its tag.
fn models_of(sidecar: &Sidecar, rows: &[ProfileRow]) -> Vec<ModelRun> {
    let backends = sidecar.backends();
    let of = |row: &ProfileRow| {
        let tag = row.text("model");
        let conditions =
            CONDITIONS.iter().map(|name| ((*name).to_owned(), row.text(name).to_owned()));
        let mut conditions: BTreeMap<_, _> =
            conditions.filter(|(_, value)| !value.is_empty()).collect();
        // Library and version may differ independently.
        if let Some(backend) = backends.get(row.text("backend")) {
            conditions.insert("backend".to_owned(), backend.unversioned());
            let version = backend.version().map(str::to_owned);
            conditions.extend(version.map(|version| ("backend_version".to_owned(), version)));
        }
        let entry = sidecar.model(tag, row.text("imgsz"), row.text("precision"));
        let graphs = entry.and_then(|entry| entry["graphs"].as_array());
        ModelRun {
            model: tag.to_owned(),
            conditions,
            weights: entry.and_then(|entry| Some(entry["weights"].as_str()?.to_owned())),
            graphs: graphs
                .into_iter()
                .flatten()
                .filter_map(|hash| Some(hash.as_str()?.to_owned()))
                .collect(),
            objects: Vec::new(),
        }
    };
    let measured = |tag: &str| {
        let mut ok = rows.iter().filter(|row| row.text("status") == "ok");
        ok.find(|row| row.text("model") == tag)
    };
    rows.iter()
        .map(|row| match row.text("status") {
            "ok" => of(row),
            _ => of(measured(row.text("model")).unwrap_or(row)),
        })
        .collect()
}

fn times_by_pass(passes: Vec<TimedPass>) -> Times {
    let mut times = Times::new();
    for pass in passes {
        let key = (pass.video, pass.object, pass.model, pass.run);
        times.entry(key).or_default().push_back(pass.frame_times.latency_ms);
    }
    times
}

fn take(times: &mut Times, row: &ProfileRow) -> Result<Vec<f64>> {
    let number = row.text("run").parse().context("the run column holds no number")?;
    let name = |column| row.text(column).to_owned();
    let found = times.get_mut(&(name("video"), name("object"), name("model"), number));
    let latencies = found.and_then(VecDeque::pop_front).context(
        "sidecar.json has no times of this pass: the run is unfinished (continue it with bench \
         --resume) or the files come from two runs",
    )?;
    let sum: f64 = latencies.iter().sum();
    if latencies.iter().any(|ms| !ms.is_finite() || *ms < 0.0) || sum <= 0.0 {
        bail!("sidecar.json has a time of this pass that is not a positive number; measure again");
    }
    Ok(latencies)
}

impl ModelRun {
    fn is_same(&self, other: &Self) -> bool {
        (&self.model, &self.conditions, &self.weights)
            == (&other.model, &other.conditions, &other.weights)
    }

    fn add(&mut self, row: &ProfileRow, latencies: Option<&[f64]>) {
        let key = (row.text("video"), row.text("object"));
        let place = match self.objects.iter().rposition(|object| object.key() == key) {
            Some(place) => place,
            None => {
                let (video, object) = (key.0.to_owned(), key.1.to_owned());
                self.objects.push(ObjectRun { video, object, ..ObjectRun::default() });
                self.objects.len() - 1
            }
        };
        let object = &mut self.objects[place];
        match latencies {
            Some(latencies) => {
                object.passes.push(pass(row, latencies));
                object.reason = None;
            }
            None if object.passes.is_empty() => {
                let (status, reason) = (row.text("status"), row.text("reason"));
                object.reason = Some(format!("{status}: {reason}"));
            }
            None => {}
        }
    }
}

fn pass(row: &ProfileRow, latencies: &[f64]) -> PassSummary {
    let later = sorted(latencies.get(1..).unwrap_or_default());
    let at = |percent| {
        percentile_of_sorted(&later, percent).filter(|_| !Mode::overlaps(row.text("mode")))
    };
    PassSummary {
        frames: latencies.len(),
        duration_ms: latencies.iter().sum(),
        p50_ms: at(50.0),
        p95_ms: at(95.0),
        p99_ms: at(99.0),
        gpu_peak_alloc_mib: row.number("gpu_peak_alloc_MiB"),
        gpu_peak_reserved_mib: row.number("gpu_peak_reserved_MiB"),
        cpu_peak_rss_mib: row.number("cpu_peak_rss_MiB"),
        j: row.number("J"),
        f: row.number("F"),
        jf: row.number("JandF"),
        invalid: row.text("verdict") == Judgement::Invalid.as_str(),
        power_limited: Verdict::reason_has(row.text("verdict_reason"), POWER_LIMITED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "video,object,model,run,imgsz,precision,mode,status,reason,\
                          gpu_peak_alloc_MiB,JandF,verdict,backend";

    fn folder(rows: &[&str], passes: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let table = format!("{HEADER}\r\n{}\r\n", rows.join("\r\n"));
        std::fs::write(dir.path().join("profile_summary.csv"), table).unwrap();
        let sidecar = format!(
            r#"{{"segtrt": "0.1.0", "environment": {{"commit": "abc"}}, "passes": [{passes}],
                "configuration": {{"models": [{{"tag": "m", "weights": "w", "graphs": ["1"]}}]}}}}"#
        );
        std::fs::write(dir.path().join("sidecar.json"), sidecar).unwrap();
        dir
    }

    fn times(object: &str, run: usize, ms: &str) -> String {
        format!(
            r#"{{"video": "v", "object": "{object}", "model": "m", "run": {run}, "frame_times": {{"latency_ms": [{ms}], "x": []}}}}"#
        )
    }

    #[test]
    fn passes_of_an_object_come_together_with_their_exact_times() {
        let rows = [
            "v,0,m,0,256,fp32,latency,ok,,10.5,0.5,VALID,",
            "v,0,m,1,256,fp32,latency,ok,,,,INVALID,",
            "v,1,m,0,,,,failed,oom: no memory,,,,",
            "v,2,m,0,256,fp16,throughput,ok,,,,-,",
        ];
        let passes = [
            times("0", 0, "9.0, 1.0, 2.0, 3.0"),
            times("0", 1, "1.0, 4.0"),
            times("2", 0, "1.0, 4.0"),
        ];
        let run = RunSummary::read(folder(&rows, &passes.join(",")).path()).unwrap();
        assert_eq!(
            (run.commit.as_deref(), run.passes(), run.unmeasured()),
            (Some("abc"), (3, 1), 1)
        );
        let [fp32, fp16] = run.models.try_into().unwrap();
        assert_eq!(fp32.conditions["precision"], "fp32");
        assert_eq!((fp32.weights.as_deref(), fp32.graphs.len()), (Some("w"), 1));
        let [first, lost] = fp32.objects.try_into().unwrap();
        let pass = first.passes[0];
        assert_eq!((pass.frames, pass.duration_ms, pass.p50_ms), (4, 15.0, Some(2.0)));
        assert_eq!((pass.gpu_peak_alloc_mib, pass.jf, pass.j), (Some(10.5), Some(0.5), None));
        assert_eq!((first.passes.len(), first.passes[1].invalid), (2, true));
        assert_eq!(lost.reason.as_deref(), Some("failed: oom: no memory"));
        assert_eq!(fp16.objects[0].passes[0].p50_ms, None, "frames overlap");
    }

    #[test]
    fn a_backend_and_its_version_are_two_conditions() {
        let backend = r#""backend": {"onnxruntime": {"version": "1.31.1", "provider": "cuda"}}, "#;
        let typed = times("0", 0, "1.0").replacen('{', &format!("{{{backend}"), 1);
        let row = ["v,0,m,0,256,fp32,latency,ok,,,,,onnxruntime 1.31.1 cuda"];
        let run = RunSummary::read(folder(&row, &typed).path()).unwrap();
        let conditions = &run.models[0].conditions;
        assert_eq!(conditions["backend"], "onnxruntime cuda");
        assert_eq!(conditions["backend_version"], "1.31.1");
    }

    #[test]
    fn damaged_unfinished_and_empty_folders_are_told_apart() {
        let ok = "v,0,m,0,256,fp32,latency,ok,,,,,";
        let error = |dir: &Path| format!("{:#}", RunSummary::read(dir).unwrap_err());
        let unfinished = error(folder(&[ok], "").path());
        assert!(unfinished.contains("v 0 m 0") && unfinished.contains("--resume"), "{unfinished}");
        let failed = error(folder(&["v,0,m,0,,,,failed,x: y,,,,"], "").path());
        assert!(failed.contains("no measured pass"), "{failed}");
        let clock = error(folder(&[ok], &times("0", 0, "0.0, 0.0")).path());
        assert!(clock.contains("not a positive number"), "{clock}");
        assert!(error(folder(&[ok], "{").path()).contains("sidecar.json is damaged"));
        let other = folder(&[ok], "");
        std::fs::write(other.path().join("profile_summary.csv"), "video,object\r\n").unwrap();
        assert!(error(other.path()).contains("no column model"));
        std::fs::remove_file(other.path().join("sidecar.json")).unwrap();
        assert!(error(other.path()).contains("--from"));
    }
}
