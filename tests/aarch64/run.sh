#!/bin/bash
# The program for aarch64, cross-built with zig and run under qemu-user, gives the files of this machine's program:
# the same bytes of synth and predecode, masks of the demo's network with IoU 1, the same merged rows.
#   make test-aarch64 [SUBSET=1] [REQUIRE=1] [AARCH64=PROGRAM] [NATIVE=PROGRAM]
# SUBSET=1: one short clip. REQUIRE=1: what cannot be had here is a failure, else it is SKIPPED.
# AARCH64, NATIVE: programs that were built already, of the same commit and profile.
# It installs nothing: qemu and the sysroot are Debian's or Ubuntu's packages, unpacked in target/aarch64-test.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
here=$PWD/target/aarch64-test
work=$here/work

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
skip() {
  [ -z "${REQUIRE:-}" ] || fail "$*"
  echo "SKIPPED: $*; the program was NOT run on aarch64" >&2
  exit 0
}
seconds() { # WHAT COMMAND…: how long it took
  local what=$1 begun=$EPOCHREALTIME
  shift
  "$@"
  awk -v what="$what" -v begun="$begun" -v end="$EPOCHREALTIME" 'BEGIN { printf "%6.1f s  %s\n", end - begun, what }'
}

[ "$(uname -m)" = x86_64 ] || skip "this machine is $(uname -m); the comparison needs an x86-64 one"
mkdir -p "$here"

# ---- what is fetched: kept in target/aarch64-test for the next run ----

