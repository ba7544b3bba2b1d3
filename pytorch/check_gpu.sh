#!/bin/bash
# Runs the PyTorch side on a GPU in all its modes, one line a run; the run folders stay in OUT.
#   SPLIT=… OUT=… pytorch/check_gpu.sh [options of run.py, such as --bundle DIR --weights-overlay FILE]
# MODELS, MODES, PRECISIONS and FRAMES choose; each model and mode is a process of its own. A failed
# run does not stop the others; the exit code tells. Compiled graphs are kept in OUT/inductor and
# used again.
set -uo pipefail
cd "$(dirname "$0")/.."
: "${SPLIT:?the split}" "${OUT:?the folder for results}"
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$OUT/inductor}
export PYTHONPATH=$PWD/pytorch/.vendor${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$OUT"
failed=0
for model in ${MODELS:-edgetam_points sam2_tiny_points}; do
    for precision in ${PRECISIONS:-fp32 fp16}; do
        for mode in ${MODES:-eager compile vos_optimized}; do
            name=${model}_${precision}_${mode}
            start=$SECONDS
            "${PYTHON:-python3}" pytorch/run.py --split-dir "$SPLIT" --models "$model" --precision "$precision" \
                --mode "$mode" --device cuda --limit-videos "${VIDEOS:-1}" --max-clip-frames "${FRAMES:-0}" \
                --out-dir "$OUT/$name" --save-masks "$@" >"$OUT/$name.events" 2>"$OUT/$name.log"
            code=$?
            echo "$name $((SECONDS - start)) s, exit $code: $(tail -n 1 "$OUT/$name.events")"
            [ $code = 0 ] || { failed=1; tail -n 5 "$OUT/$name.log"; }
        done
    done
done
exit $failed
