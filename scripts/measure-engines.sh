#!/bin/bash
# Builds every engine of the bundles on this machine's GPU, one at a time, compares each with ONNX Runtime, times it and
# sweeps the workspace cap. Leaves the rows that docs/measurements is made of; run again, it goes on where it stopped.
#
#   scripts/measure-engines.sh BUNDLES OUT [SECONDS]      no new step is begun after SECONDS
#
# SEGTRT                program to measure with              [target/release/segtrt]
# SEGTRT_TENSORRT_LIB   TensorRT's directory, where the program does not find it by itself
# ORT_DYLIB_PATH        ONNX Runtime's library, likewise
# MODELS, PRECISIONS    what to measure                      [edgetam sam2_tiny sam2_small sam2_base sam2_large; fp16 fp32]
# SWEEP_MODELS, CAPS    what to sweep, in fp16               [edgetam sam2_tiny; 64,128,256,512,1024,4096]
# TIMING_RUNS           runs over which a tactic is timed    [4]
# TIMING                timing cache of this TensorRT and GPU to start from
set -uo pipefail
if [ $# -lt 2 ]; then sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2; fi
bundles=$1 out=$2 limit=${3:-0}
segtrt=${SEGTRT:-target/release/segtrt}
models=${MODELS-edgetam sam2_tiny sam2_small sam2_base sam2_large}
precisions=${PRECISIONS-fp16 fp32}
sweep_models=${SWEEP_MODELS-edgetam sam2_tiny}
caps=${CAPS:-64,128,256,512,1024,4096}
mkdir -p "$out"
timing=$out/tactics.timing
if [ -n "${TIMING:-}" ] && [ ! -e "$timing" ]; then cp "$TIMING" "$timing"; fi
failed=0

# Runs a step unless its result is there; the result appears only when the step is done.
step() {
    local result=$1
    shift
    if [ -e "$result" ]; then return; fi
    if [ "$limit" -gt 0 ] && [ "$SECONDS" -ge "$limit" ]; then echo "left for later: $result"; failed=1; return; fi
    "$@" > "$result.part" 2>> "$out/log.txt"
    local code=$?
    # A step that failed in part has told so in its rows; one that could not begin or was stopped has none.
    if [ $code -gt 1 ] || [ ! -s "$result.part" ]; then echo "not done: $result (exit code $code; see $out/log.txt)"; failed=1; return; fi
    if [ $code -eq 1 ]; then echo "failed in part: $result"; failed=1; fi
    mv "$result.part" "$result"
    echo "done after $SECONDS s: $result"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv > "$out/gpu.txt" 2>&1
for precision in $precisions; do
    for model in $models; do
        step "$out/build_${model}_$precision.json" "$segtrt" build-engines --platform auto --models "$model" \
            --precision "$precision" --onnx-dir "$bundles" --out "$out/engines" --timing-cache "$timing" \
            --timing-runs "${TIMING_RUNS:-4}" --json
        step "$out/selftest_${model}_$precision.txt" "$segtrt" selftest --engines "$out/engines" --models "$model" \
            --precision "$precision" --no-clip --onnx-dir "$bundles" --csv "$out/selftest_${model}_$precision.csv"
    done
done
for model in $sweep_models; do
    step "$out/sweep_$model.json" "$segtrt" build-engines --platform auto --models "$model" --precision fp16 \
        --onnx-dir "$bundles" --out "$out/engines" --timing-cache "$timing" --timing-runs "${TIMING_RUNS:-4}" --sweep-workspace "$caps" --json
done
exit $failed
