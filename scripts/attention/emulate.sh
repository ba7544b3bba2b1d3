#!/bin/sh
# emulate.sh [shipped]: all variants, or those that the program has.
# Runs the attention kernels', the products' and the keys' own source on the CPU (emulate.cpp, windows.cpp, products.cpp, norms.cpp, keys.cpp) and
# compares with a float64 reference. Needs a C++ compiler.
set -e
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# The arithmetic without its primitives (which emulate.cpp replaces) and without its entry points.
body() {
    for file in "$@"; do
        awk '/^\/\/ ---- attention ----/{p=1} /^\/\/ ---- instances/{p=0} p' "../../cuda/$file"
    done > "$folder/body.inc"
}
body attention.cuh attention.cu
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" emulate.cpp -o "$folder/emulate"
"$folder/emulate" "$@"
body attention.cuh wgmma.cuh attention_hopper.cu
"${CXX:-c++}" -O2 -std=c++17 -w -DHOPPER -I"$folder" emulate.cpp -o "$folder/emulate"
"$folder/emulate" "$@"
body attention.cuh windows.cuh windows.cu
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" windows.cpp -o "$folder/windows"
"$folder/windows" "$@"
section() { awk "/^\/\/ ---- $1 ----/{p=1} /^\/\/ ---- instances/{p=0} p" "../../cuda/$2"; }
section tiles tiles.cuh > "$folder/tiles.inc"
section products products_hopper.cu > "$folder/products.inc"
section norms norms_hopper.cu > "$folder/norms.inc"
for name in products norms; do
    "${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" "$name.cpp" -o "$folder/$name"
    "$folder/$name" "$@"
done
body attention.cuh windows.cuh wgmma.cuh windows_hopper.cu
"${CXX:-c++}" -O2 -std=c++17 -w -DHOPPER -I"$folder" windows.cpp -o "$folder/windows"
"$folder/windows" "$@"
body attention.cuh keys.cu
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" keys.cpp -o "$folder/keys"
"$folder/keys" "$@"
body decoder_masks.cu
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" decoder_masks.cpp -o "$folder/decoder_masks"
"$folder/decoder_masks" "$@"
{ section attention attention.cuh; section tokens decoder_tokens.cuh; section steps decoder_tokens.cu; } > "$folder/body.inc"
section heads decoder_heads.cu > "$folder/heads.inc"
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" decoder_tokens.cpp -o "$folder/decoder_tokens"
"$folder/decoder_tokens" "$@"
body attention.cuh decoder_image.cuh decoder_image.cu
"${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" decoder_image.cpp -o "$folder/decoder_image"
"$folder/decoder_image" "$@"
# gelu.cuh has names of attention.cuh's: that section in front of it, or none.
section attention attention.cuh > "$folder/attention.inc"
emulate() {
    name=$1 && shift
    "${CXX:-c++}" -O2 -std=c++17 -w -I"$folder" "$name.cpp" -o "$folder/$name"
    "$folder/$name" "$@"
}
body memory_widen.cuh memory_mask.cu
emulate memory_mask "$@"
body memory_join.cu
emulate memory_join "$@"
{ section blocks memory_blocks.cuh; section blocks memory_blocks.cu; } > "$folder/body.inc"
emulate memory_blocks "$@"
body latents.cuh latents.cu
emulate latents "$@"
body latent_windows.cuh latent_windows.cu
emulate latent_windows "$@"
