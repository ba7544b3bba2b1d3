#!/bin/bash
# Runs whole clips on engines that are there (scripts/measure-engines.sh builds them): both modes, masks against the CPU
# backend, objects, encode-ahead depths and batches, a long run in constant memory, compute-sanitizer. Nothing else may use the GPU.
# Leaves the rows that docs/measurements is made of; run again, it goes on where it stopped.
#
#   scripts/measure-pipeline.sh BUNDLES ENGINES SPLIT OUT [SECONDS]      no new step is begun after SECONDS
#
# SEGTRT                program to measure with              [target/release/segtrt]
# SEGTRT_TENSORRT_LIB   TensorRT's directory, where the program does not find it by itself
# ORT_DYLIB_PATH        ONNX Runtime's library, likewise
# PYTHON                Python with numpy, to compare masks  [python3]
# MODELS                what to measure                      [edgetam sam2_tiny sam2_small sam2_base sam2_large]
# PRECISION             of the engines                       [fp16]
# FRAMES                frames of each clip for the masks    [24]
# SWEEP_MODEL           for objects, depths, the long run    [edgetam]
set -uo pipefail
if [ $# -lt 4 ]; then sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2; fi
bundles=$1 engines=$2 split=$3 out=$4 limit=${5:-0}
here=$(cd "$(dirname "$0")/.." && pwd)
segtrt=${SEGTRT:-$here/target/release/segtrt}
models=${MODELS-edgetam sam2_tiny sam2_small sam2_base sam2_large}
precision=${PRECISION:-fp16} frames=${FRAMES:-24} one=${SWEEP_MODEL:-edgetam}
mkdir -p "$out"
failed=0

# Runs a command into OUT/NAME unless it is there; the folder appears only when the command is done.
step() {
    local name=$1
    shift
    if [ -e "$out/$name.done" ]; then return; fi
    if [ "$limit" -gt 0 ] && [ "$SECONDS" -ge "$limit" ]; then echo "left for later: $name"; failed=1; return; fi
    rm -rf "${out:?}/$name"
    "$@" > "$out/$name.log" 2>&1
    local code=$?
    if [ $code -ne 0 ]; then echo "not done: $name (exit code $code; see $out/$name.log)"; failed=1; return; fi
    touch "$out/$name.done"
    echo "done after $SECONDS s: $name"
}
gpu() {
    local name=$1 model=$2 clips=$3
    shift 3
    step "$name" "$segtrt" bench --backend tensorrt --engines "$engines" --split-dir "$clips" --models "${model}_points" \
        --precision "$precision" --out-dir "$out/$name" "$@"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv > "$out/gpu.txt" 2>&1
for model in $models; do
    gpu "latency_$model" "$model" "$split" --profile-runs 3
    gpu "throughput_$model" "$model" "$split" --mode throughput --profile-runs 3
    gpu "masks_$model" "$model" "$split" --max-clip-frames "$frames" --save-masks
done
step synth "$segtrt" synth --out "$out/synth" --videos 1 --objects 8 --frames 120 --size 1280x720 --seed 7
for n in 1 2 4 8; do
    gpu "objects_$n" "$one" "$out/synth" --objects-together "$n" --mode throughput
    gpu "streams_$n" "$one" "$out/synth" --objects-together "$n" --mode throughput --object-streams
done
for n in 1 2 4 8 16; do
    gpu "ahead_$n" "$one" "$split" --encode-ahead "$n" --mode throughput --profile-runs 3
    gpu "batch_$n" "$one" "$split" --encode-batch "$n" --mode throughput --profile-runs 3
done
gpu soak "$one" "$split" --limit-videos 1 --repeat-clip 250 --mode throughput
if command -v compute-sanitizer > /dev/null; then
    # TensorRT 8.6.0's own kernels fail under memcheck, so only this program's are looked at in a clip.
    ours=()
    for part in preprocess mask_ bank_ attention combine; do ours+=(--kernel-name "kernel_substring=$part"); done
    for tool in memcheck racecheck; do
        step "${tool}_kernels" compute-sanitizer --tool "$tool" --error-exitcode 1 --target-processes all \
            "$segtrt" selftest --kernels --runs 1 --warmup 0
        step "${tool}_clip" compute-sanitizer --tool "$tool" "${ours[@]}" --error-exitcode 1 --target-processes all "$segtrt" bench \
            --backend tensorrt --engines "$engines" --split-dir "$split" --limit-videos 1 --max-clip-frames 4 --warmup-runs 0 \
            --models "${one}_points" --precision "$precision" --out-dir "$out/${tool}_clip"
    done
else
    echo "left out: compute-sanitizer is not installed"
    failed=1
fi
# The processor's masks last: they take the longest and need no GPU.
for model in $models; do
    step "cpu_$model" "$segtrt" bench --split-dir "$split" --models "${model}_points" --onnx-dir "$bundles" --precision fp32 \
        --max-clip-frames "$frames" --warmup-runs 0 --save-masks --out-dir "$out/cpu_$model"
    step "iou_$model" "${PYTHON:-python3}" "$here/onnx/compare_masks.py" "$out/masks_$model/masks" "$out/cpu_$model/masks"
    if [ -e "$out/iou_$model.log" ]; then echo "$model: $(tail -1 "$out/iou_$model.log")"; fi
done
exit $failed
