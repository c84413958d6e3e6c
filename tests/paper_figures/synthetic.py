"""Made-up runs, written with the harness's own records, for tests and for looking at the page.  Never results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import workloads
from harness.records.naming import Contestant, problem_keys
from harness.records.provenance import claim_hashes
from harness.records.rows import Measurement, ProfileMetric, Ratio, SettledBlock, Status, Verdict, case_id
from harness.runs.group import StoredGroup, encoded
from harness.runs.samples import Samples
from harness.runs.stored import SCHEMA_VERSION
from paper_figures.recorded.experiments import Experiment, load_experiment
from tk_kernels.trace import ROLES, Event, Trace

ROUNDS = 60
PEAK_TFLOPS, BANDWIDTH_GBPS = 989.4, 4800.0

Rate = Callable[[str, Contestant], float | str]
"""TFLOPS of a case, or the status and reason of one without a time: `unavailable: not installed`."""


def plausible_rate(problem: str, contestant: Contestant) -> float | str:
    """Rates that look like an H200's, so that the page can be judged by eye."""
    keys = problem_keys(problem)
    if "W" in keys:
        return 0.1 * {"tk": 1.2}.get(contestant.implementation, 1.0)
    if "L" in keys or "mixer" in keys:
        return 500.0 * {"sdpa_flash": 0.8}.get(contestant.implementation, 1.0)
    if "F" in keys or "P" in keys or "decay" in keys:
        return _linear_rate(keys, contestant)
    if "lengths" in keys:
        return 80.0 * {"tk": 1.0, "flash_attn_3": 0.9}.get(contestant.implementation, 0.8)
    if "tensors" in keys or list(keys)[:3] == ["B", "N", "D"]:
        return _row_rate(keys, contestant)
    if "D" in keys and "H" not in keys and "p" not in keys:
        return _fft_conv_rate(keys, contestant)
    return _attention_rate(keys, contestant) if "D" in keys else _gemm_rate(keys, contestant)


def _row_rate(keys: Mapping[str, str], contestant: Contestant) -> float | str:
    operations_a_byte = 0.4 if "tensors" in keys else 1.0
    base = 4.2 * operations_a_byte * int(keys["N"]) / (int(keys["N"]) + 200)
    factors = {"flash_attn_triton": 0.9, "liger": 0.5, "torch": 0.3, "torch_compile": 0.95}
    return base * factors.get(contestant.implementation, 1.0)


def _fft_conv_rate(keys: Mapping[str, str], contestant: Contestant) -> float | str:
    if contestant.implementation == "flash_fft_conv":
        return "unavailable: flashfftconv is not installed: pip install git+https://example.invalid/flash-fft-conv"
    base = 100.0 * (0.6 if keys.get("filter") == "inside" else 1.0)
    factors = {"triton_monarch": 0.4, "thunderkittens": 0.35, "torch": 0.06, "torch_real": 0.09, "torch_compile": 0.1}
    return base * factors.get(contestant.implementation, 1.0)


def _linear_rate(keys: Mapping[str, str], contestant: Contestant) -> float | str:
    if contestant.implementation == "mamba_ssm" and "boundary" in keys:
        return "unsupported: it prepares decays and values itself"
    base = 250.0 * int(keys["N"]) / (int(keys["N"]) + 400)
    factors = {"fla_fused_chunk": 0.18, "simple_gla": 0.45, "mamba_ssm": 0.3, "composed": 0.17, "torch": 0.01}
    if contestant.implementation == "fla_parallel":
        return base * 300 / int(keys["N"])
    return base * factors.get(contestant.implementation, 1.0 if contestant.implementation == "tk" else 0.05)


