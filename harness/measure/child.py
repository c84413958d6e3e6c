"""The spawned process: answers requests until it is told to stop or the pipe closes."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Any, NoReturn

from harness.measure.messages import Broken, Describe, Done, Inspect, Machine, Measure, Refused, Stop
from harness.measure.ranks import BROKEN_EXIT, Ranks, begin_process
from harness.records.errors import HarnessError
from harness.records.rows import Status
from harness.workloads import ranks_of


def main(pipe: Connection, seeds: Connection, running: Synchronized[int], device: Mapping[str, Any]) -> None:
    """The loop.  running: shared with the parent, index of the contestant whose code runs now, or -1; seeds: answers
    a purpose and a number with a seed.
    """
    complaint = begin_process()
    with contextlib.suppress(OSError):
        os.setpgrp()  # so that the parent can end it with whatever an implementation starts
    if complaint:
        pipe.send(Refused(complaint))
        return
    logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # it logs what it raises

    import torch  # noqa: F401  after the environment is set, and in this process only
    from hydra.utils import instantiate

    from harness.devices.cpu import product_gflops
    from harness.measure.contestant import status_of
    from harness.measure.line import Line, ProcessBrokenError
    from harness.measure.measure import measure_group
    from harness.measure.seal import Seal
    from harness.plan.said import inspect
    from harness.records.errors import one_line

    try:
        here = instantiate(dict(device))
    except Exception as error:  # Hydra wraps what the constructor raised
        pipe.send(Refused(_device_sentence(device, error)))
        return

    def enter(index: int) -> None:
        running.value = index

    def ask(purpose: str, number: int) -> int:
        seeds.send((purpose, number))
        seed = seeds.recv()
        if seed is None:
            reason = f"somebody asked for the seed of {purpose}, {number} before it was drawn with"
            raise ProcessBrokenError(Broken(-1, reason, Status.FAILED_VERIFICATION))
        return int(here.exchange(f"seed {(purpose, number)}", int(seed))[0])

    seal = Seal(here)
    ranks = Ranks(here, device, pipe.send, running)
    while True:
        try:
            request = pipe.recv()
        except EOFError:  # the parent is gone
            return
        seal.learn()  # the request may have brought workloads with it
        match request:
            case Stop():
                _leave()
            case Describe():
                began = time.perf_counter()
                try:
                    roofs = here.roofs() if request.roofs and here.timed else {}
                    roofs |= here.peer_roofs() if request.roofs > 1 else {}
                except Exception as error:  # a GPU in use by others, mostly
                    pipe.send(Refused(f"the roofs of this device cannot be measured: {one_line(error, named=True)}"))
                    return
                took = time.perf_counter() - began
                gflops = 0.0 if here.timed else product_gflops()
                pipe.send(Machine(here.kind, here.timed, here.describe(), here.libraries(), roofs, took, gflops))
            case Inspect():
                for index, contestant in enumerate(request.contestants):
                    enter(index)
                    found = inspect(contestant, request.problems, here.kind, here.refuse)
                    if complaint := seal.complain():
                        pipe.send(Broken(index, complaint))
                        return
                    pipe.send(found)
                pipe.send(Done())
            case Measure():
                line = Line(ranks.tell, enter, ask)
                needed = ranks_of(request.group.problem)
                try:
                    if 1 < needed <= here.most_ranks():
                        ranks.begin(request, needed)
                    measure_group(request.group, here, request.timer, request.limits, line, seal)
                except ProcessBrokenError as broken:
                    pipe.send(broken.message)
                    os._exit(BROKEN_EXIT)  # no clean-up of a context that is gone
                except BrokenPipeError:  # the parent is gone
                    return
                except Exception as error:  # not an implementation's: inputs or reference could not be made
                    here.release()
                    pipe.send(Broken(running.value, one_line(error, named=True), status_of(error)))
                    return
        enter(-1)


def _leave() -> NoReturn:
    """Ends the process without taking its modules down one by one, which takes a second; the parent waits for it."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # what libraries have left to tidy up
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _device_sentence(device: Mapping[str, Any], error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, HarnessError):
            return str(cause)
        cause = cause.__cause__
    return f"device {device.get('_target_')} cannot be used: {' '.join(str(error).split())}"
