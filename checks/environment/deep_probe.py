"""What `--deep` runs in the examined interpreter: import the framework, multiply, take one gradient, on the device.

Standard library only until the framework is imported. Each stage is reported as it is reached, so that a
process that is killed or hangs still says how far it came.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from typing import Any

MARK = "<<doctor-deep>>"


def say(stage: str, **more: Any) -> None:
    sys.stdout.write(MARK + json.dumps(dict(more, stage=stage)) + "\n")
    sys.stdout.flush()


def set_target(framework: Any, target: str) -> None:
    """Newer releases have set_device, older ones the context only; eager mode in both."""
    if hasattr(framework, "set_context"):
        framework.set_context(mode=framework.PYNATIVE_MODE)
    if hasattr(framework, "set_device"):
        framework.set_device(target)
    else:
        framework.set_context(device_target=target)


def compute(target: str) -> None:
    start = time.monotonic()
    framework = importlib.import_module("mindspore")
    numpy = importlib.import_module("numpy")
    say("import", seconds=round(time.monotonic() - start, 2), version=framework.__version__)

    start = time.monotonic()
    set_target(framework, target)
    left = numpy.arange(12, dtype=numpy.float32).reshape(3, 4) / 7
    right = numpy.arange(8, dtype=numpy.float32).reshape(4, 2) / 5
    product = framework.ops.matmul(framework.Tensor(left), framework.Tensor(right)).asnumpy()
    if not numpy.allclose(product, left @ right, rtol=1e-3):
        raise ArithmeticError("the matrix product is wrong: " + repr(product.tolist()))
    device = str(framework.get_context("device_target"))
    say("matmul", seconds=round(time.monotonic() - start, 2), device=device)

    start = time.monotonic()

    def loss(weight: Any) -> Any:
        return framework.ops.matmul(framework.Tensor(left), weight).sum()

    gradient = framework.grad(loss)(framework.Tensor(right)).asnumpy()
    # d(sum(L W))/dW has the column sums of L in each column.
    if not numpy.allclose(gradient, numpy.repeat(left.sum(0)[:, None], 2, axis=1), rtol=1e-3):
        raise ArithmeticError("the gradient is wrong: " + repr(gradient.tolist()))
    say("gradient", seconds=round(time.monotonic() - start, 2), device=device)


def main(argv: list[str]) -> int:
    # The working folder is no place to import from here: what shadows a package there is found without running it.
    sys.path[:] = [entry for entry in sys.path if entry]
    try:
        compute(argv[1])
        if len(argv) > 2 and argv[2] == "mindformers":
            start = time.monotonic()
            getattr(importlib.import_module("mindformers"), "Trainer")  # noqa: B009 - resolved lazily there
            say("mindformers", seconds=round(time.monotonic() - start, 2))
    except BaseException:  # noqa: BLE001 - whatever ends it is the answer
        sys.stderr.write(traceback.format_exc())
        say("failed")
        return 1
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
