#!/bin/bash
# Installs a built program with the files that it looks for in ../share/segtrt, manual pages and completions.
#   scripts/install.sh PROGRAM PREFIX [GENERATOR]
# GENERATOR is a program of this machine that writes pages and completions, if PROGRAM is for
# another processor.
set -euo pipefail
mkdir -p "$2"
program=$(realpath "$1") prefix=$(realpath "$2") generator=$(realpath "${3:-$1}")
cd "$(dirname "$0")/.."
share=$prefix/share/segtrt

install -D -m 755 "$program" "$prefix/bin/segtrt"
# Modules of an earlier version would stay importable.
rm -rf "$share/onnx/segexport" "$share/pytorch/segtorch" "$share/docs"
copy() { # FILE…: to the same path below share/segtrt
  for file in "$@"; do install -D -m 644 "$file" "$share/$file"; done
}
copy onnx/bundles/edgetam_mini_256_fp32/*
copy onnx/export.py onnx/reference.py onnx/segexport/*.py onnx/requirements*.txt onnx/README.md
copy pytorch/run.py pytorch/support.py pytorch/segtorch/*.py pytorch/requirements*.txt pytorch/README.md
copy engines/README.md engines/platforms.toml engines/requirements*.txt LICENSE-MIT LICENSE-APACHE README.md
while IFS= read -r page; do copy "$page"; done < <(find docs -name '*.md' -o -name '*.toml' | sort)

"$generator" man --out "$prefix/share/man/man1" >/dev/null
completion() { # SHELL FILE
  mkdir -p "$(dirname "$prefix/share/$2")"
  "$generator" completions "$1" >"$prefix/share/$2"
}
completion bash bash-completion/completions/segtrt
completion zsh zsh/site-functions/_segtrt
completion fish fish/vendor_completions.d/segtrt.fish
