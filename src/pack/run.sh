#!/bin/sh
# Builds the engines of this pack on the machine it lies on, tests and measures them, and leaves
# results.tar to send back. Run it again after an interruption: engines that are up to date and
# clips that are measured are kept.
#
#   sh run.sh [OPTION OF build-engines]...     for example: sh run.sh --workspace-mb 128
#
#   SEGTRT=FILE               the segtrt to use, instead of the packed one or the one on the PATH
#   SEGTRT_TENSORRT_LIB=DIR   where TensorRT's libraries lie, if they are not found by themselves
#   POWER_MODES="0 2"         measures in each of these modes of nvpmodel too; it asks for sudo
#   SOAK=600                  heats the board for so many seconds before each measurement
#   REHEARSE=1                tries the steps without a GPU: builds and tests no engines, and runs
#                             the network on the CPU with ONNX Runtime (first: segtrt setup)
set -u

# A relative SEGTRT is meant from where the user is, not from the pack.
case ${SEGTRT:-} in
/*) ;;
*/*) SEGTRT=$PWD/$SEGTRT ;;
esac
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
cd -- "$here" || exit 1

for part in settings.sh SHA256SUMS platforms.toml onnx; do
    if [ ! -e "$part" ]; then
        echo "run.sh: $here/$part is missing; unpack the whole pack into one folder and run its run.sh" >&2
        exit 1
    fi
done
# shellcheck source=/dev/null
. ./settings.sh
mkdir -p results || exit 1
failed=0
backend=tensorrt
[ "${REHEARSE:-0}" = 0 ] || backend=onnxruntime

say() {
    printf '%s\n' "$*" | tee -a results/run.log
}

# Prints a reason and ends; what was logged so far is still worth sending.
give_up() {
    say "run.sh: $*"
    pack_results
    exit 1
}

# Runs a step, shows and keeps what it prints. A pipe has the status of its last part, so the step's
# own goes by file.
step() {
    step_name=$1
    shift
    say "== $*"
    rm -f "results/$step_name.status"
    {
        "$@" 2>&1
        echo "$?" >"results/$step_name.status"
    } | tee "results/$step_name.log"
    step_status=$(cat "results/$step_name.status" 2>/dev/null || echo 1)
    [ "$step_status" -eq 0 ]
}

runs_here() {
    [ -n "$1" ] && "$1" --version >/dev/null 2>&1
}

# Sets $segtrt: what the user names is final, a packed program for another processor is passed over.
find_segtrt() {
    if [ -n "${SEGTRT:-}" ]; then
        segtrt=$SEGTRT
        runs_here "$segtrt" && return 0
        say "SEGTRT=$SEGTRT is no program that runs here"
        return 1
    fi
    if [ -f segtrt ]; then
        segtrt=$here/segtrt
        runs_here "$segtrt" && return 0
        say "the packed segtrt does not run here; it was built for another processor or system"
    fi
    segtrt=$(command -v segtrt) || segtrt=
    runs_here "$segtrt"
}

# The command has this option.
has_option() {
    "$segtrt" "$1" --help 2>/dev/null |
        awk -v option="$2" '$1 == option || $2 == option { found = 1 } END { exit !found }'
}

# The word tensorrt stands in the help of --backend; ONNX Runtime's provider of that name is another option's.
bench_has_tensorrt() {
    "$segtrt" bench --help 2>/dev/null | awk '
        $1 ~ /^--/ || ($1 ~ /^-[A-Za-z],$/ && $2 ~ /^--/) { inside = ($1 == "--backend" || $2 == "--backend") }
        inside {
            gsub(/[^A-Za-z0-9_]+/, " ")
            for (i = 1; i <= NF; i++) if ($i == "tensorrt") found = 1
        }
        END { exit !found }'
}

# nvpmodel changes the mode as root only.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

current_mode() {
    nvpmodel -q 2>/dev/null | awk '/^[0-9]+$/ { mode = $1 } END { print mode }'
}

