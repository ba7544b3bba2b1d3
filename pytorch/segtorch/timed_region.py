"""What a frame's latency holds, in the words of the sidecar."""

from . import logits

REGION = (
    "One frame's latency runs from its RGB pixels in host memory to its mask at video resolution in host "
    "memory and "
    "its memory written to the bank, by the host's clock; on a GPU the host waits for the device at the "
    "end of each "
    "frame. Inside: upload, resize and normalise, encoder, prompt or track, memory, upsampling, threshold, "
    "download. "
    "The prompted frame counts for fps and not for percentiles. Outside: loading (setup_ms), compiling "
    "(compile_s), "
    "warm-up passes, ground truth and files. A stage ends where the next begins. "
)
STAGES = {
    False: "Stage times are from the host's clock between the calls into the model.",
    True: "Stage times and gpu_ms are from CUDA events between the calls into the model, in a pass of "
          "their own behind each recorded "
    "one, which records none (stages_apart).",
}
DECODE = {
    "ahead": " JPEGs are decoded into host memory before the pass (decode_ms, outside the latency).",
    "inside": " JPEGs are decoded inside the latency (decode_ms).",
}


def in_words(args, on_gpu):
    """The sentences for a run with these arguments."""
    exchange = logits.REGION_FORCED if args.teacher else logits.REGION_SAVED if args.save_logits else ""
    return REGION + STAGES[on_gpu] + DECODE[args.decode] + exchange
