"""llama-cpp-python's own server, with a new seed for each answer, as hosted models have.

By itself it seeds every answer alike unless the request names a seed, and then a model at temperature 1 repeats itself.
"""

from __future__ import annotations

import runpy
import secrets
from importlib import import_module
from typing import Any


def main() -> None:
    llama: Any = import_module("llama_cpp").Llama
    set_seed = llama.set_seed
    llama.set_seed = lambda self, seed: set_seed(self, secrets.randbits(32))
    runpy.run_module("llama_cpp.server", run_name="__main__")


if __name__ == "__main__":
    main()