def _gemm_rate(keys: Mapping[str, str], contestant: Contestant) -> float | str:
    size = {key: int(value) for key, value in keys.items() if key in ("M", "N", "K")}
    base = 700.0 * size["K"] / (size["K"] + 400) * min(1.0, size["M"] / 2048)
    factors = {
        "cublas": 0.97,
        "cublas_tuned": 0.96,
        "thunderkittens": 0.95,
        "triton": 0.84,
        "torch_compile": 0.93,
        "quack": 0.99,
    }
    options = {"stages=1": 0.36, "stages=2": 0.66, "stages=3": 0.93, "persistent=0": 0.89, "order=row_major": 0.55}
    if contestant.implementation == "quack" and size["K"] == 1024:
        return "unavailable: quack-kernels is not installed: pip install quack-kernels==0.6.5"
    return base * factors.get(contestant.implementation, 1.0) * options.get(contestant.variant, 1.0)


def _attention_rate(keys: Mapping[str, str], contestant: Contestant) -> float | str:
    if contestant.implementation == "thunderkittens" and int(keys["N"]) % 384:
        return "unsupported: N is a multiple of 384"
    if contestant.implementation == "flash_attn_3":
        return "unavailable: flash_attn_interface is not installed"
    if contestant.implementation == "torch_unfused" and int(keys["N"]) > 4000:
        return "unsupported: the scores of N = 6144 and more do not fit"
    causal, backward = keys.get("causal") == "1", keys.get("direction") == "bwd"
    base = 690.0 * int(keys["N"]) / (int(keys["N"]) + (500 if causal else 180)) * (0.78 if backward else 1.0)
    factors = {
        "flash_attn_4": 0.97,
        "thunderkittens": 0.9,
        "sdpa_cudnn": 0.95,
        "sdpa_flash": 0.55,
        "flash_attn": 0.56,
        "torch_unfused": 0.12,
    }
    options = {"order=row_major": 0.8, **{f"blocks_per_sm={n};synchronous=1": 0.3 + 0.1 * n for n in (1, 2, 3, 4)}}
    return base * factors.get(contestant.implementation, 1.0) * options.get(contestant.variant, 1.0)


def cost(workload: str, problem: str, direction: str) -> tuple[float, float]:
    """FLOPs of a problem, and the bytes that it moves: about those of the workload, for made-up rows."""
    if workload not in ("gemm", "attention"):
        module = workloads.load(workload)
        parsed = workloads.parse_problem(workload, problem_keys(problem), dtype=module.DTYPES[0], direction=direction)
        return float(module.flops(parsed)), float(module.traffic(parsed).total)
    size = {key: int(value) for key, value in problem_keys(problem).items()}
    if workload == "gemm":
        flops = 2.0 * size["M"] * size["N"] * size["K"]
        return flops, 2.0 * (size["M"] * size["K"] + size["K"] * size["N"] + size["M"] * size["N"])
    flops = 4.0 * size["B"] * size["H"] * size["N"] ** 2 * size["D"] / (2 if size.get("causal") else 1)
    tensor = 2.0 * size["B"] * size["H"] * size["N"] * size["D"]
    return (flops, 4 * tensor) if direction == "fwd" else (2.5 * flops, 8 * tensor)


