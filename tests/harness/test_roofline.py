"""Floors, shares and the datasheets."""

import pytest
import torch

from harness.devices import roofs
from harness.plan import roofline
from harness.records.datasheets import Roof, datasheets, find_datasheet
from harness.records.naming import gpu_slug
from harness.workloads.spec import Traffic

ROOF = Roof(tflops=1000.0, gbps=4000.0)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA L40S", "l40s"),
    ],
)
def test_known_gpus(name, slug):
    assert find_datasheet(name).slug == gpu_slug(name) == slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200 NVL", "nvidia-h200-nvl"),
        ("NVIDIA GeForce RTX 4090 D", "nvidia-geforce-rtx-4090-d"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie"),
        ("NVIDIA GH200 480GB", "nvidia-gh200-480gb"),
        ("NVIDIA GH200 144G HBM3e", "nvidia-gh200-144g-hbm3e"),
        ("NVIDIA H200 MIG 3g.71gb", "nvidia-h200-mig-3g-71gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "nvidia-h100-80gb-hbm3-mig-1g-10gb"),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "nvidia-a100-sxm4-80gb-mig-3g-40gb"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "nvidia-geforce-rtx-4090-laptop-gpu"),
        ("NVIDIA GB200", "nvidia-gb200"),
        ("NVIDIA GeForce RTX 3090 Ti", "nvidia-geforce-rtx-3090-ti"),
        ("NVIDIA L40", "nvidia-l40"),
        ("Tesla T4", "tesla-t4"),
        ("", "unknown-gpu"),
    ],
)
def test_unknown_gpus_have_no_datasheet_but_a_folder(name, slug):
    """Guard: a datasheet's pattern is of the whole name."""
    assert find_datasheet(name) is None
    assert gpu_slug(name) == slug


def test_every_datasheet_has_its_source_and_plausible_numbers():
    for _, sheet in datasheets():
        assert len(sheet.source) > 20
        assert 500 < sheet.gbps < 10_000
        assert 1000 < sheet.boost_mhz < 3000
        assert sheet.tflops["bf16"] == sheet.tflops["fp16"] > sheet.tflops["fp32"]


def test_roof_at_the_maximum_clock():
    h200 = find_datasheet("NVIDIA H200")
    # 132 SMs x 4096 dense bf16 FLOP a clock at 1,980 MHz
    assert h200.roof_at("bf16", 1980.0).tflops == pytest.approx(132 * 4096 * 1980e6 / 1e12, rel=1e-3)
    assert h200.roof_at("bf16", None) == h200.roof("bf16")
    assert h200.roof_at("bf16", 1200.0) == h200.roof("bf16")  # a lower clock does not lower the claim
    assert h200.roof("int4") is None


def test_floor_and_bound():
    compute, memory = Traffic(100, 100), Traffic(3_000_000_000, 1_000_000_000)
    assert roofline.floor_us(ROOF, 1e12, compute) == pytest.approx(1000.0)
    assert roofline.bound(ROOF, 1e12, compute) == "compute"
    assert roofline.floor_us(ROOF, 1e12, memory) == pytest.approx(1000.0)
    assert roofline.bound(ROOF, 1e9, memory) == "memory"
    assert roofline.roof_pct(ROOF, 1e9, memory, 2000.0) == pytest.approx(50.0)


def test_a_problem_below_the_launch_is_bound_by_it():
    traffic = Traffic(read=4_000_000, written=0)  # 1 us
    assert roofline.bound(ROOF, 1e3, traffic, launch_us=0.9) == "memory"
    assert roofline.bound(ROOF, 1e3, traffic, launch_us=1.1) == "launch"


def test_the_measured_roof_of_a_dtype():
    """Guard: the better of the two bandwidths, and no dtype's rate for another's."""
    rates = {"copy_gbps": 4000.0, "read_gbps": 4300.0, "matmul_bf16_tflops": 700.0, "matmul_e4m3_tflops": 1300.0}
    assert roofline.measured_roof(rates, "bf16") == roofline.measured_roof(rates, "fp16") == Roof(700.0, 4300.0)
    assert roofline.measured_roof(rates, "e4m3") == Roof(1300.0, 4300.0)
    assert roofline.measured_roof(rates, "fp32") is None
    assert roofline.measured_roof({"copy_gbps": 4000.0, "matmul_bf16_tflops": 700.0}, "bf16") == Roof(700.0, 4000.0)
    assert roofline.measured_roof({"matmul_bf16_tflops": 700.0}, "bf16") is None
    assert roofline.measured_roof({}, "bf16") is None


@pytest.mark.parametrize("products", [roofs.bf16_products, roofs.e4m3_products])
def test_what_the_matrix_roofs_multiply(products):
    calls = list(products(64, "cpu"))
    assert [(call().shape, call().dtype) for call in calls] == [((64, 64), torch.bfloat16)] * len(calls)
    assert calls[0]().isfinite().all()


@pytest.mark.parametrize(("capability", "more"), [((8, 0), 0), ((8, 9), 1), ((9, 0), 1)])
def test_only_a_gpu_that_multiplies_e4m3_has_a_roof_of_it(capability, more, monkeypatch):
    for name in ("_copy_gbps", "_read_gbps", "_best_tflops", "_median_us"):
        monkeypatch.setattr(roofs, name, lambda *_: 4000.0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    always = ["copy_gbps", "read_gbps", "matmul_bf16_tflops", "launch_us"]
    assert sorted(roofs.measure_roofs(stopwatch=None)) == sorted(always + ["matmul_e4m3_tflops"] * more)


def test_impossible_times():
    traffic = Traffic(read=4_000_000_000, written=0)
    assert roofline.impossible(ROOF, 1e9, traffic, 1000.0, 0, warm=False) is None
    complaint = roofline.impossible(ROOF, 1e9, traffic, 999.0, 0, warm=False)
    assert "999.000 us is below the 1000.000 us" in complaint
    assert roofline.impossible(ROOF, 2e12, traffic, 1500.0, 0, warm=False) is not None


def test_output_that_stays_in_the_l2_is_not_impossible():
    traffic = Traffic(read=0, written=50_000_000)
    assert roofline.impossible(ROOF, 0, traffic, 5.0, 60_000_000, warm=False) is None
    assert roofline.impossible(ROOF, 0, traffic, 5.0, 10_000_000, warm=False) is not None
    warm = Traffic(read=50_000_000, written=0)
    assert roofline.impossible(ROOF, 0, warm, 5.0, 60_000_000, warm=True) is None
    assert roofline.impossible(ROOF, 0, warm, 5.0, 60_000_000, warm=False) is not None
