"""From root requirements to the list of wheels."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from tools.bundle.errors import BundleError
from tools.bundle.plan import Group, Node
from tools.bundle.resolve import resolve


def group(*requirements, never=(), source_only=()):
    roots = tuple(Requirement(text) for text in requirements)
    return Group("g", roots, frozenset(never), frozenset(source_only), (), True)


def node(*has):
    return Node("3.12", "2.11", frozenset({"torch", *has}))


@pytest.fixture
def index(make_wheel):
    """A package index: versions by name, newest last; ``fetch`` takes the newest that fits."""

    class Index:
        def __init__(self):
            self.wheels = {}
            self.asked = []

        def add(self, name, version="1.0", requires=()):
            self.wheels.setdefault(name, []).append(make_wheel(name, version, requires))

        def fetch(self, name, specifier, from_source):
            self.asked.append((name, str(specifier), from_source))
            fitting = [w for w in self.wheels[name] if specifier.contains(w.version)]
            return fitting[-1]

    return Index()


def names(wheels):
    return [f"{w.name} {w.version}" for w in wheels]


def test_dependencies_follow_and_what_the_node_has_does_not(index):
    index.add("a", requires=["b>=1", "numpy", "torch"])
    index.add("b", requires=["c"])
    index.add("c")
    assert names(resolve(group("a"), node("numpy"), index.fetch)) == ["a 1.0", "b 1.0", "c 1.0"]


def test_markers_are_those_of_the_node_and_not_of_this_machine(index):
    index.add("a", requires=['b; python_version < "3.9"', 'c; python_version >= "3.12"', 'd; sys_platform == "win32"'])
    index.add("c")
    assert names(resolve(group("a"), node(), index.fetch)) == ["a 1.0", "c 1.0"]


def test_only_the_extras_that_were_asked_for(index):
    index.add("a", requires=['b; extra == "cu13"', 'c; extra == "dev"'])
    index.add("b")
    assert names(resolve(group("a[cu13]"), node(), index.fetch)) == ["a 1.0", "b 1.0"]
    assert names(resolve(group("a"), node(), index.fetch)) == ["a 1.0"]


def test_extras_that_come_later_are_followed_too(index):
    index.add("a", requires=["b", "c"])
    index.add("b")
    index.add("c", requires=["b[x]"])
    index.wheels["b"].clear()
    index.add("b", requires=['d; extra == "x"'])
    index.add("d")
    assert names(resolve(group("a"), node(), index.fetch)) == ["a 1.0", "b 1.0", "c 1.0", "d 1.0"]


def test_a_later_upper_bound_replaces_a_newer_version(index):
    index.add("omega", "2.3")
    index.add("omega", "2.4")
    index.add("hydra", requires=["omega<2.4"])
    assert names(resolve(group("omega>=2.3", "hydra"), node(), index.fetch)) == ["hydra 1.0", "omega 2.3"]


def test_never_and_already_packed_are_left_out(index):
    index.add("a", requires=["huge", "shared"])
    index.add("shared")
    index.add("huge")
    packed = [index.wheels["shared"][0]]
    assert names(resolve(group("a", never=["huge"]), node(), index.fetch, packed)) == ["a 1.0"]


def test_a_star_leaves_out_every_dependency_and_no_requirement(index):
    index.add("a", requires=["b", "torch==9.9"])
    index.add("c", requires=["b"])
    assert names(resolve(group("a", "c", never=["*"]), node(), index.fetch)) == ["a 1.0", "c 1.0"]


def test_a_circle_ends(index):
    index.add("a", requires=["b"])
    index.add("b", requires=["a"])
    assert names(resolve(group("a"), node(), index.fetch)) == ["a 1.0", "b 1.0"]


def test_source_only_distributions_are_built(index):
    index.add("antlr")
    resolve(group("antlr==1.*", source_only=["antlr"]), node(), index.fetch)
    assert index.asked == [("antlr", "==1.*", True)]


def test_contradiction_ends_with_the_bounds(make_wheel):
    versions = {"a": make_wheel("a", "1.0", ["b<2"]), "b": make_wheel("b", "2.0")}
    with pytest.raises(BundleError, match=r"group g: no set of versions meets .*b<2"):
        resolve(group("b>=2", "a"), node(), lambda name, *_: versions[name])
