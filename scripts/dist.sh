#!/bin/bash
# Makes the archives that users download: stripped programs for x86-64 and aarch64 that need glibc 2.31 or newer.
#   scripts/dist.sh [--built] [x86_64|aarch64 …]
# They lie in target/dist with SHA256SUMS. The program of this machine's processor is always built: it writes the manual pages.
# --built checks and packs what was built before.
set -euo pipefail
cd "$(dirname "$0")/.."
# As scripts/cross.sh links.
GLIBC=2.31
# Nothing else may be linked dynamically: CUDA, TensorRT and ONNX Runtime are opened at run time.
LIBRARIES='^(libc|libm|libdl|libpthread|librt|ld-linux-(x86-64|aarch64))\.so\.[0-9]$'
MOST_MB=25
out=target/dist

fail() {
  echo "make dist: $*" >&2
  exit 1
}

build=yes
[ "${1:-}" = --built ] && build=no && shift
host=$(uname -m)
others=("$@")
[ ${#others[@]} -gt 0 ] || others=(x86_64 aarch64)
machines=("$host")
for machine in "${others[@]}"; do
  case $machine in
  x86_64 | aarch64) [ "$machine" = "$host" ] || machines+=("$machine") ;;
  *) fail "unknown processor $machine; expected x86_64 or aarch64" ;;
  esac
done

# The highest version of glibc that any symbol asks for.
glibc_of() { readelf --version-info --wide "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1 | sed 's/GLIBC_//'; }

check() { # PROGRAM MACHINE
  local needs glibc bytes
  readelf --file-header "$1" | grep -qiE "Machine:.*$(echo "$2" | sed 's/x86_64/X86-64/')" || fail "$1 is not for $2"
  glibc=$(glibc_of "$1")
  [ "$(printf '%s\n%s\n' "$glibc" $GLIBC | sort -V | tail -n 1)" = $GLIBC ] || fail "$1 needs glibc $glibc, more than $GLIBC"
  needs=$(readelf --dynamic --wide "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
  if echo "$needs" | grep -vE "$LIBRARIES"; then fail "$1 is linked with the libraries above"; fi
  readelf --section-headers --wide "$1" | grep -q '\.symtab' && fail "$1 is not stripped"
  bytes=$(stat -c %s "$1")
  [ "$bytes" -le $((MOST_MB * 1000000)) ] || echo "warning: $1 has $bytes bytes, the limit is $MOST_MB MB" >&2
  echo "$2: $bytes bytes, glibc $glibc, needs $(echo $needs)"
}

program_of() { echo "target/$1-unknown-linux-gnu/release/segtrt"; }

if [ $build = yes ]; then
  for machine in "${machines[@]}"; do
    # The sources do not lie on users' machines where they lay here.
    SEGTRT_NO_SOURCES=1 CARGO_PROFILE_RELEASE_STRIP=symbols scripts/cross.sh release "$machine" ||
      fail "the program for $machine was not built; the reason is above"
  done
fi

version=$(sed -nE 's/^version = "([0-9.]+.*)"$/\1/p' Cargo.toml | head -n 1)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
rm -rf $out
mkdir -p $out
for machine in "${machines[@]}"; do
  program=$(program_of "$machine")
  check "$program" "$machine"
  name=segtrt-$version-$machine-linux
  scripts/install.sh "$program" "$out/$name" "$(program_of "$host")"
  python3 scripts/third_party.py --target "$machine-unknown-linux-gnu" --out "$out/$name/share/segtrt/THIRD-PARTY.txt"
  cp README.md LICENSE-MIT LICENSE-APACHE "$out/$name/"
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --directory=$out "$name" |
    gzip --no-name -9 >"$out/$name.tar.gz"
  rm -rf "${out:?}/$name"
done
(cd $out && sha256sum ./*.tar.gz | sed 's| \./| |' | tee SHA256SUMS)
