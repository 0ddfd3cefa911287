#!/usr/bin/env bash
# Makes autoinfer's and vLLM's environments on a GPU machine that reaches no package registry but has a Python with
# torch and transformers. Usage, in a checkout: environments.sh DEST WHEELS [VLLM_SITE]
#   WHEELS     a folder with wheels of what autoinfer needs and that Python lacks (pip download --no-deps elsewhere)
#   VLLM_SITE  a folder with vLLM's packages as pip's --target lays them out, to be linked or copied into vLLM's environment;
#              with a torch of its own (and torchvision) where vLLM wants another than is there
# Then: DEST/autoinfer/bin/autoinfer, and AUTOINFER_VLLM_PYTHON=DEST/vllm/bin/python
set -euo pipefail
destination=$1 wheels=$2 vllm_site=${3:-}
checkout=$(cd "$(dirname "$0")/../.." && pwd)
own=$(python3 -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))')
# links into a namespace (a folder that is no package, such as cuda, google and nvidia) what it lacks of another's share
share() {
    [ -d "$1" ] && { [ ! -e "$1/__init__.py" ] || [ "$(basename "$1")" = nvidia ]; } || return 0
    local each
    for each in "$1"/*; do
        if [ -e "$2/$(basename "$each")" ]; then share "$each" "$2/$(basename "$each")"; else ln -s "$each" "$2/"; fi
    done
}
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

mkdir -p "$destination"
python3 -m venv --without-pip "$destination/autoinfer"
packages=$(site "$destination/autoinfer")
python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$packages" "$wheels"/*.whl
printf '%s\n' "$checkout" "$own" >"$packages/checkout.pth"
# entry points, without a build of the wheel: a build needs hatchling and npm
python3 - "$checkout/pyproject.toml" "$packages" <<'PY'
import pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
folder = pathlib.Path(sys.argv[2], f"{project['name']}-{project['version']}.dist-info")
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.3\nName: {project['name']}\nVersion: {project['version']}\n")
groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
lines = [line for group, named in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in named.items()), "")]
(folder / "entry_points.txt").write_text("\n".join(lines))
PY
cat >"$destination/autoinfer/bin/autoinfer" <<SH
#!/usr/bin/env bash
exec "$destination/autoinfer/bin/python" -m cli "\$@"
SH
chmod +x "$destination/autoinfer/bin/autoinfer"

python3 -m venv --without-pip "$destination/vllm"
packages=$(site "$destination/vllm")
[ -z "$vllm_site" ] || cp -rl "$vllm_site"/. "$packages/" 2>/dev/null || cp -r "$vllm_site"/. "$packages/"
if [ -d "$packages/torch" ]; then # its own: of that Python CUDA's libraries, and what neither it nor a torch brings
    mkdir -p "$destination/own" "$packages/nvidia"
    for each in "$own"/*; do
        case $(basename "$each") in torch* | functorch | triton* | __pycache__) continue ;; esac
        if [ -e "$packages/$(basename "$each")" ]; then
            share "$each" "$packages/$(basename "$each")"
        else
            ln -s "$each" "$destination/own/"
        fi
    done
    own=$destination/own
fi
echo "$own" >"$packages/own.pth"
echo "export PATH=$destination/autoinfer/bin:\$PATH AUTOINFER_VLLM_PYTHON=$destination/vllm/bin/python"
