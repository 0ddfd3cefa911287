#!/usr/bin/env bash
# Packs a vLLM and what it needs into pieces, for a GPU machine that reaches no package registry.
# Usage: pack.sh OUT VERSION THERE [CAPABILITY [PIECE_BYTES]], such as: pack.sh pieces 0.33.0 freeze.txt 9.0
#   THERE       what the Python there prints as `pip freeze`; its versions are taken where vLLM allows them, and stay there. A
#               bare name stays out whatever its version is; NCCL is torch's own, so give it its version
#   CAPABILITY  of the GPU (9.0 without): device code for other ones is left out
# Needs uv, zstd and some 12 GB of disk. ZSTD_LEVEL=17 packs smaller and takes many times as long. Result: OUT/part_00, part_01, …, of 45 MB without PIECE_BYTES, and OUT/SHA256SUMS.
# There: sha256sum -c SHA256SUMS && cat part_* | zstd -d --long=27 | tar -x -C VLLM_SITE, then environments.sh DEST WHEELS VLLM_SITE
set -euo pipefail
version=$2 there=$(realpath "$3") capability=${4:-9.0} piece=${5:-45000000}
mkdir -p "$1"
out=$(realpath "$1") here=$(realpath "$(dirname "$0")")
[ -z "$(ls -A "$out")" ] || { echo "$out is not empty: name another folder." >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=(--python-version 3.12 --python-platform x86_64-manylinux_2_39)

# what is there is preferred, so that only what vLLM does not allow is carried
grep -E '^[A-Za-z0-9_.-]+==[^ ]+$' "$there" >"$work/lock.txt" || true
# left to itself, uv may take a cuda-python of CUDA 12 with its own cuda.bindings, beside which no vLLM loads on CUDA 13
printf '%s\n' "vllm==$version" 'cuda-python>=13' >"$work/in.txt"
uv pip compile -q --no-annotate --no-header "${target[@]}" "$work/in.txt" -o "$work/lock.txt"
python3 - "$work/lock.txt" "$there" >"$work/need.txt" <<'PY'
import re, sys

def read(path):
    for line in open(path, encoding="utf-8"):
        name, _, version = line.split("#")[0].split(";")[0].strip().partition("==")
        if name:
            yield re.sub(r"[-_.]+", "-", name).lower(), version.strip()

there = dict(read(sys.argv[2]))
CUDA = re.compile(r"nvidia-(?!nccl|cutlass|cudnn-frontend|modelopt)|cuda-")  # of one CUDA release all serve; seen with 13.0
for name, version in read(sys.argv[1]):
    if there.get(name) not in ("", version) and not (name in there and CUDA.match(name)):
        print(f"{name}=={version}")
PY
echo "carried: $(tr '\n' ' ' <"$work/need.txt")"
uv pip install -q --no-deps --only-binary :all: "${target[@]}" --target "$work/site" -r "$work/need.txt"

cd "$work/site"
"${PYTHON:-python3}" "$here/thin_libraries.py" --sm "${capability/./}" \
    $(find . -name '*.so' -o -name '*.so.[0-9]*' | xargs -r ls -S | head -60)
# headers, static libraries and programs; kernels for other GPUs; sources, which only kernels need that are compiled there
find torch/bin -type f ! -name torch_shm_manager -delete # that one torch looks for when it is imported
rm -rf torch/include torch/share torch/test vllm/vllm-rs vllm/vllm_flash_attn/_vllm_fa2_C* bin \
    vllm/third_party/deep_gemm/include triton/backends/nvidia/bin/{ptxas-blackwell,nvdisasm,cuobjdump} triton/_C/libproton* \
    flashinfer/data/{csrc,cutlass,cccl}
find . -name '*.a' -delete
tar -c --exclude=__pycache__ --exclude=tests . | zstd -q -T0 "-${ZSTD_LEVEL:-9}" --long=27 | split -b "$piece" -d - "$out/part_"
cd "$out"
sha256sum part_* >SHA256SUMS
du -ch part_* | tail -1
