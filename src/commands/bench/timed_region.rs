/*!
The definition of the timed region, for the sidecar: a sentence that depends on the run's settings.
*/

use crate::bench::plan::BenchPlan;
use runtime::pipeline::Mode;
use vos::record::EncodePlace;

/// Definition of the timed region, for the sidecar.
const TIMED_REGION: &str = "One frame's latency runs from its RGB pixels in host memory to its \
    mask at video resolution in host memory and its memory written to the bank: preprocess, \
    encoder, prompt or track, postprocess, memory. fps is frames over the sum of the latencies, \
    the prompted frame included; percentiles are of the frames after it. Outside: loading graphs \
    (setup_ms), warm-up passes, JPEG decoding (decode_ms, between the timed regions), ground \
    truth, metrics, overlays and files.";

/// Its definition with predecoded frames.
const TIMED_REGION_PREDECODED: &str = "One frame's latency runs from its resized frame in a \
    mapped file to its mask at video resolution in host memory and its memory written to the \
    bank: upload (the frame out of the map into the network's input, normalised on the way where \
    it is stored as bytes), encoder, prompt or track, postprocess, memory. Decoding and resizing \
    were done before by segtrt predecode and are in no number of this run: it is not to be \
    compared with runs that do them. fps is frames over the sum of the latencies, the prompted \
    frame included; percentiles are of the frames after it. Outside: loading graphs (setup_ms), \
    checking the mapped files, warm-up passes, ground truth, metrics, overlays and files.";

/// Addition for the GPU pipeline.
const ON_A_GPU: &str = " On the GPU the pixels lie in pinned host memory, the upload and the \
    download are inside; files are decoded ahead by threads of their own. Stage times are from \
    CUDA events. Postprocess and download run beside the memory step.";

/// Addition for the GPU pipeline with predecoded frames.
const PREDECODED_ON_A_GPU: &str = " On the GPU, upload is the copy into the network's input: out of \
    the mapped file (frame_transfer mapped), or out of pinned memory, into which threads copied \
    (pinned) or converted (converted) the frame before, outside the latency. The download is \
    inside. Stage times are from CUDA events. Postprocess and download run beside the memory step.";

/// Addition for nvJPEG.
const DECODED_BY_NVJPEG: &str = " Frames are decoded by nvJPEG (--jpeg-decoder nvjpeg): a frame's \
    latency begins not with its pixels but with its coefficients in pinned host memory. nvJPEG's \
    host half, the entropy code, is outside (decode_ms); the coefficients' way to the device and \
    the making of pixels there are upload_ms. The pixels are not Pillow's. Device memory that \
    nvJPEG asks for is counted; its code and constants, as TensorRT's, are not.";

/// Addition for throughput mode.
const OVERLAPPING: &str = " In throughput mode frames overlap: fps is frames over the time from \
    the pass's beginning, before its first file is opened, to the last mask, a frame's latency_ms \
    in this file is the interval since the mask before it, and the age of a frame when its mask \
    is there stands in its own columns.";

/// Addition for `--lanes`.
const LANES: &str = " In offline mode several clips run at once, each in a lane with one frame in \
    flight. A frame's time (interval_ms) is the time since the mask before it in its lane, over \
    the frames that all lanes finished meanwhile: decoding, upload and the way from clip to clip \
    are inside, and fps is that of all lanes. Its latency in its lane (lane_latency_ms) is the one \
    that the percentiles are of. Lanes that find no recorded pass run clips that are not recorded \
    until the last recorded pass has ended.";

/// Addition for teacher-forced runs.
const TEACHER_FORCED: &str = " Teacher-forced: not a measurement of speed. On every frame the \
    memory was written from the logits of another run; between a frame's mask and its memory \
    these were brought to the network.";

/// Addition for --save-logits.
const LOGITS_SAVED: &str = " Not a measurement of speed: every frame handed out its \
    low-resolution logits between its mask and its memory.";

/// Addition for `--encode`.
const ENCODED: &str = " A frame's encode stage (encode_ms) begins when all its masks are in host \
    memory and ends when the file has the frame's bytes, or when ffmpeg, a process of its own, has \
    taken them; ffmpeg's last frames and the file's end are outside. end_to_end_* run to the end \
    of this stage.";

/// Its place.
const INSIDE: &str = " It is inside: a frame's latency is the sum of its time on the network and \
    of this stage, and where frames overlap an interval runs from encoded frame to encoded frame.";

/// Its other place.
const BESIDE: &str = " It is beside, on another thread and outside latency and fps; the pass waits \
    where 8 frames are queued.";

/// Addition for `--stereo`.
const STEREO: &str = " Two clips ran in step, a frame of the left one and then one of the right one. \
    A row is of one view, and its times and stages are of a pair of frames: fps is pairs over their \
    time, the rate of each view. Even frame numbers are the left view's, odd ones the right view's.";

/// Definition of the timed region of this bench.
pub fn timed_region(plan: &BenchPlan) -> String {
    let more = match plan.mode() {
        _ if plan.gpu.is_none() => ["", ""],
        Mode::Latency if plan.predecoded.is_some() => [PREDECODED_ON_A_GPU, ""],
        Mode::Throughput if plan.predecoded.is_some() => [PREDECODED_ON_A_GPU, OVERLAPPING],
        Mode::Offline if plan.predecoded.is_some() => [PREDECODED_ON_A_GPU, LANES],
        Mode::Latency => [ON_A_GPU, ""],
        Mode::Throughput => [ON_A_GPU, OVERLAPPING],
        Mode::Offline => [ON_A_GPU, LANES],
    };
    let region = match plan.predecoded {
        Some(_) => TIMED_REGION_PREDECODED,
        None => TIMED_REGION,
    };
    let exchange = match (&plan.teacher, plan.save_logits) {
        (Some(_), _) => TEACHER_FORCED,
        (None, true) => LOGITS_SAVED,
        (None, false) => "",
    };
    let gpu = plan.gpu.as_ref();
    let nvjpeg =
        gpu.filter(|gpu| !gpu.options.jpeg_decoder.is_turbo()).map_or("", |_| DECODED_BY_NVJPEG);
    let encode = match plan.encode.map(|stage| stage.place) {
        None => String::new(),
        Some(EncodePlace::Inside) => format!("{ENCODED}{INSIDE}"),
        Some(EncodePlace::Beside) => format!("{ENCODED}{BESIDE}"),
    };
    let stereo = if plan.stereo { STEREO } else { "" };
    format!("{region}{}{nvjpeg}{exchange}{encode}{stereo}", more.concat())
}
