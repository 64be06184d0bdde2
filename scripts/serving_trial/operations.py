"""How long each operation of a step takes in llama.cpp: by its own callback between operations.

    operations.py MODEL.gguf PROMPT STEPS

Loads the library of the wheel xllamacpp, which also serves, and asks it to stop after each node of
its graph (`cb_eval`). Prints a line of JSON for the prompt and for the decode steps: seconds by
operation and in all, for decode also in all without the callback. The declarations of llama.h are
those of the package llama-cpp-py-sync of the build before; defaults of its structs are checked.
"""

import collections
import importlib.util
import json
import pathlib
import sys
import time

import xllamacpp

# Operations as `fizeau project` names them, by the matrix that a product takes.
NAMES = {
    "attn_q": "qkv",
    "attn_k": "qkv",
    "attn_v": "qkv",
    "attn_output": "attention output",
    "ffn_gate": "gate and up",
    "ffn_up": "gate and up",
    "ffn_down": "down",
    "output": "output layer",
}
# Where ggml_tensor keeps its first operand: after type, buffer, ne[4], nb[4], op, op_params[16]
# and flags (ggml.h).
FIRST_OPERAND = 4 + 4 + 8 + 32 + 32 + 4 + 64 + 4


def declarations():
    found = importlib.util.find_spec("llama_cpp_py_sync")
    path = pathlib.Path(found.submodule_search_locations[0]) / "_cffi_bindings.py"
    spec = importlib.util.spec_from_file_location("declarations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi


class Engine:
    def __init__(self, path, context):
        self.ffi = declarations()
        self.ffi.cdef(
            "const char * ggml_op_desc(const struct ggml_tensor * t);"
            "const char * ggml_get_name(const struct ggml_tensor * t);",
            override=True,
        )
        self.llama = self.ffi.dlopen(xllamacpp.xllamacpp.__file__)
        self.llama.llama_backend_init()
        self.seconds = collections.Counter()
        self.is_watching = False
        self.last = 0.0
        kind = "bool(struct ggml_tensor *, bool, void *)"
        self.callback = self.ffi.callback(kind, self.evaluated)
        params = self.llama.llama_model_default_params()
        params.load_mode = 0
        self.model = self.llama.llama_model_load_from_file(path.encode(), params)
        if self.model == self.ffi.NULL:
            sys.exit(f"{path}: llama.cpp does not load it")
        params = self.llama.llama_context_default_params()
        if (params.n_ctx, params.n_batch, params.n_ubatch) != (512, 2048, 512):
            sys.exit("the structs of llama.h are not as declared: take another llama-cpp-py-sync")
        params.n_ctx, params.n_seq_max = context, 1
        params.n_threads = params.n_threads_batch = 1
        params.cb_eval = self.callback
        self.context = self.llama.llama_init_from_model(self.model, params)
        if self.context == self.ffi.NULL:
            sys.exit("llama.cpp makes no context")

    def name(self, tensor):
        return self.ffi.string(self.llama.ggml_get_name(tensor)).decode()

    def operation(self, tensor):
        what = self.ffi.string(self.llama.ggml_op_desc(tensor)).decode()
        if what == "MUL_MAT":
            place = self.ffi.cast("char *", tensor) + FIRST_OPERAND
            matrix = self.name(self.ffi.cast("struct ggml_tensor **", place)[0])
            parts = matrix.split(".")
            if parts[-1] == "weight" and parts[-2] in NAMES:
                return NAMES[parts[-2]]
            return "attention"
        if what in ("FLASH_ATTN_EXT", "SOFT_MAX"):
            return "attention"
        return f"other: {what.lower()}"

    def evaluated(self, tensor, ask, _):
        if ask:
            self.last = time.perf_counter()
            return self.is_watching
        now = time.perf_counter()
        self.seconds[self.operation(tensor)] += now - self.last
        return True

    def step(self, tokens):
        array = self.ffi.new("llama_token[]", tokens)
        start = time.perf_counter()
        batch = self.llama.llama_batch_get_one(array, len(tokens))
        if self.llama.llama_decode(self.context, batch):
            sys.exit("llama_decode failed")
        self.llama.llama_synchronize(self.context)
        return time.perf_counter() - start

    def watched(self, tokens, count):
        """Seconds by operation and in all of the mean step, and of one without the callback."""
        plain = [self.step(tokens) for _ in range(count)]
        self.seconds.clear()
        self.is_watching = True
        watched = [self.step(tokens) for _ in range(count)]
        self.is_watching = False
        by_operation = {name: seconds / count for name, seconds in self.seconds.items()}
        return {
            "by_operation": by_operation,
            "seconds": sum(watched) / count,
            "seconds_without_callback": sum(plain) / count,
        }


def main():
    path, prompt, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    engine = Engine(path, 2 * prompt + 2 * steps + 64)
    engine.step([300] * 8)
    memory = engine.llama.llama_get_memory(engine.context)
    engine.llama.llama_memory_clear(memory, True)
    tokens = [259 + index * 7 % 5000 for index in range(prompt)]
    engine.is_watching = True
    engine.seconds.clear()
    seconds = engine.step(tokens)
    engine.is_watching = False
    prefill = {"by_operation": dict(engine.seconds), "seconds": seconds}
    print(json.dumps({"phase": "prefill", "prompt": prompt, **prefill}))
    print(json.dumps({"phase": "decode", "prompt": prompt, **engine.watched([300], steps)}))


if __name__ == "__main__":
    main()
