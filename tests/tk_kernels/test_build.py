"""Building, caching and loading, on a kernel folder of a few lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tk_kernels import toolchain
from tk_kernels.toolchain import __main__ as command_line
from tk_kernels.toolchain import building, keys
from tk_kernels.toolchain.building import BuildOptions
from tk_kernels.toolchain.processes import Processes

FIXTURES = Path(__file__).parent / "fixtures"


def build_cpu(kernel: toolchain.Unit) -> toolchain.Build:
    return toolchain.build(kernel, toolchain.CPU, BuildOptions())


def test_the_manifest_is_of_the_build_that_is_loaded(warm_cache: Path, scale: toolchain.Unit) -> None:
    """Guard: a process runs what it has loaded, whatever becomes of the sources, and its results name that build."""
    root = scale.path.parent
    toolchain.load("scale", "cpu", root)
    loaded = toolchain.manifest("scale", "cpu", root)
    unit = scale.path / "scale.cu"
    unit.write_text(unit.read_text() + "\n// changed\n")
    assert toolchain.ensure_built("scale", "cpu", root).manifest["source_hash"] != loaded["source_hash"]
    assert toolchain.manifest("scale", "cpu", root) == loaded


def test_built_kernel_runs_and_raises_python_errors(warm_cache: Path, scale: toolchain.Unit) -> None:
    module = toolchain.load("scale", "cpu", scale.path.parent)
    a, out = torch.arange(5, dtype=torch.float32), torch.empty(5)
    module.scale(out, a, 2.5)
    torch.testing.assert_close(out, 2.5 * a)
    with pytest.raises(ValueError, match="a: got rank 2, needs rank 1"):
        module.scale(out, a[None], 2.5)


def test_second_build_is_taken_from_the_cache(kernel_cache: Path, scale: toolchain.Unit) -> None:
    first, second = build_cpu(scale), build_cpu(scale)
    assert (first.cached, second.cached) == (False, True)
    assert first.library == second.library
    assert first.manifest == second.manifest


@pytest.mark.parametrize("changed", ["scale.cu", "scale.h", "binding.cc"])
def test_any_changed_source_is_another_build(
    kernel_cache: Path, scale: toolchain.Unit, changed: str
) -> None:  # fmt: skip
    before = keys.source_hash(scale, toolchain.CPU)
    with (scale.path / changed).open("a") as file:
        file.write("// changed\n")
    assert keys.source_hash(scale, toolchain.CPU) != before


def test_tile_library_and_flags_are_part_of_the_key(tmp_path: Path, scale: toolchain.Unit) -> None:
    for target in ("cpu", "gpu", "sm_80", "sm_90a"):
        (tmp_path / "include" / "kittens" / "target" / target).mkdir(parents=True)
    hashes = {
        name: keys.source_hash(scale, toolchain.TARGETS[name], tmp_path / "include") for name in toolchain.TARGETS
    }
    assert hashes["cpu"] != hashes["sm_90a"]
    (tmp_path / "include" / "kittens" / "target" / "cpu" / "fibers.h").write_text("// only the cpu target\n")
    cpu = keys.source_hash(scale, toolchain.CPU, tmp_path / "include")
    assert cpu != hashes["cpu"]
    assert keys.source_hash(scale, toolchain.SM_90A, tmp_path / "include") == hashes["sm_90a"]
    (tmp_path / "include" / "kittens" / "target" / "gpu" / "registers.cuh").write_text("// every target of GPUs\n")
    shared = keys.source_hash(scale, toolchain.SM_90A, tmp_path / "include")
    assert shared != hashes["sm_90a"]
    assert keys.source_hash(scale, toolchain.CPU, tmp_path / "include") == cpu
    (tmp_path / "include" / "kittens.cuh").write_text("// every target\n")
    assert keys.source_hash(scale, toolchain.SM_90A, tmp_path / "include") != shared


@pytest.mark.parametrize(
    ("capability", "target"),
    [((7, 5), None), ((8, 0), "sm_80"), ((8, 6), "sm_80"), ((8, 7), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90a"),
     ((10, 0), "sm_80"), ((12, 0), "sm_80")],
)  # fmt: skip
def test_a_gpus_capability_names_its_target(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], target: str | None
) -> None:
    found = toolchain.target_of_capability(capability)
    assert (found.name if found else None) == target
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    assert [t.name for t in toolchain.find_targets(["cpu", "gpu", "cpu"])] == ["cpu", target or "sm_90a"]
    assert [t.name for t in toolchain.find_targets([])] == [target or "sm_90a", "cpu"]


def test_where_there_is_no_gpu_hopper_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert toolchain.find_targets(["gpu"]) == [toolchain.SM_90A]


def test_a_refused_target_is_a_sentence(
    kernel_cache: Path, scale: toolchain.Unit, capsys: pytest.CaptureFixture[str]
) -> None:
    (scale.path / "kernel.toml").write_text('[scale]\nrefuse = { cpu = "a fixture says so" }\n')
    sentence, root = "scale is not built for cpu: a fixture says so", scale.path.parent
    with pytest.raises(toolchain.errors.RefusedError, match=f"^{sentence}$"):
        toolchain.load("scale", "cpu", root)
    assert toolchain.obstacle("scale", "cpu", root) == sentence
    assert toolchain.obstacle("scale", "sm_90a", root) != sentence
    assert command_line.main(["build", "--target", "cpu", str(scale.path)]) == 1
    assert sentence in capsys.readouterr().err
    refusing = toolchain.open_units(scale.path)[0]
    assert command_line.chosen_pairs([refusing], [toolchain.CPU, toolchain.SM_90A], False) == [
        (refusing, toolchain.SM_90A)
    ]
    assert sentence in capsys.readouterr().err


def test_another_compiler_is_another_key(scale: toolchain.Unit) -> None:
    gxx = toolchain.compilers.Gxx("/usr/bin/g++", "12.2.0")
    newer = toolchain.compilers.Gxx("/usr/bin/g++", "13.1.0")
    assert keys.build_key("0", gxx, None, "native") != keys.build_key("0", newer, None, "native")
    assert keys.build_key("0", gxx, None, "native") != keys.build_key("0", gxx, None, "x86-64-v3")


def test_manifest_says_what_was_built(warm_cache: Path, scale: toolchain.Unit) -> None:
    manifest = build_cpu(scale).manifest
    assert manifest["name"] == "scale"
    assert manifest["target"] == "cpu"
    assert manifest["compiler"].startswith("g++ ")
    assert manifest["lines_of_code"] == 6
    assert manifest["lines_by_stem"] == {"scale": 6}
    assert manifest["registers"] is None
    assert "no such figure" in manifest["reasons"]["hgmma_count"]
    assert len(manifest["binary_hash"]) == 64
    assert "-march=native" in manifest["flags"]


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_manifest_names_no_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit, target: str
) -> None:
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path / "home" / "cache"))
    compiler = tmp_path / "home" / "g++"
    compiler.parent.mkdir()
    compiler.symlink_to(str(shutil.which("g++")))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    toolchain.compilers.find_gxx.cache_clear()
    try:
        manifest = json.dumps(toolchain.build(scale, toolchain.TARGETS[target], BuildOptions()).manifest)
    finally:
        toolchain.compilers.find_gxx.cache_clear()
    for folder in (sys.prefix, torch.__path__[0], FIXTURES.parents[2], tmp_path, Path.cwd()):
        assert str(folder) not in manifest


def test_machine_code_hash_ignores_the_path_and_sees_the_code(warm_cache: Path, scale: toolchain.Unit) -> None:
    moved = toolchain.open_units(Path(shutil.copytree(scale.path, scale.path.parent / "elsewhere" / "scale")))[0]
    first = build_cpu(scale).manifest
    (moved.path / "scale.cu").write_text("\n// a comment\n" + (moved.path / "scale.cu").read_text())
    second = build_cpu(toolchain.open_units(moved.path)[0]).manifest
    assert first["source_hash"] != second["source_hash"]
    assert first["binary_hash"] == second["binary_hash"]
    (moved.path / "scale.cu").write_text((moved.path / "scale.cu").read_text().replace("factor * a", "factor / a"))
    assert build_cpu(toolchain.open_units(moved.path)[0]).manifest["binary_hash"] != first["binary_hash"]


def test_machine_code_hash_is_of_all_units(kernel_cache: Path, scale: toolchain.Unit) -> None:
    class UnitsAlone(Processes):
        """g++ in nvcc's place for the units; the binding and the library, which are no part of it, are left empty."""

        def run(self, command: list[str]) -> tuple[int, str]:
            output, unit = Path(command[-1]), next((part for part in command if part.endswith(".cu")), "")
            output.touch()
            return (
                super().run(["g++", "-xc++", "-c", unit, "-o", str(output.with_suffix(".cubin"))]) if unit else (0, "")
            )

    hashes = []
    for number in (7, 8):
        (scale.path / "unit.cu").write_text(f"int unit() {{ return {number}; }}\n")
        options = BuildOptions(processes=UnitsAlone())
        built = toolchain.build(toolchain.open_units(scale.path)[0], toolchain.SM_90A, options)
        hashes.append(built.manifest["binary_hash"])
    assert hashes[0] != hashes[1]


