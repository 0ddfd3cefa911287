# The image of docker-compose.yml. docs/compose.md tells what is in it and how to build it otherwise.
#
#   runtime   agent, dashboard and a worker for this machine's processor
#   gpu       the same with vLLM and PyTorch for NVIDIA GPUs, for a worker on one
#
# A digest is that of the tag's index at the time of writing: it is what is taken, whatever the tag is today.
ARG PYTHON_IMAGE=python:3.12.14-slim-bookworm@sha256:392307d22300de8b5986851a12d9176dfc0fc073e65bf6523ebd7dcbeb23564e
ARG NODE_IMAGE=node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d


# The browser's libraries, by package-lock.json; Node itself is not in the image that runs.
FROM ${NODE_IMAGE} AS browser
WORKDIR /browser
COPY package.json package-lock.json .npmrc ./
RUN npm ci


FROM ${PYTHON_IMAGE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# PyTorch's own index of builds for the CPU: PyPI's build of the same version brings gigabytes of CUDA.
ARG PYTORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source

# What is slow to install and seldom changes comes first, so that a change of the code does not install it again.
COPY pyproject.toml ./
RUN python3 -m venv /opt/autoinfer && python3 -m venv /opt/quantize \
 && python3 -c 'import tomllib; told = tomllib.load(open("pyproject.toml", "rb"))["project"]; more = told["optional-dependencies"]; print(*told["dependencies"], *more["reference"], *more["postgresql"], *more.get("s3", ()), sep="\n")' > /tmp/requirements \
 && python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["quantize"], sep="\n")' > /tmp/quantize \
 && PIP_EXTRA_INDEX_URL="${PYTORCH_INDEX}" /opt/autoinfer/bin/python -m pip install --requirement /tmp/requirements \
 && /opt/autoinfer/bin/python -c 'import sys, torch; sys.exit(torch.version.cuda and "PyTorch came with CUDA: is the index of PYTORCH_INDEX reached?")'
# What quantizes excludes newer transformers, so that it is apart; it sees the packages above behind its own.
RUN /opt/autoinfer/bin/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
    > "$(/opt/quantize/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth" \
 && PIP_EXTRA_INDEX_URL="${PYTORCH_INDEX}" /opt/quantize/bin/python -m pip install --requirement /tmp/quantize

COPY . .
COPY --from=browser /browser/node_modules node_modules
RUN python3 dashboard/browser_libraries.py --from node_modules \
 && /opt/autoinfer/bin/python -m pip install --no-deps .


# The same with the package index's PyTorch, which is built for NVIDIA GPUs: it ranks layers, and what quantizes sees it
# behind its own packages. Importing it needs no GPU.
FROM build AS build-gpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN /opt/autoinfer/bin/python -m pip install "$(/opt/autoinfer/bin/python -c 'from experiments.torch_build import FOR_GPUS; print(FOR_GPUS)')" \
 && /opt/autoinfer/bin/python -c 'import sys, torch; sys.exit(not torch.version.cuda and "PyTorch came without CUDA.")' \
 && /opt/quantize/bin/python -c 'import sys, torch; sys.exit(not torch.version.cuda and "What quantizes sees no PyTorch with CUDA.")'


FROM ${PYTHON_IMAGE} AS base
# torch.compile calls g++, a lever of the engine `reference`; Triton calls gcc.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
# The numbers are fixed, so that what a volume holds belongs to the same user after a new build.
RUN groupadd --gid 10001 autoinfer \
 && useradd --uid 10001 --gid autoinfer --no-create-home --home-dir /data/home --shell /usr/sbin/nologin autoinfer \
 && install --directory --owner=autoinfer --group=autoinfer --mode=0750 /data /data/home
COPY --chmod=0755 deploy/entrypoint.sh /usr/local/bin/entrypoint.sh
ENV PATH=/opt/autoinfer/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/data/home \
    HF_HOME=/data/huggingface \
    AUTOINFER_DATA_DIR=/data \
    AUTOINFER_QUANTIZE_PYTHON=/opt/quantize/bin/python
USER 10001:10001
WORKDIR /data
VOLUME /data
ENTRYPOINT ["entrypoint.sh"]
CMD ["autoinfer", "doctor"]


FROM base AS runtime
COPY --from=build /opt/autoinfer /opt/autoinfer
COPY --from=build /opt/quantize /opt/quantize


FROM base AS gpu
COPY --from=build-gpu /opt/autoinfer /opt/autoinfer
COPY --from=build-gpu /opt/quantize /opt/quantize
# In an environment of its own, by the command that a user has. Its wheels bring CUDA; the host brings the driver.
ARG VLLM_VERSION=0.33.0
ENV AUTOINFER_VLLM_PYTHON=/opt/vllm/bin/python
USER 0:0
RUN PIP_NO_CACHE_DIR=1 HOME=/root AUTOINFER_DATA_DIR=/tmp/data autoinfer engines install vllm --version "${VLLM_VERSION}" \
 && rm -rf /tmp/data /root/.cache
USER 10001:10001


# What is built where no target is named.
FROM runtime AS default
