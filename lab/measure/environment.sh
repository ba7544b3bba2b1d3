# Sets the variables of the jobs: . environment.sh FOLDER
#
# Python packages, EdgeTAM's code and TensorRT lie in FOLDER. CUDA's libraries and ONNX Runtime are
# those of this Python.
export PYTHONPATH=$1/packages/site EDGETAM_SRC=$1/packages/edgetam SEGTRT_TENSORRT_LIB=$1/tensorrt
export HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
libraries=$(python3 - << 'END'
import glob, importlib.util

spec = importlib.util.find_spec("nvidia")
places = spec.submodule_search_locations if spec else []
print(":".join(folder for place in places for folder in sorted(glob.glob(f"{place}/*/lib"))))
END
)
export LD_LIBRARY_PATH=$1/tensorrt:$libraries:${LD_LIBRARY_PATH:-}
ORT_DYLIB_PATH=$(python3 - << 'END'
import glob, importlib.util, os

spec = importlib.util.find_spec("onnxruntime")
found = glob.glob(f"{os.path.dirname(spec.origin)}/capi/libonnxruntime.so*") if spec else []
print(found[0] if found else "")
END
)
export ORT_DYLIB_PATH
