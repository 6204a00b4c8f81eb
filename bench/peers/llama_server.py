"""llama-cpp-python's own server, made to behave as hosted models do: a new seed for each answer.

By itself it seeds every answer alike unless the request names a seed, and then a model at temperature 1 repeats itself.
The model is a base model, which ends a chat before it has said a word: it gets the messages as a text to go on with.
"""

from __future__ import annotations

import runpy
import secrets
from importlib import import_module
from typing import Any

CHAT_FORMAT = "text"


def main() -> None:
    llama: Any = import_module("llama_cpp").Llama
    set_seed = llama.set_seed
    llama.set_seed = lambda self, seed: set_seed(self, secrets.randbits(32))
    formats: Any = import_module("llama_cpp.llama_chat_format")

    def as_text(messages: list[Any], **_options: Any) -> Any:
        return formats.ChatFormatterResponse(prompt=" ".join(message["content"] for message in messages))

    formats.register_chat_format(CHAT_FORMAT)(as_text)
    runpy.run_module("llama_cpp.server", run_name="__main__")


if __name__ == "__main__":
    main()
