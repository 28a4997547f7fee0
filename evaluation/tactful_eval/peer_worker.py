"""Generates with dp-fusion-lib in an environment of its own; started by `peer_speed`.

The first line of standard input is what to load, each later one asks for one text; each is answered
by a line of JSON. Imports nothing of ours: that environment has none of it.
"""

import importlib
import json
import sys
import time
from typing import Any


class Timed:
    """A model whose calls are timed; everything else is the model's own."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._forward = model.forward
        self.seconds = 0.0
        self.first_done = 0.0
        model.forward = self._timed

    def begin(self) -> None:
        self.seconds, self.first_done = 0.0, 0.0

    def _timed(self, *arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = self._forward(*arguments, **options)
        end = time.perf_counter()
        self.seconds += end - start
        self.first_done = self.first_done or end
        return result


def main() -> None:
    """Loads, says so, then answers until standard input ends."""
    torch, transformers, peer = (
        importlib.import_module(name) for name in ("torch", "transformers", "dp_fusion_lib")
    )
    wanted = json.loads(sys.stdin.readline())
    torch.set_num_threads(wanted["threads"])
    source = {"pretrained_model_name_or_path": wanted["folder"], "gguf_file": wanted["file"]}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    model.eval()
    timed = Timed(model)
    fusion = peer.DPFusion(model=model, tokenizer=tokenizer)
    _say({"version": peer.__version__, "torch": torch.__version__})
    for line in sys.stdin:
        asked = json.loads(line)
        private, public = (torch.tensor(asked[key]) for key in ("private", "public"))
        timed.begin()
        start = time.perf_counter()
        made = fusion.generate_from_tokens(
            private, public, alpha=2.0, beta=asked["beta"], max_new_tokens=asked["tokens"]
        )
        end = time.perf_counter()
        _say(
            {
                "tokens": len(made["lambdas"]["PRIVATE"]),
                "seconds": end - start,
                "after_first": end - timed.first_done,
                "model": timed.seconds,
            }
        )


def _say(document: dict[str, object]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
