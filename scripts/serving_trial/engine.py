"""llama.cpp's own HTTP server, from the wheel xllamacpp, until standard input is closed.

    engine.py MODEL.gguf PORT SLOTS CONTEXT FOLDER

Prints one line of JSON: its address and what it is. Weights are read into memory of its own (no
mmap of the file), so that huge pages are the allocator's choice (GLIBC_TUNABLES).
"""

import ctypes
import importlib.metadata
import json
import sys

import xllamacpp

FEATURES = "avx avx2 avx_vnni bmi2 f16c fma avx512 avx512_vnni avx512_bf16 amx_int8 llamafile"


def features():
    """What the library was built for, as it says itself."""
    library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    return {name: bool(getattr(library, f"ggml_cpu_has_{name}")()) for name in FEATURES.split()}


def main():
    model, port, slots, context, folder = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = int(slots) * int(context)
    params.kv_unified = False
    params.slot_save_path = folder + "/"
    # One thread: two would wait for each other on a machine with other work.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    # Copies of prompts that are kept beside the slots would be written while a request is timed.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.n_ctx_checkpoints = 0
    params.fit_params = False
    params.verbosity = 1
    server = xllamacpp.Server(params)
    told = {
        "address": server.listening_address,
        "package": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
        "system": xllamacpp.get_system_info(),
        "compiler": xllamacpp.BUILD_INFO["compiler"],
        "features": features(),
        "batch": params.n_ubatch,
    }
    print(json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
