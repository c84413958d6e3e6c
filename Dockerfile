# Kernels built, both commands installed; results and reports go to the folder that is mounted at /work.
#   docker build -t tk-kernels .
#   docker run --gpus all -v "$PWD:/work" tk-kernels                    # reproduce-paper measure, on a GPU
#   docker build --build-arg TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu -t tk-kernels:cpu .
FROM python:3.12-slim-bookworm
ARG EXTRAS=cuda,baselines
ARG TORCH_INDEX_URL=
ENV TK_KERNELS_CACHE=/opt/tk-kernels PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ git \
 && rm -rf /var/lib/apt/lists/*
COPY . /tmp/source
RUN pip install -c /tmp/source/constraints.txt torch ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} \
 && pip install -c /tmp/source/constraints.txt "/tmp/source${EXTRAS:+[$EXTRAS]}" \
 && python -m tk_kernels.toolchain build \
 && rm -rf /tmp/source
WORKDIR /work
CMD ["reproduce-paper", "measure"]
