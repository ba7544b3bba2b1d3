//! Whole files of every kind, made by the program itself as far as that goes without a GPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use report::compare::document;
use report::compare::judge::{SWEEP_FORMAT, SweepResult, SweepRow};
use report::compare::runs::Measured;
use report::compare::sweep::{Axis, combinations};
use safetensors::tensor::{TensorView, serialize};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};
use vos::bundle::trunk::fixtures::repvit;
use vos::bundle::{FusedPart, Trunk};
use vos::files::{Configuration, sha256_of_file};

use crate::inspect::stand_in::{engine_folder, plan_bytes};
use crate::nsys::made::frames;
use crate::support::{bench, copy, segtrt, small_bundle};

use super::read::{self, TIMING};

const MARKER: &str = "\nsegtrt-collect 1\n";

/// A stand-in for ssh: the script on its standard input asks for a listing or for a tar.
const SSH: &str = "here=$(dirname \"$0\")\ncase $(cat) in *'tar -cf'*) cat \"$here/stream.bin\" \
                   ;; *) cat \"$here/listing.bin\" ;; esac\n";

/// A sweep of two points.
fn swept() -> SweepResult {
    let axes = vec!["encode_batch=1,2".parse::<Axis>().unwrap()];
    let rows = combinations(&axes, "fp16").unwrap().into_iter().map(|one| SweepRow {
        model: "edgetam_mini_points".to_owned(),
        combination: one.name(),
        point: one.point,
        object_fps: Some(20.0),
        slowest_stage: Some(("encoder".to_owned(), 2.5)),
        ..SweepRow::default()
    });
    let rows = rows.collect();
    SweepResult { format: SWEEP_FORMAT.to_owned(), axes, rows, ..SweepResult::default() }
}

/// Writes all of them into a new folder.
pub fn make(root: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let at = |name: &str| root.join(name);
    fs::create_dir_all(root).unwrap();
    split(root);
    copy(&small_bundle(), &at("bundle"));
    copy(&data.join("fused"), &at("fused"));
    trunk(&at("trunk"));
    read::weights(root).unwrap();
    fs::create_dir(at("onnx")).unwrap();
    fs::copy(data.join("fused/track.onnx"), at("onnx/graph.onnx")).unwrap();
    fs::copy(data.join("fused/encoder.onnx"), at("onnx/small.onnx")).unwrap();

    bench(&at("split"), &at("run")).args(["--save-masks", "--save-logits"]).assert().success();
    copy(&at("run"), &at("run2"));
    fs::write(
        at("run2/experiment_config.txt"),
        "Experiment Configuration\n========\nTimestamp: 20251130_143022\nPlatform: \
         jetson\nHostname: orin-1\n",
    )
    .unwrap();
    let program = |words: &[&str]| {
        let words = words.iter().map(|word| match word.strip_prefix('@') {
            Some(path) => root.join(path).into_os_string(),
            None => word.into(),
        });
        let output = segtrt().args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    program(&["predecode", "--split-dir", "@split", "--imgsz", "256", "--out-dir", "@frames"]);
    program(&["baseline", "save", "base", "--from", "@run", "--baselines", "@baselines"]);
    program(&["history", "@history.jsonl", "@run"]);
    crate::submit::whole(root);
    copy(&data.join("datasets/youtube_vos"), &at("youtube"));
    let output = segtrt()
        .args(["compare", "--split-dir"])
        .arg(at("split"))
        .arg("--out-dir")
        .arg(at("cmp"))
        .arg("--runs")
        .args([format!("a={}", at("run").display()), format!("b={}", at("run2").display())])
        .output()
        .unwrap();
    assert!(at("cmp/comparison.json").is_file(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::create_dir(at("swept")).unwrap();
    document::sweep::write(&at("swept"), &swept()).unwrap();
    let compared = Configuration::default().with("models", "edgetam_mini_points");
    let sides = vec!["cpu".to_owned(), "eager".to_owned()];
    let measured = Measured::new(compared, BTreeMap::new(), sides, "cpu".to_owned());
    measured.write(&at("cmp")).unwrap();
    fs::write(at("targets.toml"), program(&["report", "--print-targets"])).unwrap();
    let experiment = [
        "--models",
        "edgetam_mini_points",
        "--backend",
        "cpu",
        "--slurm",
        "--shards",
        "2",
        "--dry-run",
    ];
    program(
        &[&["experiment", "--split-dir", "@split", "--out-dir", "@exp"], &experiment[..]].concat(),
    );
    program(&[
        "jetson-benchmark",
        "--split-dir",
        "@split",
        "--models",
        "edgetam_mini_points",
        "--imgsz",
        "256",
        "--skip-inference",
        "--preprocessed-dir",
        "@prepared",
    ]);

    fs::create_dir(at("profile")).unwrap();
    fs::write(at("ncu.csv"), crate::ncu::RAW).unwrap();
    drop(frames(&at("profile/x.sqlite")));
    fs::write(at("profile.json"), program(&["nsys", "@profile/x.sqlite", "--json"])).unwrap();
    fs::create_dir(at("engines")).unwrap();
    engine_folder(&at("engines"));
    fs::create_dir(at("plan")).unwrap();
    fs::write(at("plan/alone.plan"), plan_bytes(3000)).unwrap();
    runtime::engine::timing_cache::write(&at("x.timing"), TIMING, &[7; 500]).unwrap();

    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/platforms.toml"),
        at("platforms.toml"),
    )
    .unwrap();
    fs::write(at("list.txt"), "synth_000\nsynth_001\n").unwrap();
    fs::write(
        at("config.toml"),
        "[bench]\nmodels = [\"edgetam_mini_points\"]\nwarmup-runs = 0\nlimit-videos = 1\nsave-masks = true\n",
    )
    .unwrap();
    fs::write(
        at("suite.toml"),
        "[[experiment]]\nname = \"full\"\nimgsz = 256\n\n[[experiment]]\nname \
         = \"half\"\ndescription = \"every second\"\ninput-frame-stride = \
         2\nannotation-stride-frames = 4\n",
    )
    .unwrap();
    remote(&at("remote"));
    fs::create_dir(at("collected")).unwrap();
    fs::write(
        at("collected/collected.json"),
        r#"{"format": "segtrt collected 1", "folders": {"y": {"host": "host", "path": "/y", "collected": "2026-01-01T00:00:00Z",
           "complete": true, "files": 1, "verified": true}}}"#,
    )
    .unwrap();
}

