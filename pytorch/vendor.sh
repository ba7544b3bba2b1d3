#!/bin/bash
# Meta's code and what it imports, in folders that travel to a machine without a package registry:
# pytorch/.vendor (PYTHONPATH) and onnx/.edgetam. That machine needs PyTorch, torchvision, timm,
# scipy, pillow, safetensors and PyYAML.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
rm -rf pytorch/.vendor onnx/.edgetam
"$python" -m pip install --quiet --no-deps --target pytorch/.vendor \
    hydra-core==1.3.8 omegaconf==2.3.1 antlr4-python3-runtime==4.9.3 tqdm packaging
# Its build asks for PyTorch: the one of $PYTHON serves.
SAM2_BUILD_CUDA=0 "$python" -m pip install --quiet --no-deps --no-build-isolation --target pytorch/.vendor -r pytorch/requirements-sam2.txt
"$python" -m pip install --quiet --no-deps --target onnx/.edgetam -r pytorch/requirements-edgetam.txt
du -sh pytorch/.vendor onnx/.edgetam
