/*!
`README.txt` of a pack: one page for the owner of a board.
*/

use super::plan::PackPlan;

/// What has to be installed on the board, as a phrase.
pub fn needs(plan: &PackPlan) -> String {
    let tensorrt = match plan.platform.tegra {
        true => "JetPack 6 or newer with its TensorRT (sudo apt install tensorrt)",
        false => "NVIDIA's driver and TensorRT 8.6, 10.x or 11.x with its ONNX parser",
    };
    format!("{tensorrt}, and ONNX Runtime 1.17 or newer for the selftest (pip install onnxruntime)")
}

/// The whole text.
pub fn text(plan: &PackPlan) -> String {
    let PackPlan { platform, models, imgsz, precision, max_objects, .. } = plan;
    let bundles: String = plan
        .bundles
        .iter()
        .map(|bundle| format!("  {}: {}\n", bundle.name(), bundle.manifest.weights_phrase()))
        .collect();
    let warnings: String =
        plan.warnings.iter().map(|warning| format!("Note: {warning}.\n")).collect();
    let binary = match &plan.binary {
        Some(_) => "  segtrt          the program, built for this board",
        None => "  (no program: run.sh says how to build segtrt where it finds none)",
    };
    let clips = match &plan.clips {
        Some(_) => "  clips/          the clips to measure on; their own licence applies",
        None => "  (no clips: run.sh makes synthetic ones)",
    };
    format!(
        "Engines and measurements for {title} (segtrt {version})\n\nOn that machine:\n\n\x20 tar \
         xf PACK.tar && sh segtrt-pack-{name}/run.sh\n\nIt checks the files, builds TensorRT \
         engines for {models} at {imgsz}x{imgsz} in {precision}, for up to {objects} at \
         once,\ncompares each with ONNX Runtime on random inputs, measures them, and leaves \
         results.tar to send back. Expect minutes for\neach engine. It can be interrupted and run \
         again. Where a build runs out of memory, run it with a smaller cap:\n\n\x20 sh run.sh \
         --workspace-mb 128\n\nOn a Jetson this measures two power modes more, each after ten \
         minutes of heating; it asks for sudo:\n\n\x20 POWER_MODES=\"0 2\" SOAK=600 sh \
         run.sh\n\nTo try the steps without a GPU, on the CPU; these rows are no result:\n\n\x20 REHEARSE=1 \
         sh run.sh\n\nIt needs {needs}.\nNothing is sent anywhere, and nothing outside \
         this folder is written.\n{warnings}\nWhat is in here:\n\x20 run.sh          the script; \
         settings.sh holds what it builds\n{binary}\n{clips}\n\x20 platforms.toml  boards and \
         their caps, row {name}\n\x20 SHA256SUMS      sums of all other files; run.sh checks \
         them\n\x20 onnx/           the graphs, with whose weights:\n{bundles}",
        title = platform.title,
        version = env!("CARGO_PKG_VERSION"),
        name = platform.name,
        objects = if *max_objects == 1 {
            "1 object".to_owned()
        } else {
            format!("{max_objects} objects")
        },
        models = models.join(", "),
        needs = needs(plan),
    )
}
