"""The spawned process: answers requests until it is told to stop or the pipe closes."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from harness.errors import HarnessError
from harness.worker.messages import Describe, Done, Inspect, Machine, Measure, Refused, Stop

BROKEN_EXIT = 70
"""Exit code of a worker that ended itself because its device was unusable."""


def main(pipe: Connection, running: Synchronized[int], device: Mapping[str, Any]) -> None:
    """The loop.  running: shared with the parent, index of the contestant whose code runs now, or -1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    faulthandler.enable()

    import torch  # noqa: F401  after the environment is set, and in this process only
    from hydra.utils import instantiate

    from harness.worker.measure import ProcessBrokenError, Session, inspect, measure_group

    try:
        here = instantiate(dict(device))
    except Exception as error:  # Hydra wraps what the constructor raised
        pipe.send(Refused(_device_sentence(device, error)))
        return

    def enter(index: int) -> None:
        running.value = index

    while True:
        try:
            request = pipe.recv()
        except EOFError:  # the parent is gone
            return
        match request:
            case Stop():
                return
            case Describe():
                roofs = here.roofs() if request.roofs and here.timed else {}
                pipe.send(Machine(here.kind, here.timed, here.describe(), here.libraries(), roofs))
            case Inspect():
                for index, contestant in enumerate(request.contestants):
                    enter(index)
                    pipe.send(inspect(contestant, request.problems, here.kind))
                pipe.send(Done())
            case Measure():
                session = Session(request.group, here, request.timer, request.limits, pipe.send, enter)
                try:
                    measure_group(session)
                except ProcessBrokenError as broken:
                    pipe.send(broken.message)
                    os._exit(BROKEN_EXIT)  # no clean-up of a context that is gone
        enter(-1)


def _device_sentence(device: Mapping[str, Any], error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, HarnessError):
            return str(cause)
        cause = cause.__cause__
    return f"device {device.get('_target_')} cannot be used: {' '.join(str(error).split())}"