unpack() { # FOLDER PACKAGE…: Debian packages into a folder
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local folder=$1 debs
  shift
  debs=$(mktemp -d)
  # As root apt else downloads as a user who may not write here, and says so.
  (cd "$debs" && apt-get -o APT::Sandbox::User=root download "$@" >/dev/null 2>&1) ||
    { [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null && (cd "$debs" && apt-get -o APT::Sandbox::User=root download "$@" >/dev/null); } ||
    { rm -rf "$debs"; return 1; }
  rm -rf "$folder.part" "$folder"
  for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$folder.part"; done
  rm -rf "$debs"
  mv "$folder.part" "$folder"
}

find_qemu() {
  local found
  for found in qemu-aarch64-static qemu-aarch64; do
    if qemu=$(command -v $found); then return; fi
  done
  # Linked statically: it needs no other package. 63 MB.
  [ -d "$here/qemu" ] || unpack "$here/qemu" qemu-user-static || unpack "$here/qemu" qemu-user ||
    skip "no qemu-aarch64 on PATH, and apt-get cannot download it; install it with: sudo apt-get install qemu-user-static"
  # It has sixty other processors in 350 MB.
  find "$here/qemu" -type f ! -name 'qemu-aarch64*' -delete
  for found in "$here"/qemu/usr/bin/qemu-aarch64{-static,}; do
    if [ -x "$found" ]; then qemu=$found && return; fi
  done
  fail "the package of qemu in $here/qemu has no qemu-aarch64"
}

find_sysroot() {
  [ -d "$here/sysroot" ] || unpack "$here/sysroot" libc6-arm64-cross libgcc-s1-arm64-cross libstdc++6-arm64-cross ||
    skip "apt-get cannot download libc6-arm64-cross, libgcc-s1-arm64-cross and libstdc++6-arm64-cross"
  root=$here/sysroot/usr/aarch64-linux-gnu
  # ONNX Runtime's cpuinfo crashes on the host's, which qemu before 8.2 shows. qemu looks for files in the sysroot first.
  mkdir -p "$root/proc"
  for ((cpu = 0; cpu < $(nproc); cpu++)); do
    printf 'processor\t: %s\nBogoMIPS\t: 62.50\nFeatures\t: %s\nCPU implementer\t: 0x41\nCPU architecture: 8\n' \
      $cpu 'fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp'
    printf 'CPU variant\t: 0x0\nCPU part\t: 0xd42\nCPU revision\t: 1\n\n'
  done >"$root/proc/cpuinfo"
}

find_wheel() { # The release that make test uses.
  release=$(sed -nE 's/^onnxruntime==([0-9.]+) ; python_version >= .*/\1/p' onnx/requirements-runtime.txt)
  wheel=$(find "$here" -maxdepth 1 -name "onnxruntime-$release-*aarch64.whl" -print -quit)
  [ -z "$wheel" ] || return 0
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --dest "$here" "onnxruntime==$release" ||
    skip "pip cannot download onnxruntime $release for aarch64"
  wheel=$(find "$here" -maxdepth 1 -name "onnxruntime-$release-*aarch64.whl" -print -quit)
}

find_programs() {
  native=$(realpath "${NATIVE:-target/debug/segtrt}") aarch64=$(realpath -m "${AARCH64:-target/$target/debug/segtrt}")
  [ -n "${NATIVE:-}" ] || cargo build --locked --bin segtrt
  if [ -z "${AARCH64:-}" ]; then
    local code=0
    scripts/cross.sh dev aarch64 || code=$?
    [ $code != 3 ] || skip "zig or Rust's library for $target cannot be had"
    [ $code = 0 ] || fail "the program for aarch64 does not build"
  fi
  [ -x "$native" ] || fail "NATIVE=$NATIVE is no program"
  [ -x "$aarch64" ] || fail "AARCH64=$AARCH64 is no program"
}

seconds "qemu" find_qemu
seconds "sysroot" find_sysroot
seconds "ONNX Runtime's wheel" find_wheel
seconds "programs" find_programs

# ---- both programs do the same ----

rm -rf "$work"
mkdir -p "$work"/{x86_64,aarch64}
# The Cortex-A76 is the nearest to Orin's A78AE that qemu 7.2 has: ARMv8.2 with half precision and dot products, without SVE.
export QEMU_CPU=${QEMU_CPU:-cortex-a76} QEMU_LD_PREFIX=$root
export ORT_DISABLE_TELEMETRY=1
clips=(--videos 2 --objects 2 --frames 24) models=edgetam_mini_points,edgetam_mini_bbox
[ -z "${SUBSET:-}" ] || { clips=(--videos 1 --objects 1 --frames 8) models=edgetam_mini_points; }

on() { # MACHINE ARGUMENT…: segtrt in the machine's folder; what it prints is kept in the file of its first argument
  local machine=$1
  shift
  if [ "$machine" = aarch64 ]; then
    # A library beside the sources, for this machine, would else be found first.
    local library=$work/share/lib/libonnxruntime.so.$release
    [ ! -f "$library" ] || export ORT_DYLIB_PATH=$library
    (cd "$work/aarch64" && SEGTRT_SHARE=$work/share SEGTRT_RUNNER=$(printf %q "$qemu") "$qemu" "$aarch64" "$@")
    unset ORT_DYLIB_PATH
  else
    (cd "$work/x86_64" && "$native" "$@")
  fi >"$work/$machine/$1.txt" 2>&1 || fail "segtrt $* on $machine: $(tail -n 5 "$work/$machine/$1.txt")"
}
both() {
  on x86_64 "$@"
  seconds "$1 on aarch64" on aarch64 "$@"
}
same() { # PATH…: the same bytes on both machines
  local path
  for path in "$@"; do
    diff -r "$work/x86_64/$path" "$work/aarch64/$path" >/dev/null || fail "$path is not the same in $work/x86_64 and $work/aarch64"
  done
}

both --version
same ./--version.txt
both synth --out split --size 320x180 --seed 7 --mask-stride 1 "${clips[@]}"
same split
both predecode --split-dir split --imgsz 256 --values f16 --out-dir f16
both predecode --split-dir split --imgsz 256 --values u8 --out-dir u8
same f16 u8
seconds "setup on aarch64" on aarch64 setup --from "$wheel"
bundles=$PWD/onnx/bundles/edgetam_mini_256_fp32
both bench --split-dir split --models $models --onnx-dir "$bundles" --save-masks --out-dir run
both merge run --table sav_benchmark_summary -o merged.csv
both report run -o report.html
frames=$(cd "$work/x86_64" && echo split/JPEGImages_24fps/*_000)
both track "$frames" --click 160,90 --model edgetam_mini --onnx-dir "$bundles" --out track
same track/masks

# ---- what a board's user runs, without the GPU: from the pack to results.tar ----

cat >"$work/board.toml" <<TABLE
[testboard]
title = "aarch64 under qemu"
sm = 87
memory_mb = 4096
unified = true
models = ["edgetam_mini"]
precision = "fp32"
imgsz = 256
workspace_mb = 64
track_variant = "per-fill-level"
opt_level = 1
device_names = []
tegra = true
TABLE
"$native" pack --platform testboard --platforms "$work/board.toml" --onnx-dir "$bundles" --binary "$aarch64" \
  --with-clips "$work/x86_64/split" --out "$work/pack.tar" >"$work/pack.txt" 2>&1 || fail "segtrt pack: $(tail -n 5 "$work/pack.txt")"
tar -xf "$work/pack.tar" -C "$work"
board=$work/segtrt-pack-testboard
# The shell is this machine's; the program is the pack's, and its workers' too.
cat >"$work/segtrt" <<PROGRAM
#!/bin/bash
export ORT_DYLIB_PATH=$(printf %q "$work/share/lib/libonnxruntime.so.$release") SEGTRT_SHARE=$(printf %q "$work/share") SEGTRT_RUNNER=$(printf %q "$(printf %q "$qemu")")
exec $(printf %q "$qemu") $(printf %q "$board/segtrt") "\$@"
PROGRAM
chmod +x "$work/segtrt"
rehearse() { REHEARSE=1 SEGTRT=$work/segtrt sh "$board/run.sh" >"$work/board.txt" 2>&1 || fail "run.sh: $(tail -n 5 "$work/board.txt")"; }
seconds "run.sh of the pack on aarch64, the CPU in the GPU's place" rehearse
# A rehearsal is no result of a board; all files have their sums.
! "$native" submit "$board/results.tar" >"$work/submit.txt" 2>&1 || fail "segtrt submit took a rehearsal for a board's result"
for words in 'ok       files ' 'ok       pack ' 'FAILED   steps     a rehearsal' '| edgetam_mini_points | 256 | fp32 |'; do
  grep -qF -- "$words" "$work/submit.txt" || fail "segtrt submit does not say '$words': $(cat "$work/submit.txt")"
done
python3 tests/aarch64/compare.py "$work/x86_64" "$work/aarch64"
