#!/bin/bash
# Trains the demo's network in six runs and exports its bundle: 40 minutes on one H200.
# Usage: lab/train/make_demo_weights.sh OUT
# Each run ends after a time, so another machine takes other steps and gets other weights of like quality.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?"the folder that gets the weights and the bundle"}
python=${PYTHON:-python3}
seed=${SEED:-0}
mini=$out/edgetam_mini.safetensors
mkdir -p "$out"

train() { "$python" "$here/train_mini.py" --seed "$seed" --out "$mini" "$@"; }
# Later runs begin with the weights of the run before.
go_on() { cp "$mini" "$out/begin.safetensors"; train --init "$out/begin.safetensors" "$@"; }

train --seconds 200 --plan 1400
train --resume "$out/edgetam_mini.resume.pt" --seconds 470 --plan 1000
train --resume "$out/edgetam_mini.resume.pt" --batch 2 --seconds 235 --plan 887
go_on --begin 0.45 --batch 2 --lr 1.5e-3 --seconds 164
go_on --begin 0.5 --bf16 --lr 1.2e-3 --ema 0.995 --seconds 600
go_on --finish --mix hard --bf16 --lr 8e-4 --ema 0.995 --seconds 438

mkdir -p "$out/float16"
"$python" "$here/to_float16.py" "$mini" --out "$out/float16/edgetam_mini.safetensors" --training "lab/train/make_demo_weights.sh, seed $seed"
"$python" "$here/../../onnx/export.py" --model edgetam_mini --checkpoint "$out/float16/edgetam_mini.safetensors" \
  --padded-track --encoder-batches 2 --out "$out/bundles"
cp "$out/float16/edgetam_mini.safetensors" "$out/bundles/edgetam_mini_256_fp32/"
