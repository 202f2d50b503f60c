#!/bin/sh
# The recorded runs of docs/independence.md, one at a time:
#
#     experiments/independence/record.sh fuzz FOLDER [PROCESSES [GRAPHS [SEED]]]
#     experiments/independence/record.sh mutants FOLDER [PROCESSES [GRAPHS [SEED]]]
#
# All of it goes into the folder; the last lines are a summary. On 16 cores each takes a few minutes.
set -eu
step=$1 folder=$2 processes=${3:-16}
here=$(dirname "$0")
export PYTHONPATH="$here/../../src${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
mkdir -p "$folder"
case $step in
fuzz)
    python "$here/fuzz.py" --graphs "${4:-210000}" --seed "${5:-2028}" --processes "$processes" --minimize \
        --out "$folder/fuzz.json" >"$folder/fuzz.txt" 2>&1 || echo "there are findings, or it failed"
    head -n 20 "$folder/fuzz.txt"
    python "$here/fuzz.py" --listed "$folder/fuzz.json"
    ;;
mutants)
    python "$here/mutants.py" --graphs "${4:-120000}" --seed "${5:-79}" --processes "$processes" \
        --log "$folder/mutants.jsonl" >"$folder/mutants.txt" 2>&1 || echo "it failed"
    rm -f "$folder"/mutants.*.pickle
    echo "wrong without any mutant: $(grep -c ATTENTION "$folder/mutants.txt" || true)"
    sed -n '/^[0-9]* mutants, /,$p' "$folder/mutants.txt"
    ;;
esac