/// A bundle whose encoder has a trunk; nobody reads its stem and neck.
fn trunk(bundle: &Path) {
    copy(Path::new("tests/data/fused"), bundle);
    let mut trunk = repvit();
    let tensors = Trunk::tensors(&trunk);
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|tensor| vec![7; tensor.bytes()]).collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
        (&tensor.name, TensorView::new(tensor.dtype, tensor.shape.clone(), bytes).unwrap())
    });
    let file = bundle.join(&trunk.file);
    fs::write(&file, serialize(views, None).unwrap()).unwrap();
    trunk.sha256 = sha256_of_file(&file).unwrap().sha256;
    let port = |way: &str, name: &str, dtype: &str, shape: &[usize]| {
        format!("[[graph.{way}]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = {shape:?}\n")
    };
    let graph = |role: &str, ports: &[String]| {
        let ports = ports.concat();
        format!(
            "[[graph]]\nrole = \"{role}\"\nfile = \"{role}.onnx\"\nsha256 = \"\"\nflops = 1\n{ports}"
        )
    };
    let stem = [
        port("input", "image", "f32", &[1, 3, 64, 64]),
        port("output", "y", "f16", &[1, 16, 16, 16]),
    ];
    let maps = [(16, 16), (8, 24), (4, 48), (2, 64)].into_iter().enumerate();
    let maps = maps.map(|(at, (side, columns))| {
        port("input", &format!("m{at}"), "f16", &[1, side, side, columns])
    });
    let features = [("feat", [1, 256, 4, 4]), ("hr0", [1, 32, 16, 16]), ("hr1", [1, 64, 8, 8])];
    let features = features.map(|(name, shape)| port("output", name, "f32", &shape));
    let neck: Vec<String> = maps.chain(features).collect();
    let path = bundle.join("manifest.toml");
    let others = fs::read_to_string(&path).unwrap().replace("\"fp32\"", "\"fp16\"");
    let table = toml::to_string(&BTreeMap::from([("trunk", &trunk)])).unwrap();
    let (stem, neck) = (graph("encoder_cut0", &stem), graph("encoder_cut1", &neck));
    fs::write(&path, [others, stem, neck, table].join("\n")).unwrap();
}

/// A split in each layout, from the same pictures.
fn split(root: &Path) {
    let synth = [
        "synth",
        "--videos",
        "2",
        "--objects",
        "1",
        "--frames",
        "5",
        "--size",
        "64x48",
        "--seed",
        "7",
    ];
    segtrt().args(synth).arg("--out").arg(root.join("split")).assert().success();
    let (sav, davis) = (root.join("split"), root.join("davis"));
    copy(&sav.join("JPEGImages_24fps/synth_000"), &davis.join("JPEGImages/480p/synth_000"));
    copy(&sav.join("Annotations_6fps/synth_000/000"), &davis.join("Annotations/480p/synth_000"));
    let lists = davis.join("ImageSets/2017");
    fs::create_dir_all(&lists).unwrap();
    fs::write(lists.join("val.txt"), "synth_000\n").unwrap();
    fs::write(sav.join("sav_val.txt"), "synth_000\nsynth_001\n").unwrap();
}

/// What another machine sends: a listing, and a tar with a short and a long name.
fn remote(folder: &Path) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("ssh.sh"), SSH).unwrap();
    let long = format!("{}/rows.csv", "long".repeat(40));
    let files = [("a.csv", &b"video,model\r\n"[..]), (&long, &[9; 3000])];
    let mut records = b"D/x\0".to_vec();
    let mut tar = Builder::new(Vec::new());
    for (name, content) in files {
        records.extend(format!("{:x}  ./{name}\0", Sha256::digest(content)).bytes());
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("./{name}"), content).unwrap();
    }
    records.extend(b"Z\0");
    fs::write(folder.join("listing.bin"), [MARKER.as_bytes(), &records].concat()).unwrap();
    fs::write(folder.join("stream.bin"), [MARKER.as_bytes(), &tar.into_inner().unwrap()].concat())
        .unwrap();
}