def test_compile_error_shows_the_compilers_words(kernel_cache: Path, scale: toolchain.Unit) -> None:
    (scale.path / "scale.cu").write_text("int launch() { return undeclared_name; }\n")
    with pytest.raises(toolchain.errors.CompileError, match="undeclared_name.*was not declared") as failure:
        build_cpu(scale)
    assert "scale does not build for cpu" in str(failure.value)
    assert list(kernel_cache.glob("scale-*")) == []
    assert list(kernel_cache.glob(".scale-*.tmp-*")) == []


def test_symbol_that_nothing_defines_is_an_error(kernel_cache: Path, scale: toolchain.Unit) -> None:
    (scale.path / "scale.cu").write_text('#include "scale.h"\n')
    with pytest.raises(toolchain.errors.CompileError, match="undefined reference to .tk::scale::launch"):
        build_cpu(scale)


def test_two_processes_build_the_same_kernel_once(kernel_cache: Path, scale: toolchain.Unit) -> None:
    command = [sys.executable, "-m", "tk_kernels.toolchain", "build", "--target", "cpu", str(scale.path)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd())
        for _ in range(3)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert sorted("scale            cpu     built" in out for out, _ in said) == [False, False, True]
    assert len(list(kernel_cache.glob("scale-cpu-*"))) == 1


