#!/usr/bin/env bash
# Our client against `vllm bench serve` on every GPU of this host at once, each its own server with its share of the
# processors. Usage: rounds_on_all.sh OUT SECONDS CONCURRENCY [waves 6]      (rounds_on_all.sh out 1400 16)
# OUT/N.json has the rounds of GPU N, OUT/table.md what they say together. What takes too long is left out and told.
set -euo pipefail
out=$1 seconds=$2 at_once=$3 waves=${4:-6}
mkdir -p "$out"
gpus=$(nvidia-smi -L | wc -l)
share=$(($(nproc) / gpus))
running=()
for gpu in $(seq 0 $((gpus - 1))); do
    taskset -c $((gpu * share))-$((gpu * share + share - 1)) python -m tests.benchmarks.serving_comparison \
        --device "cuda:$gpu" --shape qwen3.5-9b --set serving.gdn_prefill_backend=triton --concurrency "$at_once" \
        --rounds 1000 --waves "$waves" --arms http --new-tokens 129 --json "$out/$gpu.json" --limit "$seconds" \
        >"$out/$gpu.log" 2>&1 &
    running+=($!)
done
failed=0
for each in "${running[@]}"; do wait "$each" || failed=$?; done
[ "$failed" = 0 ] || tail -n 5 "$out"/*.log >&2
python -m tests.benchmarks.serving_comparison --table "$out"/*.json | tee "$out/table.md"
exit "$failed"
