"""The harness on a real GPU: a short run, poisoned memory, kernel names, roofs, resume after a sticky error."""

from typing import get_args, get_type_hints

import pytest
import torch
from harness_support import contestant, only_run, small

from harness.command.cli import main
from harness.measure import verification
from harness.plan.planning import TimerSettings
from harness.runs import load_run

pytestmark = pytest.mark.gpu

SHORT = ["device=cuda", "timer.warmup_seconds=0.1", "timer.budget_seconds=1", "wandb=disabled"]


@pytest.fixture(scope="module")
def device():
    from harness.devices.cuda import CudaDevice

    return CudaDevice()


@pytest.mark.parametrize("timer", get_args(get_type_hints(TimerSettings)["kind"]))
def test_a_run(tmp_path, timer):
    arguments = [*SHORT, f"timer={timer}", *small(1024, 1024, 1024), "implementations=[tk,cublas]"]
    assert main([*arguments, f"results_dir={tmp_path}"]) == 0
    run = load_run(only_run(tmp_path))
    rows = run.measurements
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert set(rows["timer"]) == {timer}
    assert (rows["n_samples"] >= 30).all()
    assert rows["latency_us_p50"].between(3, 200).all()
    assert (rows["kernel_names"] != "").all()
    assert rows["sm_clock_mhz"].between(300, 3000).all()
    assert rows["power_w"].between(50, 1500).all()
    assert rows["peak_memory_mib"].between(2, 1000).all()  # the output alone is 2 MiB
    roofs = run.manifest["roofs"]
    assert 500 < roofs["copy_gbps"] < 20_000
    assert 0.8 < roofs["read_gbps"] / roofs["copy_gbps"] < 1.5
    assert 50 < roofs["matmul_bf16_tflops"] < 5000
    assert 1.3 < roofs["matmul_e4m3_tflops"] / roofs["matmul_bf16_tflops"] < 2.5
    assert 0.5 < roofs["launch_us"] < 10
    assert len(run.ratios) == 2


def test_settled_clock_power_and_energy(tmp_path):
    """Zeros draw less power than normal inputs, and the counter agrees with the power that is read."""
    kinds = "problems=[{grid: {M: [4096], N: [4096], K: [4096], distribution: [normal, zeros]}}]"
    arguments = [*SHORT, "timer.settled=always", kinds, "implementations=[cublas]", f"results_dir={tmp_path}"]
    assert main(arguments) == 0
    run = load_run(only_run(tmp_path))
    rows = run.measurements.set_index("distribution")
    normal, zeros = rows.loc["normal"], rows.loc["zeros"]
    for row in (normal, zeros):
        blocks = run.settled[run.settled["case_id"] == row["case_id"]]
        product = blocks["power_w"] * blocks["latency_us"] / 1e3
        assert blocks["energy_mj"].to_numpy() == pytest.approx(product.to_numpy())
        assert row["settled_energy_mj"] == pytest.approx(blocks["energy_mj"].mean())
        assert 0.8 < row["settled_latency_us"] / row["latency_us_p50"] < 2
        assert 300 < row["settled_clock_mhz"] < 3000
    assert zeros["settled_power_w"] < 0.95 * normal["settled_power_w"]
    assert zeros["settled_energy_mj"] < normal["settled_energy_mj"]


def test_sustained_calls_are_graphs_with_audits_among_them(tmp_path):
    """Two honest contestants have sustained times, and nothing is said of them."""
    blocks = ["timer.settled=always", "timer.settled_block_seconds=0.3", "timer.settled_rounds=2"]
    arguments = [*SHORT, *blocks, "timer.settled_budget_seconds=2", *small(4096, 4096, 4096)]
    assert main([*arguments, "implementations=[tk,cublas]", f"results_dir={tmp_path}"]) == 0
    rows = load_run(only_run(tmp_path)).measurements
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert set(rows["reason"]) == {""}
    assert (rows["settled_blocks"] >= 2).all()
    assert (rows["settled_latency_us"] / rows["latency_us_p50"]).between(0.85, 1.4).all()


def test_a_call_that_cannot_be_captured_leaves_a_device_that_works(device):
    """Guard: the allocator leaves the capture, too; else it gives nothing back, and fails when it is asked to."""
    a = torch.randn(512, 512, device="cuda").bfloat16()
    with pytest.raises(RuntimeError):
        device.captured(lambda: (a @ a).sum().item())
    device.release()
    assert device.broken() is None
    replay = device.captured(lambda: a @ a)
    a.fill_(1.0)
    assert float(replay()[0, 0]) == 512.0, "it reads what is in its inputs now"
    device.release()


@pytest.mark.parametrize("timer", ["cuda_events", "cuda_graph"])
def test_the_clock_tells_a_wait_that_is_known(device, timer):
    from harness_support import config

    from harness.plan.planning import make_plan

    stopwatch = device.stopwatch(make_plan(config(f"timer={timer}")).timer)
    assert stopwatch.complain() == ""
    a = torch.randn(512, 512, device="cuda").bfloat16()
    sample = stopwatch.sample(stopwatch.wrap(lambda: a @ a), lambda: None)
    assert sample.busy_us < 100.0


def test_unwritten_output_is_caught_in_poisoned_memory(tmp_path):
    """Partial writes all rows but the last, into memory that a right result has just been freed from."""
    arguments = [*SHORT, *small(), *contestant("partial", "Partial"), *contestant("good", "Good")]
    assert main([*arguments, "implementations=[good,partial]", f"results_dir={tmp_path}"]) == 1
    rows = load_run(only_run(tmp_path)).measurements.set_index("implementation")
    assert rows.loc["partial", "status"] == "failed_verification"
    assert "NaN" in rows.loc["partial", "reason"]
    assert rows.loc["good", "status"] == "passed"