def test_compilers_are_as_many_as_the_process_has_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: as many as the machine has, where a cluster's job had two of them; MAX_JOBS was not heard."""
    monkeypatch.delenv("MAX_JOBS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7, 9})
    assert BuildOptions().jobs == 3
    for asked, jobs in (("2", 2), ("64", 3), ("0", 3), ("many", 3)):
        monkeypatch.setenv("MAX_JOBS", asked)
        assert BuildOptions().jobs == command_line.parser().parse_args(["build"]).jobs == jobs


def test_a_long_build_gives_signs_of_life(scale: toolchain.Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one soon, since to load the program takes seconds too."""
    monkeypatch.setattr(building, "build", lambda *arguments: time.sleep(1))
    monkeypatch.setattr(building, "FIRST_SIGN_SECONDS", 0.05)
    told: list[list[str]] = []
    for count, seconds in ((1, 60), (5, 0.05)):
        told.clear()
        monkeypatch.setattr(building, "SIGN_OF_LIFE_SECONDS", seconds)
        assert building.build_all([(scale, toolchain.CPU)], BuildOptions(), lambda built: None, told.append) == []
        assert told[:count] == count * [["scale (cpu)"]]
    assert len(told) > 5


def test_builds_are_told_of_in_few_lines(
    warm_cache: Path, scale: toolchain.Unit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, pending = build_cpu(scale), ["a (cpu)", "b (cpu)", "c (cpu)", "d (cpu)"]

    def build_all(pairs: Any, options: Any, done: Callable[..., None], waiting: Callable[..., None]) -> list[Any]:
        waiting(pending)
        done(kept)
        done(replace(kept, cached=False))
        return []

    monkeypatch.setattr(command_line, "build_all", build_all)
    monkeypatch.setattr(command_line, "unit_names", lambda: [str(scale.path)])
    for names, told in (([], ["built"]), ([str(scale.path)], ["cached", "built"])):
        assert command_line.main(["build", "--target", "cpu", *names]) == 0
        first, *builds, last = capsys.readouterr().out.splitlines()
        assert first == "0 s, building a (cpu), b (cpu), c (cpu)"
        assert [line.split()[2] for line in builds] == told
        assert last.startswith("1 of 1 builds good, 1 of them kept from before, ")


def test_hashes_are_of_builds_that_are_made_at_once(
    warm_cache: Path, scale: toolchain.Unit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def build_all(pairs: list[Any], options: BuildOptions, done: Callable[[toolchain.Build], None]) -> list[Any]:
        asked.append((pairs, options.jobs))
        facts = {"machine_codes": {"sm_90a": {}}, "compiler": "nvcc 13", "binary_hash": "ab"}
        done(toolchain.Build("scale", "sm_90a", warm_cache, facts, cached=False))
        done(build_cpu(scale))  # whose machine code is the host's
        return []

    monkeypatch.setattr(command_line, "build_all", build_all)
    assert command_line.main(["hashes", "--target", "sm_90a", "--jobs", "7", str(scale.path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"scale": {"sm_90a": {"compiler": "nvcc 13", "binary_hash": "ab"}}}
    assert asked == [([(scale, toolchain.SM_90A)], 7)]
    monkeypatch.setattr(command_line, "build_all", lambda *_: [toolchain.errors.CompileError("scale does not build")])
    assert command_line.main(["hashes", str(scale.path)]) == 1
    assert capsys.readouterr().err == "error: scale does not build\n"


def test_the_longest_build_begins_first(scale: toolchain.Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: with the slowest one last, the other compilers have nothing left to do."""
    shutil.copytree(scale.path, tmp_path / "kernels" / "zeta")
    (tmp_path / "kernels" / "zeta" / "scale.cu").rename(tmp_path / "kernels" / "zeta" / "zeta.cu")
    longer = tmp_path / "kernels" / "zeta" / "zeta.cu"
    longer.write_text(f'#include "longer.cuh"\n{longer.read_text()}')
    longer.with_name("longer.cuh").write_text("// most of a kernel is in its headers\n")
    begun, at_once, ended = list[tuple[str, str]](), list[int](), list[str]()

    def build(kernel: toolchain.Unit, target: toolchain.Target, *rest: object) -> None:
        begun.append((kernel.name, target.name))
        at_once.append(len(begun) - len(ended))
        time.sleep(0.1)
        ended.append(kernel.name)

    monkeypatch.setattr(building, "build", build)
    kernels = [scale, toolchain.open_units(tmp_path / "kernels" / "zeta")[0]]
    pairs = [(kernel, target) for kernel in kernels for target in (toolchain.CPU, toolchain.SM_90A)]
    ordered = [(kernel.name, target.name) for kernel, target in building.longest_first(pairs)]
    assert ordered == [("zeta", "sm_90a"), ("scale", "sm_90a"), ("zeta", "cpu"), ("scale", "cpu")]
    building.build_all(pairs, BuildOptions(jobs=1), lambda built: None)
    assert (set(begun[:2]), set(begun[2:])) == (set(ordered[:2]), set(ordered[2:]))
    assert max(at_once) == 2, "with one compiler"


def test_slow_kernel_is_refused_unless_it_says_why(kernel_cache: Path, tmp_path: Path) -> None:
    slow = toolchain.open_units(Path(shutil.copytree(FIXTURES / "slow", tmp_path / "slow")))[0]
    with pytest.raises(toolchain.errors.QualityError) as failure:
        toolchain.build(slow, toolchain.SM_90A, BuildOptions())
    message = str(failure.value)
    assert "spill in spilling(float*, float const*, int)" in message
    assert "wgmma_serialized in serialized(float*, unsigned long long, int)" in message
    assert "setmaxnreg_ignored in unknown" in message
    assert "kernel.toml" in message
    allowed = {"spill": "spilling", "wgmma_serialized": "serialized", "setmaxnreg_ignored": "^$"}
    tables = [
        f'[[slow.allow]]\nfinding = "{kind}"\nfunction = "{name}"\nreason = "a fixture"\n'
        for kind, name in allowed.items()
    ]
    (slow.path / "kernel.toml").write_text("".join(tables))
    manifest = toolchain.build(toolchain.open_units(slow.path)[0], toolchain.SM_90A, BuildOptions()).manifest
    assert manifest["registers"] == 64
    assert manifest["spills"] > 0
    assert {entry["function"].split("(")[0] for entry in manifest["entries"]} == {"serialized", "unbounded", "spilling"}
    assert manifest["hgmma_count"] is None or manifest["hgmma_count"] >= 1
    assert len(manifest["allowed"]) == 3


def test_a_spill_of_any_unit_is_refused(kernel_cache: Path, scale: toolchain.Unit) -> None:
    class Spilling(Processes):
        """Compilers of which the second unit's says that it spills."""

        def run(self, command: list[str]) -> tuple[int, str]:
            said = "Function properties for _Z4unitv\n 8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads"
            return 0, said if any(part.endswith("unit.cu") for part in command) else ""

    (scale.path / "unit.cu").write_text("__global__ void unit() {}\n")
    with pytest.raises(toolchain.errors.QualityError, match=r"spill in unit\(\): 8 bytes spill stores"):
        toolchain.build(toolchain.open_units(scale.path)[0], toolchain.SM_90A, BuildOptions(processes=Spilling()))


def test_command_line_shows_commands_and_fails_in_words(
    kernel_cache: Path, scale: toolchain.Unit, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["build", "-v", "--target", "cpu", str(scale.path)]) == 0
    said = capsys.readouterr()
    assert "-march=native" in said.err
    assert "1 of 1 builds good" in said.out
    (scale.path / "scale.cu").write_text("#error broken on purpose\n")
    assert command_line.main(["build", "--target", "cpu", str(scale.path)]) == 1
    assert "broken on purpose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--target", "sm_42"], "target 'sm_42' does not exist; known targets are sm_90a, sm_80, cpu"),
        (
            ["build", "no_such_kernel"],
            "kernel 'no_such_kernel' does not exist; known kernels are attention, attention_",
        ),
        (["build", "gem"], "; did you mean gemm?"),
        (["build", "--jobs", "0"], "--jobs is 0, must be at least 1"),
        (["build", "/no/such/folder"], "no such kernel folder"),
        (
            ["export", "gemm", "--target", "cpu", "--to", "/dev/null"],
            "/dev/null: cannot be written (File exists); give",
        ),
        (["export", "gemm", "--target", "cpu", "--to", ""], "--to is empty, must name a folder"),
    ],
)
def test_command_line_mistakes_are_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(arguments) == 1
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_interrupt_ends_the_build_and_leaves_nothing(tmp_path: Path, kernel_cache: Path, scale: toolchain.Unit) -> None:
    slow = tmp_path / "g++"
    slow.write_text('#!/bin/sh\ncase "$*" in *-c*) exec sleep 60;; *) echo 12.2.0;; esac\n')
    slow.chmod(0o755)
    arguments = ["build", "-v", "--jobs", "1", "--target", "cpu", str(scale.path)]
    command = [sys.executable, "-m", "tk_kernels.toolchain", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "CXX": str(slow)},
    )  # fmt: skip
    assert process.stderr is not None
    assert "scale.cu" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "interrupted; finished builds are kept"
    assert "Traceback" not in said
    assert [path.name for path in kernel_cache.iterdir() if not path.name.endswith(".lock")] == []


def test_building_at_a_call_is_announced_once(
    kernel_cache: Path, scale: toolchain.Unit, capsys: pytest.CaptureFixture[str]
) -> None:
    toolchain.ensure_built("scale", "cpu", scale.path.parent)
    assert capsys.readouterr().err.count("building scale for cpu") == 1
    toolchain.ensure_built("scale", "cpu", scale.path.parent)
    assert capsys.readouterr().err == ""
