"""Nsight Compute: its command line, its CSV, and everything that can go wrong, with a program of ours in its place."""

import stat
import sys

import pytest
from harness_support import FAST, ROOT, config, contestant, only_run, small

from harness.command.cli import main
from harness.plan.planning import make_plan
from harness.runs import load_run, ncu

METRICS = ("dram__bytes.sum.per_second", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")

RAW = f'''==PROF== Connected to process 17
"ID","Process ID","Kernel Name","Grid Size","{METRICS[0]}","{METRICS[1]}","gpu__time_duration.sum"
"","","","","byte/second","%","ns"
"0","17","fake_gemm_kernel(params)","(132,1,1)","640,000,000,000.5","94.75","181,500"
"1","17","fake_gemm_kernel(params)","(132,1,1)","641,000,000,000","95.25","181,000"
"2","17","void other<float>(T1)","(1,1,1)","1","n/a","10"
==PROF== Disconnected
'''


def test_the_page_is_read():
    rows = ncu.parse(RAW, [*METRICS, "gpu__time_duration.sum", "absent.metric"])
    assert rows[:3] == [
        ("fake_gemm_kernel(params)", METRICS[0], pytest.approx(641.0), "GB/s"),
        ("fake_gemm_kernel(params)", METRICS[1], pytest.approx(95.25), "%"),
        ("fake_gemm_kernel(params)", "gpu__time_duration.sum", pytest.approx(181.0), "us"),
    ]
    assert ("void other<float>(T1)", METRICS[1]) not in {row[:2] for row in rows}


@pytest.mark.parametrize("unit", ["byte/s", "byte/second"])
def test_a_rate_is_stored_in_giga_however_it_is_spelt(unit):
    """Guard: `_UNITS`; releases of the profiler print the base unit of a rate in either way."""
    rows = ncu.parse(RAW.replace("byte/second", unit), METRICS[:1])
    assert rows[0] == ("fake_gemm_kernel(params)", METRICS[0], pytest.approx(641.0), "GB/s")


@pytest.mark.parametrize("value", ["nan", "inf", "-nan"])
def test_what_is_no_finite_number_is_no_value(value):
    """Guard: the look at the value in `parse`; the last launch that has a number counts."""
    text = RAW.replace("95.25", value)
    assert text != RAW
    rows = ncu.parse(text, METRICS[1:])
    assert rows == [("fake_gemm_kernel(params)", METRICS[1], pytest.approx(94.75), "%")]


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", '"ID","x"\n"","y"\n"0","z"', RAW.split("\n")[1]])
def test_a_page_without_kernels(text):
    assert ncu.parse(text, METRICS) == []


@pytest.mark.parametrize(
    ("profiled", "timed", "same"),
    [
        ("gemm_kernel", "gemm_kernel", True),
        ("void kittens::gemm<128, 256>(Globals)", "void kittens::gemm<(int)128, (int)256>(kittens::Globals)", True),
        ("gemm(Globals)", "void kittens::prologue::gemm<1>(Globals)", True),
        ("gemm", "gemm_reduce", False),
        ("void kittens::gemm<128>(Globals)", "_ZN7kittens4gemmILi128EEEv7Globals", True),
        ("void kittens::gemm<128>(Globals)", "_ZN7kittens6reduceEv", False),
    ],
)
def test_kernels_are_the_same_by_their_plain_name(profiled, timed, same):
    assert ncu._same_kernel(profiled, timed) is same


def test_the_command_leaves_clocks_alone_and_profiles_what_the_case_marks(tmp_path):
    words = ncu.command("/opt/ncu", tmp_path / "log", METRICS, tmp_path)
    text = " ".join(words)
    assert text.startswith("/opt/ncu --clock-control none --profile-from-start off")
    assert f"--metrics {METRICS[0]},{METRICS[1]}" in text
    assert words[-4:] == [sys.executable, "-m", "harness.measure.profile_case", str(tmp_path)]


def fake_ncu(folder, body):
    """A program named ncu, in Python."""
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\nimport sys, subprocess\nargs = sys.argv\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


WRITES = "open(args[args.index('--log-file') + 1], 'w').write({!r})\n"
REFUSES = "print('==ERROR== ERR_NVGPUCTRPERM - no permission'); sys.exit(1)"


@pytest.fixture
def case():
    overrides = [*contestant("mine", "Good"), "implementations=[mine]", *small(), "profile=ncu"]
    plan = make_plan(config(*overrides, "device=cpu", "limits.profile_seconds=20"), overrides)
    return plan, plan.groups[0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (REFUSES, "the driver gives performance counters to administrators only"),
        ("print('==ERROR== No kernels were profiled.')", "No kernels were profiled."),
        (WRITES.format(RAW.replace("fake_gemm", "foreign")), "it profiled no kernel of this implementation"),
        (WRITES.format(RAW) + "sys.exit(3)", "it profiled no kernel"),
    ],
)
def test_what_goes_wrong_is_a_note(case, tmp_path, monkeypatch, body, words):
    monkeypatch.setattr(ncu, "find_ncu", lambda: fake_ncu(tmp_path, body))
    plan, group = case
    profiled = ncu.profile_case(plan, group, 0, ("fake_gemm_kernel",), "run")
    assert profiled.metrics == ()
    assert words in profiled.note
    assert "mine at M=64;N=48;K=64" in profiled.note


def test_no_time_left_is_a_note(case, tmp_path, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(ncu, "find_ncu", lambda: fake_ncu(tmp_path, "import time; time.sleep(60)"))
    plan, group = case
    short = replace(plan, limits=replace(plan.limits, profile_seconds=0.5))
    assert "not done in 0.5 s" in ncu.profile_case(short, group, 0, (), "run").note


def test_without_ncu(case, monkeypatch):
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    assert "install nsight-compute" in ncu.profile_case(*case, 0, (), "run").note


def test_ncu_is_found_on_the_path(tmp_path, monkeypatch):
    path = fake_ncu(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ncu.find_ncu() == path


def test_a_profiled_run_has_rows_and_a_run_without_ncu_a_note(tmp_path, monkeypatch):
    body = WRITES.format(RAW) + "sys.exit(subprocess.run(args[args.index('--log-file') + 2 :]).returncode)"
    arguments = [*FAST, *contestant("mine", "Good"), "implementations=[mine]", *small(), "profile=ncu"]
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "harness"))
    for name, found in (("with", fake_ncu(tmp_path, body)), ("without", None)):
        monkeypatch.setattr(ncu, "find_ncu", lambda found=found: found)
        assert main([*arguments, f"results_dir={tmp_path / name}"]) == 0
        run = load_run(only_run(tmp_path / name))
        if found:
            assert run.profile["metric"].tolist() == [*METRICS, "gpu__time_duration.sum"]
            assert run.profile["unit"].tolist() == ["GB/s", "%", "us"]
            assert set(run.profile["case_id"]) == set(run.measurements["case_id"])
            assert run.manifest["notes"] == []
        else:
            assert run.profile.empty
            assert "no Nsight Compute metrics" in run.manifest["notes"][0]