@pytest.mark.parametrize("elements", [48, 64 * 48, 2**20 + 1, 2**24])
def test_what_the_allocator_hands_out_next_is_nan(device, elements):
    for _ in range(3):
        held = [torch.zeros(elements, dtype=torch.bfloat16, device="cuda") for _ in range(3)]
        del held
        output = device.poisoned(lambda: torch.empty(elements, dtype=torch.bfloat16, device="cuda"), [2 * elements])
        assert bool(torch.isnan(output).all())


def test_kernel_names_are_those_that_ran(device):
    a = torch.randn(512, 512, device="cuda").bfloat16()
    names = device.kernel_names(lambda: torch.matmul(a, a))
    assert names
    assert not any("Memcpy" in name or "Memset" in name for name in names)
    assert device.kernel_names(lambda: a.add_(1)) != names


def test_memory_and_kernels_of_one_call(device):
    """Guard: looking at the memory launches no kernel, and the profiler takes no memory of PyTorch's."""
    a = torch.randn(512, 512, device="cuda").bfloat16()
    peaks = []
    names = device.kernel_names(lambda: peaks.append(device.peak_memory_mib(lambda: torch.matmul(a, a))))
    assert names == device.kernel_names(lambda: torch.matmul(a, a))
    assert peaks == [device.peak_memory_mib(lambda: torch.matmul(a, a))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_pass_finds_what_is_not_finite_here_too(dtype, bad):
    for place in (0, 12_345, 2**20 - 1):
        tensor = torch.randn(2**20, device="cuda").to(dtype)
        assert verification._all_finite(tensor)
        tensor[place] = bad
        assert not verification._all_finite(tensor)


def test_an_illegal_address_costs_its_case_only(tmp_path):
    arguments = [*SHORT, *small(), *contestant("bad", "IllegalAddress"), *contestant("good", "Good")]
    assert main([*arguments, "implementations=[bad,good]", f"results_dir={tmp_path}"]) == 1
    rows = load_run(only_run(tmp_path)).measurements.set_index("implementation")
    assert rows.loc["bad", "status"] == "error"
    assert "unusable" in rows.loc["bad", "reason"]
    assert rows.loc["good", "status"] == "passed"
    assert rows.loc["good", "n_samples"] >= 30


def test_out_of_memory_is_its_own_status(tmp_path):
    arguments = [*SHORT, *small(), *contestant("greedy", "Greedy"), *contestant("good", "Good")]
    assert main([*arguments, "implementations=[greedy,good]", f"results_dir={tmp_path}"]) == 1
    rows = load_run(only_run(tmp_path)).measurements.set_index("implementation")
    assert rows.loc["greedy", "status"] == "out_of_memory"
    assert rows.loc["good", "status"] == "passed"


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_a_run_of_attention(tmp_path, direction):
    sizes = ["problem.B=1", "problem.H=4", "problem.N=1024", "problem.D=128", "problem.causal=1"]
    arguments = [*SHORT, "workload=attention", f"direction={direction}", *sizes]
    assert main([*arguments, "implementations=[sdpa_flash,sdpa_cudnn]", f"results_dir={tmp_path}"]) == 0
    rows = load_run(only_run(tmp_path)).measurements
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert rows["latency_us_p50"].between(3, 1000).all()
    assert (rows["kernel_names"] != "").all()


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_the_reference_of_the_papers_largest_attention_takes_seconds(device, direction):
    import time

    from harness.workloads import attention

    problem = attention.Problem(B=16, H=16, N=12288, D=128, causal=True, dtype="bf16", direction=direction)
    inputs = attention.make_inputs(problem, device.generator(0), "normal")
    start = time.monotonic()
    expected = attention.reference(problem, inputs, 0)
    torch.cuda.synchronize()
    assert time.monotonic() - start < 60
    assert all(part.note.startswith("checked on") and bool(part.values.isfinite().all()) for part in expected)
    del expected
    device.release()


LINEAR = {
    "based": ["problem.B=1", "problem.H=4", "problem.N=1024"],
    "hedgehog": ["problem.B=1", "problem.H=4", "problem.N=1024"],
    "mamba2": ["problem.B=1", "problem.H=4", "problem.N=1024"],
    "linear_attention": ["problem.B=1", "problem.H=4", "problem.N=1024", "problem.decay=step"],
}


@pytest.mark.parametrize("workload", sorted(LINEAR))
def test_a_run_of_a_linear_attention(tmp_path, workload):
    arguments = [*SHORT, f"workload={workload}", *LINEAR[workload], "implementations=[torch]"]
    assert main([*arguments, f"results_dir={tmp_path}"]) == 0
    rows = load_run(only_run(tmp_path)).measurements
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert (rows["kernel_names"] != "").all()


@pytest.mark.parametrize("workload", sorted(LINEAR))
def test_the_references_of_the_papers_largest_linear_attentions_take_seconds(device, workload):
    import time

    from harness import workloads

    sizes = {"based": "F=16;D=64", "hedgehog": "D=128;F=64", "mamba2": "P=64;S=64;G=1", "linear_attention": "D=128"}
    heads = 32 if workload == "mamba2" else 16
    module = workloads.load(workload)
    text = f"B=16;H={heads};N=16384;{sizes[workload]}"
    problem = module.Problem.parse(workload, text, dtype="bf16", direction="fwd")
    inputs = module.make_inputs(problem, device.generator(0), "normal")
    start = time.monotonic()
    expected = module.reference(problem, inputs, 0)
    torch.cuda.synchronize()
    assert time.monotonic() - start < 60
    assert all(part.note == "" and bool(part.values.isfinite().all()) for part in expected)
    del expected
    device.release()
