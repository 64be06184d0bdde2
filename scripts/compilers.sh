# Sourced by the scripts that compile NVIDIA's GPU kernels: pinned compilers as Python packages. Sets
# `toolkit` (nvcc, its tools and NVRTC 13.0), `older` (NVRTC 12.9) and `newer` (NVRTC 13.5 and its tools,
# for compute capability 10.7, which CUDA knows since 13.4).

source scripts/common.sh
command -v g++ >/dev/null || install_packages g++

# cuobjdump and nvdisasm are not packaged for 13.0; newer ones read older machine code.
cuda=$(environment cuda-13.0.3 \
    "cuda-toolkit[nvcc,cccl,nvrtc,cudart]==13.0.3.0" \
    nvidia-cuda-cuobjdump==13.2.86 nvidia-cuda-nvdisasm==13.2.86)
nvrtc=$(environment nvrtc-12.9.86 nvidia-cuda-nvrtc-cu12==12.9.86)
newest=$(environment cuda-13.5.37 \
    nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37)

toolkit=$(echo "$cuda"/lib/python3*/site-packages/nvidia/cu13)
older=$(echo "$nvrtc"/lib/python3*/site-packages/nvidia/cuda_nvrtc)
newer=$(echo "$newest"/lib/python3*/site-packages/nvidia/cu13)