# Some modes need a restart, which nvpmodel asks for: then the mode stays as it is.
set_mode() {
    say "== nvpmodel -m $1"
    echo no | as_root nvpmodel -m "$1" >>results/nvpmodel.log 2>&1
    [ "$(current_mode)" = "$1" ]
}

tegrastats_pid=
stop_tegrastats() {
    [ -z "$tegrastats_pid" ] || kill "$tegrastats_pid" 2>/dev/null
    tegrastats_pid=
}
trap stop_tegrastats EXIT

# Measures the clips into results/$1, and goes on where that was interrupted.
measure() {
    engines=engines
    [ "$backend" = tensorrt ] || engines=
    set -- "$1" bench --backend "$backend" ${engines:+--engines "$engines"} --onnx-dir onnx --split-dir "$split" \
        --models "$TAGS" --imgsz "$IMGSZ" --out-dir "results/$1"
    case $PRECISION in fp16 | mixed | fp32) set -- "$@" --precision "$PRECISION" ;; esac
    [ -d "results/$1" ] && set -- "$@" --resume
    measured=$1
    shift
    step "$measured" "$segtrt" "$@"
}

# Heats the board by the same measurement. Its rows show speed, clocks and temperature over time.
soak() {
    [ "${SOAK:-0}" -gt 0 ] || return 0
    soak_until=$(($(date +%s) + SOAK))
    turn=1
    while measure "soak$1_$(printf '%03d' "$turn")"; do
        [ "$(date +%s)" -lt "$soak_until" ] || return 0
        turn=$((turn + 1))
    done
    return 1
}

# Peaks, soak and measurement in the present mode. $1 follows the names of the results.
measure_mode() {
    if [ "$backend" = tensorrt ] && has_option selftest --peak; then
        step "peak$1" "$segtrt" selftest --peak || say "the peaks of this GPU stay unknown (results/peak$1.log)"
    fi
    if command -v tegrastats >/dev/null 2>&1; then
        tegrastats --interval 1000 >"results/tegrastats$1.log" 2>&1 &
        tegrastats_pid=$!
    fi
    soak "$1" && measure "bench$1"
    mode_status=$?
    stop_tegrastats
    return "$mode_status"
}

measure_power_modes() {
    if ! command -v nvpmodel >/dev/null 2>&1; then
        say "POWER_MODES=$POWER_MODES: there is no nvpmodel here, so no mode can be set"
        return 1
    fi
    mode_before=$(current_mode)
    modes_failed=0
    for mode in $POWER_MODES; do
        if set_mode "$mode"; then
            measure_mode "_mode_$mode" || modes_failed=1
        else
            modes_failed=1
            say "mode $mode was not set (results/nvpmodel.log); if it needs a restart, restart into it and run this again"
        fi
    done
    [ -z "$mode_before" ] || set_mode "$mode_before" || say "mode $mode_before was not set again"
    return "$modes_failed"
}

check_sums() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum -c SHA256SUMS >results/sums.log 2>&1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 -c SHA256SUMS >results/sums.log 2>&1
    else
        echo "neither sha256sum nor shasum is installed" >results/sums.log
        return 1
    fi
}

machine() {
    date -u
    uname -a
    "$segtrt" --version
    for file in /etc/os-release /etc/nv_tegra_release /proc/device-tree/model; do
        # Device tree texts end in a zero byte.
        [ -r "$file" ] && tr -d '\000' <"$file" && echo
    done
    for tool in nvidia-smi nvpmodel; do
        command -v "$tool" >/dev/null 2>&1 || continue
        case $tool in
        nvpmodel) nvpmodel -q ;;
        *) "$tool" ;;
        esac
    done
    true
}

# Sums of all results, which segtrt submit checks.
sum_results() {
    sum=sha256sum
    command -v sha256sum >/dev/null 2>&1 || sum="shasum -a 256"
    # shellcheck disable=SC2086
    (cd results && find . -type f ! -name SHA256SUMS -exec $sum {} + >../results.sums) && mv results.sums results/SHA256SUMS
}

