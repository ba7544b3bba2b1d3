#!/bin/bash
# An experiment through a real Slurm: munged, slurmctld and slurmd are started on loopback, as
# whoever runs this, with everything of theirs in a temporary folder; a small experiment runs on the
# CPU backend in three shards, a task of it is cancelled and must be run again, and the merged rows
# must be those of an experiment without Slurm. Outside the default suite: it needs Slurm's daemons.
# It installs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PATH:/usr/sbin:/sbin"
segtrt=${SEGTRT:-$PWD/target/debug/segtrt}

for program in munged mungekey slurmctld slurmd sbatch squeue scancel sinfo; do
    if ! command -v "$program" >/dev/null; then
        echo "no $program here. On Debian and Ubuntu: apt-get install slurm-wlm munge (no configuration is needed)" >&2
        exit 2
    fi
done
if [ ! -x "$segtrt" ]; then
    echo "no $segtrt: cargo build, or name the program with SEGTRT" >&2
    exit 2
fi

work=$(mktemp -d /tmp/segtrt-slurm.XXXXXX)
daemons=()
stop() {
    code=$?
    if [ ${#daemons[@]} -gt 0 ]; then
        scancel --user="$(id -un)" >/dev/null 2>&1 || true
        # Tasks end before those who watch over them.
        for _ in $(seq 50); do
            if [ -z "$(squeue --noheader 2>/dev/null)" ]; then break; fi
            sleep 0.2
        done
    fi
    # The controller last but one: slurmd tells it goodbye; all of them need munged.
    for ((at = ${#daemons[@]} - 1; at >= 0; at--)); do
        kill "${daemons[at]}" 2>/dev/null || true
        wait "${daemons[at]}" 2>/dev/null || true
    done
    if [ $code -ne 0 ]; then
        echo "FAILED ($code); the end of the logs in $work, which stays:" >&2
        tail -n 15 "$work"/*.log >&2 || true
    elif [ -n "${KEEP:-}" ]; then
        echo "kept: $work"
    else
        rm -rf "$work"
    fi
}
trap stop EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Waits up to 30 s until the command that follows a sentence succeeds.
until_so() {
    what=$1
    shift
    for _ in $(seq 150); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    fail "$what did not happen within 30 s"
}

# A port that nobody listens on.
free_port() {
    while :; do
        port=$((20000 + RANDOM % 20000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo $port
            return
        fi
    done
}

host=$(hostname -s)
user=$(id -un)
mkdir "$work/state" "$work/spool"
chmod 755 "$work"
mungekey --create --keyfile="$work/munge.key"
cat > "$work/slurm.conf" <<CONF
ClusterName=segtrt
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
# No rights over control groups are needed, and there is no accounting: sacct does not work here.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
# Ended jobs are forgotten soon: whoever waits must not need them.
MinJobAge=2
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=small Nodes=node1 Default=YES MaxTime=10 State=UP
CONF
export SLURM_CONF="$work/slurm.conf"

munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --pid-file="$work/munged.pid" --seed-file="$work/munged.seed" --log-file="$work/munged.log" 2>"$work/munged.err.log" &
daemons+=($!)
until_so "a credential" munge --no-input --socket="$work/munge.socket"
slurmctld -D >"$work/slurmctld.out.log" 2>&1 &
daemons+=($!)
until_so "an answer of slurmctld" sinfo
slurmd -D -N node1 >"$work/slurmd.out.log" 2>&1 &
daemons+=($!)
node_is_idle() { [ "$(sinfo --noheader --format=%t)" = idle ]; }
until_so "an idle node" node_is_idle
echo "Slurm $(sinfo --version | cut -d' ' -f2) runs on loopback"

"$segtrt" synth --out "$work/split" --videos 3 --objects 2 --frames 16 --size 160x120 --seed 3 >/dev/null
# The folder of an experiment is what it prints first.
experiment() {
    out=$1
    shift
    "$segtrt" experiment --split-dir "$work/split" --out-dir "$work/$out" --models edgetam_mini_points --backend cpu \
        --videos 0 --runs 3 --warmup 0 --no-profile "$@" -- --threads 1
}
keys() { cut -d, -f1-4 "$1/profile_outputs/profile_summary.csv"; }

experiment plain >"$work/plain.out" 2>"$work/plain.log" || fail "$(cat "$work/plain.log")"
plain=$(head -n 1 "$work/plain.out")
echo "without Slurm: $(($(keys "$plain" | wc -l) - 1)) rows"

# 1: a running task is cancelled.
experiment shared --slurm --shards 3 --partition small --poll-ms 500 >"$work/shared.out" 2>"$work/shared.log" &
waiter=$!
task_runs() { [ "$(squeue --noheader --array --states=RUNNING --format=%K | grep -c '^2$')" = 1 ]; }
until_so "task 2" task_runs
scancel "$(squeue --noheader --array --format='%F %K' | awk '$2 == 2 { print $1 "_2" }')"
wait $waiter || fail "the experiment ended with $?: $(tail -n 20 "$work/shared.log")"
cat "$work/shared.log"
shared=$(head -n 1 "$work/shared.out")
# The program gets the signal before its script or with it: the script may or may not be left to
# write the exit code.
grep -qE 'shard 2: task [0-9]+_2 ended (without a word|with exit code 143)' "$work/shared.log" ||
    fail "the cancelled task was not missed"
grep -q 'submitted again: job .*, shards 2 of 3' "$work/shared.log" || fail "the cancelled task was not run again"
diff <(keys "$plain") <(keys "$shared") || fail "the merged rows are not those of one bench"
[ "$(keys "$shared" | wc -l)" = 19 ] || fail "expected 18 rows of 3 clips, 2 objects and 3 passes"
grep -q '"slurm_node": "node1"' "$shared/profile_outputs/sidecar.json" || fail "the sidecar does not name the node"

# 2: nobody waits; another goes on while the job is at work, is stopped, and a third one ends it.
experiment later --slurm --shards 2 --no-wait >"$work/later.out" 2>"$work/later.log" || fail "$(cat "$work/later.log")"
later=$(head -n 1 "$work/later.out")
"$segtrt" experiment --resume "$later" --poll-ms 200 >/dev/null 2>"$work/stopped.log" &
waiter=$!
waits() { grep -q 'tasks done' "$work/stopped.log"; }
until_so "a word of the waiter" waits
# A shell's background job ignores Ctrl-C; the other signal is taken in the same way.
kill -TERM $waiter
code=0
wait $waiter || code=$?
[ $code = 130 ] || fail "the stopped waiter ended with $code: $(cat "$work/stopped.log")"
grep -q 'Cancel it: scancel' "$work/stopped.log" || fail "the stopped waiter did not say how to cancel the job"
"$segtrt" experiment --resume "$later" --poll-ms 200 >/dev/null 2>"$work/resumed.log" || fail "$(cat "$work/resumed.log")"
if grep -q submitted: "$work/resumed.log"; then fail "the job was submitted a second time"; fi
diff <(keys "$plain") <(keys "$later") || fail "the rows that were waited for later are not those of one bench"
echo "PASSED: 3 shards with a cancelled task, and 2 shards with waiters that came and went"