METRICS = {
    "dram__bytes.sum.per_second": (1.1, "Tbyte/s"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": (61.0, "%"),
    "sm__inst_issued.avg.pct_of_peak_sustained_active": (31.0, "%"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": (1.2, "inst"),
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": (0.2, "inst"),
    "gpu__time_duration.sum": (4000.0, "us"),
}
"""What Nsight Compute is made to say of the longest kernel of a case."""


def _profile(run_id: str, row: Measurement) -> list[ProfileMetric]:
    """A main kernel and a small one beside it; the row-major order draws more from HBM."""
    rows = []
    for metric, (value, unit) in METRICS.items():
        main = 2.9 if row.variant == "order=row_major" and unit == "Tbyte/s" else value
        rows += [
            ProfileMetric(run_id=run_id, case_id=row.case_id, kernel_name=name, metric=metric, value=own, unit=unit)
            for name, own in (("prepare", value / 10), ("main", main))
        ]
    return rows


def stamp_of(number: int) -> str:
    """When the run of a number began, as its id begins."""
    return f"20260102T03{4 + number // 60:02}{number % 60:02}Z"


def write_run(
    campaign: Path,
    experiment: str | Experiment,
    run_id: str = "20260102T030405Z-abc123",
    rate: Rate = plausible_rate,
    machine_code: str = "c0de",
    problems: tuple[str, ...] | None = None,
    manifest: Mapping[str, Any] | None = None,
    without: tuple[Contestant, ...] = (),
    settled: float = 0.0,
) -> Path:
    """A run of an experiment; `problems` and `without` leave some out, `manifest` replaces entries.

    settled: by what a call of ours takes longer back to back than in the rounds; 0 where nothing was settled.
    """
    plan = load_experiment(experiment) if isinstance(experiment, str) else experiment
    folder = campaign / run_id
    folder.mkdir(parents=True)
    groups: list[dict[str, Any]] = []
    generator = np.random.default_rng(7)
    for number, problem in enumerate(problems if problems is not None else plan.problems, start=1):
        held: dict[str, np.ndarray] = {}
        rows = [
            _measurement(run_id, plan, problem, one, rate(problem, one), generator, held)
            for one in plan.contestants
            if one not in without
        ]
        profile = [metric for row in rows if plan.profiled and row.n_samples for metric in _profile(run_id, row)]
        ratios, blocks = _ratios(run_id, held), []
        if settled:
            rows, ratios, blocks = _settle(rows, ratios, settled)
        samples = {case: Samples(values, np.arange(ROUNDS)) for case, values in held.items()}
        group = StoredGroup(tuple(rows), tuple(ratios), samples, tuple(blocks), tuple(profile))
        passed = [row.case_id for row in rows if row.status is Status.PASSED]
        file = folder / f"group-{number:04}.json.gz"
        file.write_bytes(encoded(group))
        groups.append({"problem": problem, "case_ids": group.case_ids, "passed": passed, "file": file.name})
    entries = {**_manifest(campaign, plan, run_id, machine_code), "groups": groups, **(manifest or {})}
    (folder / "manifest.json").write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
    return folder


def _measurement(
    run_id: str,
    plan: Experiment,
    problem: str,
    contestant: Contestant,
    rate: float | str,
    generator: np.random.Generator,
    group: dict[str, np.ndarray],
) -> Measurement:
    stored = plan.stored_problem(problem)
    name = case_id(
        workload=plan.workload, direction=stored.direction, problem=stored.text, dtype=stored.dtype,
        distribution=stored.distribution, implementation=contestant.implementation, variant=contestant.variant,
    )  # fmt: skip
    untimed = Measurement(
        run_id=run_id, case_id=name, workload=plan.workload, direction=stored.direction,
        implementation=contestant.implementation, variant=contestant.variant, version="synthetic", problem=stored.text,
        dtype=stored.dtype, distribution=stored.distribution, seed=0, status=Status.ERROR, reason="synthetic",
        rel_l2_error=None, max_abs_error=None, worst_output="c", tolerance=None, n_samples=0, timer="", cache="",
        latency_us_p10=None, latency_us_p50=None, latency_us_p90=None, tflops=None, gbps=None, roof_pct_measured=None,
        roof_pct_datasheet=None, bound="", aa_noise_pct=None, sm_clock_mhz=None, power_w=None, energy_mj=None,
        tflops_per_w=None, throttled="", peak_memory_mib=None, kernel_names="",
        repro_command=f"python -m harness workload={plan.workload} 'implementations=[{contestant}]'",
    )  # fmt: skip
    if isinstance(rate, str):
        status, _, reason = rate.partition(": ")
        return replace(untimed, status=Status(status), reason=reason)
    flops, moved = cost(plan.workload, stored.text, stored.direction)
    latencies = flops / rate * 1e-6 * (1 + np.abs(generator.normal(0, 0.004, ROUNDS)))
    group[name] = latencies
    p10, p50, p90 = (float(value) for value in np.percentile(latencies, (10, 50, 90)))
    floor = max(flops / PEAK_TFLOPS * 1e-6, moved / BANDWIDTH_GBPS * 1e-3)
    return replace(
        untimed, status=Status.PASSED, reason="", rel_l2_error=1.6e-3, max_abs_error=0.1, tolerance=2e-3,
        n_samples=ROUNDS, timer=plan.timer, cache="flushed", latency_us_p10=p10, latency_us_p50=p50,
        latency_us_p90=p90, tflops=flops / p50 * 1e-6, gbps=moved / p50 * 1e-3, roof_pct_measured=80.0,
        roof_pct_datasheet=100 * floor / p50, bound="compute", aa_noise_pct=0.2, sm_clock_mhz=1755.0, power_w=640.0,
        energy_mj=p50 * 0.64, tflops_per_w=1.0, throttled="sw_power_cap", peak_memory_mib=96.0, kernel_names="gemm",
        **(_settled(p50) if plan.name == "input_distribution" else {}),
    )  # fmt: skip


def _settled(latency_us: float) -> dict[str, float]:
    """What a case has that was timed call after call too."""
    return {
        "settled_latency_us": latency_us, "settled_clock_mhz": 1410.0, "settled_power_w": 690.0,
        "settled_energy_mj": latency_us * 0.69,
    }  # fmt: skip


def _settle(
    measurements: list[Measurement], ratios: list[Ratio], ours: float
) -> tuple[list[Measurement], list[Ratio], list[SettledBlock]]:
    """The rows with settled columns, and four blocks a timed case: ours takes `ours` times as long as in the rounds."""
    timed = [row for row in measurements if row.n_samples]
    latency = {row.case_id: (row.latency_us_p50 or 0.0) * (ours if row.implementation == "tk" else 1) for row in timed}
    blocks = [
        SettledBlock(
            case_id=case, block=block, position=0, predecessor="", calls=100, seconds=0.35,
            latency_us=value * (0.99, 1.0, 1.0, 1.01)[block], sm_clock_mhz=1410.0, power_w=690.0, energy_mj=None,
        )
        for case, value in latency.items() for block in range(4)
    ]  # fmt: skip
    rows = [
        replace(
            row, settled_latency_us=latency[row.case_id], settled_blocks=4,
            settled_tflops=(row.tflops or 0.0) * (row.latency_us_p50 or 0.0) / latency[row.case_id],
        ) if row.n_samples else row
        for row in measurements
    ]  # fmt: skip
    pairs = []
    for ratio in ratios:
        value = latency[ratio.baseline_case_id] / latency[ratio.case_id]
        verdict = Verdict.FASTER if value > 1.01 else Verdict.SLOWER if value < 0.99 else Verdict.SAME
        ends = {"settled_ci_low": value * 0.995, "settled_ci_high": value * 1.005}
        pairs.append(replace(ratio, settled_ratio=value, settled_verdict=verdict, **ends))
    return rows, pairs, blocks


def edit_group(run: Path, change: Callable[[Any], None], number: int = 1) -> None:
    """Changes a group of a run: `change` is given what its file holds."""
    path = run / f"group-{number:04}.json.gz"
    held = json.loads(gzip.decompress(path.read_bytes()))
    change(held)
    path.write_bytes(gzip.compress(json.dumps(held).encode(), mtime=0))


def _ratios(run_id: str, group: dict[str, np.ndarray]) -> list[Ratio]:
    rows = []
    for case, mine in group.items():
        for baseline, theirs in group.items():
            if case != baseline:
                value = float(np.median(theirs) / np.median(mine))
                low, high = value * 0.998, value * 1.002
                verdict = Verdict.FASTER if low > 1 else Verdict.SLOWER if high < 1 else Verdict.SAME
                rows.append(
                    Ratio(
                        run_id=run_id, case_id=case, baseline_case_id=baseline, ratio_p50=value, ci_low=low,
                        ci_high=high, verdict=verdict,
                    )
                )  # fmt: skip
    return rows


def write_trace(
    campaign: Path,
    experiment: str,
    trace_id: str = "20260103T000000Z-77ace0",
    which: int = 0,
    blocks: int = 4,
    us: float = 80.0,
    **about: Any,
) -> Path:
    """A call of an experiment's first contestant, as `python -m harness trace` stores it. `which`: of its problems.

    Each block attends twice, the first one merges at last; a block ends a little before the next. `us`: how long the
    call takes. `about` replaces entries of what it says of itself.
    """
    plan = load_experiment(experiment)
    stored = plan.stored_problem(plan.problems[which])
    ends = [us * (0.7 + 0.1 * block / blocks) for block in range(blocks)]
    events = [
        Event(
            block,
            role,
            "attend",
            part * end / 2,
            (part + 0.2) * end / 2,
            (part + 1) * end / 2,
            (1, *[0] * 15),
            "attend",
        )
        for role in ROLES
        for block, end in enumerate(ends)
        for part in range(2)
    ]
    events += [Event(0, role, "reduce", ends[0], 0.9 * us, us, (2, *[0] * 15), "reduce") for role in ROLES]
    document = Trace(tuple(events), "us", 0.031).chrome()
    says = {
        "trace_id": trace_id, "workload": plan.workload, "problem": stored.text, "dtype": stored.dtype,
        "direction": stored.direction, "contestant": str(plan.contestants[0]), "git_commit": "0123456789abcdef",
        "git_dirty": False, "gpu": {"name": "SYNTHETIC H200"}, "started_utc": "2026-01-03T00:00:00Z",
        **document["otherData"], **about,
    }  # fmt: skip
    document["otherData"] = says
    path = campaign / "traces" / f"{trace_id}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
    return path


def _manifest(campaign: Path, plan: Experiment, run_id: str, machine_code: str) -> dict[str, Any]:
    stamp = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}"
    build = {
        "name": plan.workload, "binary_hash": machine_code, "lines_of_code": 101, "registers": 168, "spills": 0,
        "lines_by_stem": {"forward": 230, "heads": 50, "backward": 350},
        "lines_with_comments": {"forward": 260, "heads": 60, "backward": 400},
    }  # fmt: skip
    return {
        "schema_version": SCHEMA_VERSION, "run_id": run_id, "campaign": campaign.name, "experiment": plan.name,
        "git_commit": "0123456789abcdef", "git_dirty": False, "command": f"python -m harness experiment={plan.name}",
        "arguments": [f"experiment={plan.name}"], "notes": [],
        "config": {}, "device": "cuda", "status": "completed", "started_utc": f"{stamp}Z", "ended_utc": f"{stamp}Z",
        "gpu": {"name": "SYNTHETIC H200", "driver": "0", "power_limit_w": 700, "sm_clock_max_mhz": 1980, "ecc": True,
                "sm_count": 132, "l2_bytes": 60 * 2**20},
        "libraries": {"torch": "2.11.0", "cublas": "13.0.0"},
        "library_sizes": {
            "tk": {"version": "this repository", "bytes": {"headers": 414182, "libraries": 0, "all": 414182}},
            "cutlass": {"reason": "not installed: pip install nvidia-cutlass"},
            "triton": {"version": "triton 3.6.0", "bytes": {"headers": 8e6, "libraries": 4 * 10**8, "all": 10**9}},
            "cublas": {"version": "nvidia-cublas 13", "bytes": {"headers": 5, "libraries": 9 * 10**8, "all": 10**9}},
        },
        "kernel_builds": {str(one): build for one in plan.contestants if one.implementation == "tk"},
        "roofs": {"copy_gbps": 4283.0, "matmul_bf16_tflops": 715.0, "matmul_e4m3_tflops": 1410.0},
        "datasheet": {"name": "NVIDIA H200 SXM", "gbps": 4800, "tflops": {"bf16": 989.4}},
        "claim_files": claim_hashes(),
    }  # fmt: skip


if __name__ == "__main__":  # python -m tests.paper_figures.synthetic FOLDER: a campaign to look at
    import argparse

    from paper_figures.exhibits import load_exhibits
    from paper_figures.shown.derived import measured_exhibits

    options = argparse.ArgumentParser(prog="python -m tests.paper_figures.synthetic")
    options.add_argument("folder", type=Path, help="where to write a run of each exhibit")
    target = options.parse_args().folder
    for number, exhibit in enumerate(measured_exhibits(load_exhibits())):
        print("written:", write_run(target, exhibit.id, f"{stamp_of(number)}-abc{number:03x}"))
