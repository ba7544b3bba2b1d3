#!/bin/sh
# emulate.sh [-j JOBS] [shipped]: all cases, or the few that the tests wait for.
# Each *.cpp here is a program that runs sources of cuda/ on the CPU and compares them with a
# float64 reference. This script compiles and runs all of them, JOBS at a time (one a processor, if
# not said), prints what they say and the CPU time that each took. Needs a C++ compiler.
set -e
cd "$(dirname "$0")"
jobs=$(nproc 2>/dev/null || echo 1)
if [ "$1" = -j ]; then jobs=$2 && shift 2; fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
sh sections.sh "$folder"
# A section that nobody runs is a kernel without a test.
for section in "$folder"/*; do
    case $section in *.primitives | *.tensor-core | *.instances) continue ;; esac
    grep -qsF "\"${section##*/}\"" ./*.cpp ./*.h || { echo "no program runs ${section##*/}" >&2 && exit 1; }
done
# The compiler reads the standard library once for all of them.
grep -h '^#include <' ./*.h | sort -u > "$folder/standard.h"
${CXX:-c++} -O1 -std=c++17 -w -x c++-header "$folder/standard.h" -o "$folder/standard.h.gch"
# One program: what it says goes to NAME.said, its status to NAME.status, its CPU time to
# NAME.times.
cat > "$folder/one.sh" << 'ONE'
folder=$1 && name=$2 && shift 2
{
    ${CXX:-c++} -O1 -std=c++17 -w -I"$folder" -include standard.h "$name.cpp" \
        -o "$folder/$name.run" && times > "$folder/$name.compiled" &&
        "$folder/$name.run" "$@"
} > "$folder/$name.said" 2>&1
echo $? > "$folder/$name.status"
times > "$folder/$name.times"
ONE
for program in *.cpp; do echo "${program%.cpp}"; done |
    xargs -P "$jobs" -I NAME sh "$folder/one.sh" "$folder" NAME "$@"
# The last line of `times` is what the children took: "0m1.250s 0m0.030s".
seconds() {
    awk 'END { split($1, m, /m|s/); split($2, s, /m|s/); print 60 * m[1] + m[2] + 60 * s[1] + s[2] }' "$1"
}
failed=
for status in "$folder"/*.status; do
    name=${status%.status} && name=${name##*/}
    cat "$folder/$name.said"
    [ "$(cat "$status")" = 0 ] || failed="$failed $name"
    [ ! -f "$folder/$name.compiled" ] || awk -v name="$name" -v all="$(seconds "$folder/$name.times")" \
        -v first="$(seconds "$folder/$name.compiled")" \
        'BEGIN { printf "%s: compiled in %.1f s, ran in %.1f s\n", name, first, all - first }'
done
[ -z "$failed" ] || { echo "FAILED:$failed" >&2 && exit 1; }
