#!/bin/bash
# Compiles lab/kernel_trace for this machine: build_trace.sh OUT
#
# CUPTI and CUDA's headers are those of the toolkit, or of Python's nvidia packages.
set -euo pipefail
places=$(python3 -c 'import importlib.util as u; s = u.find_spec("nvidia"); print(*s.submodule_search_locations if s else [])')
find_one() {
    # Several may be there; `head` would end find early, which pipefail takes for a failure.
    local found
    found=$(find -L ${CUDA_HOME:-} /usr/local/cuda* $places -name "$1" 2> /dev/null || true)
    if [ -z "$found" ]; then
        echo "error: no $1 in /usr/local/cuda* or Python's nvidia packages; set CUDA_HOME" >&2
        exit 1
    fi
    echo "${found%%$'\n'*}"
}
library=$(find_one 'libcupti.so*')
cupti=$(find_one cupti.h)
cuda=$(find_one cuda.h)
gcc -O1 -shared -fPIC -I "$(dirname "$cupti")" -I "$(dirname "$cuda")" -o "$1" \
    "$(dirname "$0")/../kernel_trace/kernel_trace.c" "$library"
