//! The same made-up export through NVIDIA's own scripts: cell by cell the same numbers.
//!
//! They come with nsys; where it is unpacked below target/nsys, or installed, they are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::json;
use super::made::frames;
use crate::support::nsys;

/// Tables whose columns and rows are compared. nsys counts sizes in its own unit on the screen, in
/// bytes in its scripts.
const TABLES: [&str; 6] = [
    "nvtx_gpu_proj_sum",
    "nvtx_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_api_sum",
];

/// The folder with `reports` and `python/lib` of the nsys that is there.
fn scripts() -> Option<PathBuf> {
    let nsys = nsys()?;
    let real = nsys.canonicalize().unwrap_or(nsys);
    let root = real.parent()?;
    let mut found: Vec<PathBuf> = vec![root.to_owned(), root.join("../target-linux-x64")];
    found.push(root.join("x/usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64"));
    let found = found.into_iter().find(|dir| {
        dir.join("reports/nvtx_gpu_proj_sum.py").is_file()
            && dir.join("python/lib/nsysstats.py").is_file()
            && dir.join("libsqlite3.so.0").is_file()
    });
    if found.is_none() {
        eprintln!("SKIPPED: this nsys has no scripts beside it to compare with");
    }
    found
}

/// A script's table, header first.
fn theirs(scripts: &Path, table: &str, export: &Path) -> Vec<Vec<String>> {
    let folder =
        if table.contains("_mem") && !table.contains("_sum") { "rules" } else { "reports" };
    let output = Command::new("python3")
        .arg(scripts.join(format!("{folder}/{table}.py")))
        .arg(export)
        .env("PYTHONPATH", scripts.join("python/lib"))
        // Their SQLite knows medians and deviations, which the system's does not.
        .env("LD_PRELOAD", scripts.join("libsqlite3.so.0"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}: {said}");
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).from_reader(output.stdout.as_slice());
    let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect());
    rows.collect()
}

#[test]
fn every_number_is_the_one_that_nvidias_scripts_find() {
    let Some(scripts) = scripts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let document = json(&[path.to_str().unwrap()], 0);
    for table in TABLES {
        let theirs = theirs(&scripts, table, &path);
        let (header, theirs) = theirs.split_first().unwrap();
        // "Total Time:dur_ns", "_Q1": columns of theirs that begin with an underscore are not shown.
        let shown = header.iter().position(|name| name.starts_with('_')).unwrap_or(header.len());
        let ours = document["reports"][0]["tables"][table].as_array().unwrap();
        assert_eq!(ours.len(), theirs.len(), "rows of {table}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            let ours: Vec<&serde_json::Value> = ours.as_object().unwrap().values().collect();
            assert_eq!(ours.len(), shown, "columns of {table}");
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                let what = format!("{table}, {}: {ours} and {theirs}", header[at]);
                match ours.as_f64() {
                    // They print one decimal.
                    Some(number) => {
                        assert!((number - theirs.parse::<f64>().unwrap()).abs() <= 0.0501, "{what}")
                    }
                    // Ranges of the default domain have no colon in this release, and one in later ones.
                    None => {
                        assert_eq!(ours.as_str().unwrap().trim_start_matches(':'), theirs, "{what}")
                    }
                }
            }
        }
    }
}

/// Their recipes list each copy and fill that the host waits for; ours sums them.
#[test]
fn copies_and_fills_that_wait_are_those_of_nvidias_rules() {
    let Some(scripts) = scripts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    super::made::copies(&path);
    let document = json(&[path.to_str().unwrap(), "--report", "copies"], 0);
    let ours = &document["reports"][0]["tables"];
    for table in ["cuda_memcpy_sync", "cuda_memset_sync", "cuda_memcpy_async"] {
        let theirs = theirs(&scripts, table, &path);
        let (header, theirs) = theirs.split_first().unwrap();
        let column = |name: &str| header.iter().position(|own| own.starts_with(name)).unwrap();
        let sum = |name: &str| -> i64 {
            theirs.iter().map(|row| row[column(name)].parse::<i64>().unwrap()).sum()
        };
        // Theirs lists copies by an asynchronous function of pageable memory alone.
        let rows = ours[table].as_array().unwrap().iter().filter(|row| {
            let kinds = [row["Src Kind"].as_str(), row["Dst Kind"].as_str()];
            let function = row["API Name"].as_str().unwrap_or_default();
            table != "cuda_memcpy_async"
                || (kinds.contains(&Some("Pageable")) && function.contains("Async"))
        });
        let rows: Vec<_> = rows.collect();
        let total = |name: &str| rows.iter().map(|row| row[name].as_i64().unwrap()).sum::<i64>();
        assert!(!theirs.is_empty(), "{table}");
        assert_eq!(total("Count"), theirs.len() as i64, "{table}: {rows:?} and {theirs:?}");
        assert_eq!(total("Total Time (ns)"), sum("Duration"), "{table}");
        assert_eq!(total("Total (B)"), sum("Bytes"), "{table}");
    }
}
