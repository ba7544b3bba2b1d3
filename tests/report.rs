//! `segtrt report`: the page's structure, its honesty about what is INVALID or not measured, its
//! files, and a real browser.

#[path = "report/browser.rs"]
mod browser;
#[path = "report/cli.rs"]
mod cli;
#[path = "report/page.rs"]
mod page;

use std::path::{Path, PathBuf};

use crate::support::segtrt;

/// Rows that `segtrt bench` measured on an H200.
pub fn gpu_rows() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report")
}

/// The predecessor's columns.
const PREDECESSOR: &str = "video,object,model,imgsz,precision,frames,processed_end_frame,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,F,JandF,overlay,input_H,input_W,infer_H,infer_W,setup_ms";

/// A table of the predecessor's with rows of two models.
pub fn predecessor_table(dir: &Path, name: &str, faster: f64) -> PathBuf {
    let mut text = format!("{PREDECESSOR}\r\n");
    for (model, fps, quality, gpu) in
        [("sam2_tiny_points", 27.25, 0.42, 1558.7), ("edgetam_points", 46.82, 0.21, 421.9)]
    {
        for video in 0..3 {
            let fps = fps * faster + f64::from(video) / 10.0;
            text += &format!(
                "sav_{video},000,{model},768,fp32,300,300,{fps},{},{gpu},1774.0,2419.0,0.4,0.44,{quality},,848,480,768,768,0.28\r\n",
                1000.0 / fps
            );
        }
    }
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A run folder with a sidecar: one VALID pass of `frames` frames and one INVALID pass, of clips
/// called as `video` says.
pub fn run_folder(dir: &Path, video: &str, frames: usize) -> PathBuf {
    let folder = dir.join("orin");
    std::fs::create_dir_all(&folder).unwrap();
    let quoted = format!("\"{}\"", video.replace('"', "\"\""));
    let table = format!(
        "video,object,model,imgsz,precision,frames,fps,J,F,JandF,status,reason,device,mode,latency_p50_ms,power_w,throttle,verdict,verdict_reason\r\n{quoted},000,edgetam_points,1024,fp16,{frames},41.5,0.7,0.8,0.75,ok,,Orin,latency,24.0,28.5,none,VALID,\r\nhot,000,edgetam_points,1024,fp16,50,777.5,0.7,0.8,0.75,ok,,Orin,latency,1.25,28.5,thermal,INVALID,throttled: \
         let the GPU cool\r\ngone,000,edgetam_points,1024,fp16,,,,,,failed,jpeg: frame 3 is cut \
         short,Orin,latency,,,,-,\r\n"
    );
    std::fs::write(folder.join("sav_benchmark_summary.csv"), table).unwrap();
    let times = |frames: usize, ms: f64| -> String {
        let times =
            (0..frames).map(|frame| format!("{:.3}", ms + (frame * 7919 % 1000) as f64 / 1000.0));
        times.collect::<Vec<_>>().join(",")
    };
    let pass = |video: &str, judgement: &str, frames: usize, ms: f64| {
        let observed = serde_json::json!({"power_max_w": 31.5, "device_memory_mib": 9211.0});
        let head = serde_json::json!({"video": video, "object": "000", "model": "edgetam_points", "run": 0, "observed": observed,
            "verdict": {"judgement": judgement, "findings": []}});
        let head = head.to_string();
        format!(
            "{},\"frame_times\":{{\"latency_ms\":[{}],\"encoder_ms\":[{}]}}}}",
            head.trim_end_matches('}').to_owned() + "}",
            times(frames, ms),
            times(frames, ms / 2.0)
        )
    };
    let environment = serde_json::json!({"hostname": "board", "gpu": {"name": "Orin", "memory_total_mib": 62841}});
    let passes = [pass(video, "valid", frames, 24.0), pass("hot", "invalid", 50, 1.25)];
    let sidecar = format!(
        "{{\"environment\":{environment},\"timed_region\":\"as documented\",\"passes\":[{}]}}",
        passes.join(",")
    );
    std::fs::write(folder.join("sidecar.json"), sidecar).unwrap();
    folder
}

/// Makes a page and returns its text; the command must succeed.
pub fn page_of(dir: &Path, args: &[&str]) -> String {
    let out = dir.join("report.html");
    segtrt().arg("report").args(args).arg("-o").arg(&out).assert().success();
    std::fs::read_to_string(out).unwrap()
}