pack_results() {
    find engines -name engine.json 2>/dev/null | while IFS= read -r file; do
        mkdir -p "results/$(dirname -- "$file")" && cp -- "$file" "results/$file"
    done
    [ "$failed" -eq 0 ] || say "some steps failed; their logs are in results/"
    # What is said from here on is not logged: the log has its sum.
    if sum_results && tar cf results.tar results; then
        printf '%s\n' "send back: $here/results.tar (segtrt submit results.tar checks it)"
    else
        printf '%s\n' "could not write $here/results.tar; send the folder $here/results"
    fi
}

say "pack for $TITLE: $MODELS at $IMGSZ, $PRECISION"
if ! check_sums; then
    grep -v ': OK$' results/sums.log
    give_up "the files are not those that were packed (above, and in results/sums.log); copy and unpack the pack again"
fi
if ! find_segtrt; then
    say "no segtrt $PACK_VERSION found: not in the pack, not named with SEGTRT=FILE, not on the PATH."
    say "Build it from its sources on this machine: Rust $RUST_VERSION or newer and a C and C++ compiler, then"
    say "  cargo build --release --locked"
    say "and put target/release/segtrt next to this script or name it: SEGTRT=FILE sh run.sh"
    give_up "it needs $NEEDS at run time"
fi
version=$("$segtrt" --version)
case $version in
*" $PACK_VERSION") ;;
*) say "note: the pack was made by segtrt $PACK_VERSION, this is $version" ;;
esac
machine >results/machine.txt 2>&1
# What it finds missing may still be no obstacle: the steps themselves decide.
step doctor "$segtrt" doctor --onnx-dir onnx || say "the doctor found problems (results/doctor.log). Continuing"

if [ "$backend" = tensorrt ]; then
    # Rows of the CPU are not continued.
    [ ! -e results/REHEARSAL ] || rm -rf results/REHEARSAL results/bench* results/soak*
    if ! step build-engines "$segtrt" build-engines --platform "$PLATFORM" --platforms platforms.toml --models "$MODELS" \
        --imgsz "$IMGSZ" --precision "$PRECISION" --max-objects "$MAX_OBJECTS" --onnx-dir onnx --out engines "$@"; then
        failed=1
        say "some engines were not built (reasons: results/build-engines.log). Continuing with the others"
    fi
    if [ -z "$(find engines -name engine.json 2>/dev/null)" ]; then
        give_up "no engine was built, so there is nothing to measure"
    fi

    if "$segtrt" selftest --help >/dev/null 2>&1; then
        set -- selftest --engines engines
        has_option selftest --onnx-dir && set -- "$@" --onnx-dir onnx
        step selftest "$segtrt" "$@" || failed=1
        rows="the rows are those of the selftest"
    else
        failed=1
        rows="nothing was measured"
        say "this segtrt has no selftest: the engines are built, not tested"
    fi
else
    if [ -d results/bench ] && [ ! -e results/REHEARSAL ]; then
        say "REHEARSE=1: $here/results has rows of this GPU, which a rehearsal would mix with the CPU's; move that folder away"
        exit 1
    fi
    say "REHEARSE=1: no engines are built or tested, and the CPU runs the network. The rows are not those of this GPU" |
        tee results/REHEARSAL
fi

if [ "$backend" = onnxruntime ] || bench_has_tensorrt; then
    split=clips
    if [ ! -d clips ]; then
        split=synthetic
        if [ ! -d synthetic ]; then
            rm -rf synthetic.part
            step synth "$segtrt" synth --out synthetic.part --videos 2 --objects 2 --frames 60 --size 1280x720 --seed 7 &&
                mv synthetic.part synthetic
        fi
    fi
    if [ -d "$split" ]; then
        measure_mode "" || failed=1
        [ -z "${POWER_MODES:-}" ] || measure_power_modes || failed=1
    else
        failed=1
        say "there are no clips to measure on"
    fi
else
    say "this segtrt has no TensorRT backend in its bench: $rows"
fi

pack_results
exit "$failed"
