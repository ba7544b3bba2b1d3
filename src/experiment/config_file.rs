/*!
`experiment_config.txt`, line for line as the predecessor's script writes it: merging tools read it.

Lines without a meaning here stay, with a note.
*/

use super::spec::Spec;

/// The file's name.
pub(super) const FILE_NAME: &str = "experiment_config.txt";

/// The file's content.
pub fn render(spec: &Spec) -> String {
    let list = |items: &[String]| items.join(",");
    let sizes: Vec<String> = spec.imgsz.iter().map(usize::to_string).collect();
    let nsys = spec.nsys.as_ref().map(|path| path.display().to_string());
    let on_gpu = spec.backend == "tensorrt";
    let gpu = match &spec.gpu {
        Some(name) if on_gpu => name.clone(),
        Some(name) => format!("N/A (not used; {name} is there)"),
        None => "N/A".to_owned(),
    };
    let cuda = spec.cuda.as_ref().filter(|_| on_gpu);
    let lines = [
        ("Timestamp", spec.timestamp.clone()),
        ("Platform", spec.platform.name().to_owned()),
        ("Hostname", spec.hostname.clone()),
        ("Dataset", spec.split_dir.display().to_string()),
        ("Models", list(&spec.models)),
        ("Videos", spec.videos.to_string()),
        ("Objects per video", spec.objects.to_string()),
        ("Profile runs", spec.runs.to_string()),
        ("Warmup runs", spec.warmup.to_string()),
        ("Autocast", list(&spec.precision)),
        ("Nsight", nsys.unwrap_or_else(|| "N/A (not found)".to_owned())),
        ("Python", format!("N/A (segtrt {})", spec.segtrt)),
        ("CUDA", cuda.map_or_else(|| "N/A".to_owned(), |cuda| format!("{cuda} (driver)"))),
        ("GPU", gpu),
        ("Image size", list(&sizes)),
    ];
    let mut text = String::from("Experiment Configuration\n========================\n");
    for (name, value) in lines {
        // A value with a line break would become a line of its own.
        text.push_str(&format!("{name}: {}\n", value.replace(['\n', '\r'], " ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::PlatformKind;

    fn spec() -> Spec {
        Spec {
            format: 1,
            segtrt: "0.1.0".into(),
            timestamp: "20261121_093001".into(),
            platform: PlatformKind::Jetson,
            platform_row: Some("orin".into()),
            hostname: "jetson-orin".into(),
            backend: "tensorrt".into(),
            backend_reason: "engines are there".into(),
            gpu: Some("Orin".into()),
            cuda: Some("11.4".into()),
            nsys: Some("/opt/nvidia/nsight-systems/bin/nsys".into()),
            profile: true,
            split_dir: "/data/sav\nval".into(),
            models: vec!["sam2_tiny_points".into(), "edgetam_points".into()],
            imgsz: vec![768],
            precision: vec!["fp16".into()],
            videos: 3,
            objects: 2,
            runs: 5,
            warmup: 2,
            bench: vec![],
            working_directory: "/".into(),
            sharding: None,
            sweep: vec![],
            steps: vec![],
        }
    }

    #[test]
    fn the_lines_are_the_predecessors() {
        let expected = "Experiment Configuration\n\
            ========================\n\
            Timestamp: 20261121_093001\n\
            Platform: jetson\n\
            Hostname: jetson-orin\n\
            Dataset: /data/sav val\n\
            Models: sam2_tiny_points,edgetam_points\n\
            Videos: 3\n\
            Objects per video: 2\n\
            Profile runs: 5\n\
            Warmup runs: 2\n\
            Autocast: fp16\n\
            Nsight: /opt/nvidia/nsight-systems/bin/nsys\n\
            Python: N/A (segtrt 0.1.0)\n\
            CUDA: 11.4 (driver)\n\
            GPU: Orin\n\
            Image size: 768\n";
        assert_eq!(render(&spec()), expected);
    }

    #[test]
    fn a_gpu_that_did_not_run_the_network_is_not_named_as_if_it_had() {
        let cpu = Spec { backend: "onnxruntime".into(), nsys: None, ..spec() };
        let text = render(&cpu);
        assert!(text.contains("\nGPU: N/A (not used; Orin is there)\n"), "{text}");
        assert!(text.contains("\nCUDA: N/A\n") && text.contains("\nNsight: N/A (not found)\n"));
        assert!(render(&Spec { gpu: None, ..cpu }).contains("\nGPU: N/A\n"));
    }
}
