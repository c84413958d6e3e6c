"""The workflow files: valid by the published schema, and nothing proposed by others runs on a machine of our own."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))


class Yaml12(yaml.SafeLoader):
    """YAML as GitHub reads it: `on` is a word, only true and false are booleans."""

    yaml_implicit_resolvers = copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers)


for first, resolvers in Yaml12.yaml_implicit_resolvers.items():
    Yaml12.yaml_implicit_resolvers[first] = [one for one in resolvers if one[0] != "tag:yaml.org,2002:bool"]
Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


SITE = {"actions": "read", "contents": "read", "pages": "write", "id-token": "write"}
"""What the job may that publishes the site."""


def read(path):
    return yaml.load(path.read_text(), Loader=Yaml12)


def triggers(workflow):
    on = workflow["on"]
    return {on} if isinstance(on, str) else set(on)


def commands(workflow):
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def labels(job):
    runs_on = job["runs-on"]
    return {runs_on} if isinstance(runs_on, str) else set(runs_on)


def invalid(paths):
    """The names of those files that GitHub's schema, of which check-jsonschema carries a copy, does not take."""
    words = ("-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", "--output-format", "json")
    done = subprocess.run([sys.executable, *words, *paths], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert not said.get("parse_errors"), said
    return {Path(error["filename"]).name for error in said["errors"]}


def test_workflows_are_valid_by_the_published_schema():
    assert WORKFLOWS
    assert invalid(WORKFLOWS) == set()


def test_the_schema_sees_mistakes(tmp_path):
    """Guard: the validation itself; a schema or a loader that takes everything would say nothing."""
    changes = (
        lambda workflow: workflow["jobs"]["gpu"].pop("runs-on"),
        lambda workflow: workflow["on"].update(pull_requests=None),
        lambda workflow: workflow["on"]["schedule"][0].update(crn=1),
        lambda workflow: workflow["jobs"]["gpu"]["steps"][1].update(uses="actions/checkout@v4"),
        lambda workflow: workflow.update(permissions="everything"),
    )
    for number, change in enumerate(changes):
        workflow = read(ROOT / ".github" / "workflows" / "nightly.yml")
        change(workflow)
        (tmp_path / f"{number}.json").write_text(json.dumps(workflow))
    assert invalid(tmp_path.glob("*.json")) == {f"{number}.json" for number in range(len(changes))}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_nothing_proposed_by_others_runs_on_our_own_machines(path):
    """Guard: a pull request from a fork never reaches a self-hosted runner, and only jobs of a push write."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in triggers(workflow)
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        if triggers(workflow) <= {"push", "workflow_run"}:  # to main or a tag, by who may push, or after a night
            assert workflow["on"].get("workflow_run", {"workflows": ["nightly"]})["workflows"] == ["nightly"]
            may = {"contents": "write"} if "tags" in workflow["on"]["push"] else SITE
            assert job["permissions"] == may
            assert labels(job) == {"ubuntu-24.04"}
            assert job["if"] == "${{ !github.event.repository.fork }}"
        else:
            assert "permissions" not in job
            assert (
                labels(job) == {"ubuntu-24.04"}
                if "pull_request" in triggers(workflow)
                else "self-hosted" in labels(job)
            )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_digest(path):
    """Guard: a tag of somebody else's repository can be moved to other code."""
    used = re.findall(r"uses: *(.*)$", path.read_text(), flags=re.MULTILINE)
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_the_night_runs_on_schedule_on_one_gpu_and_never_for_a_fork():
    """Guard: the job's whole condition, since with another operator the same words let a fork through."""
    workflow = read(ROOT / ".github" / "workflows" / "nightly.yml")
    assert triggers(workflow) == {"schedule", "workflow_dispatch"}
    (job,) = workflow["jobs"].values()
    started = "github.event_name == 'schedule' || github.event_name == 'workflow_dispatch'"
    assert job["if"] == f"({started}) && !github.event.repository.fork"
    assert "hopper" in labels(job)
    assert workflow["concurrency"] == {"group": "nightly-gpu", "cancel-in-progress": False}


def test_the_night_is_make_nightly_with_nothing_skipped_and_its_report_is_kept():
    """Guard: the workflow adds nothing to the script that runs by hand, and leaves no step of it out."""
    workflow = read(ROOT / ".github" / "workflows" / "nightly.yml")
    (command,) = commands(workflow)
    assert command.startswith("make nightly ")
    assert "--skip" not in command
    assert "--results" in command  # outside the checkout, which a runner cleans: else every night would be the first
    upload = workflow["jobs"]["gpu"]["steps"][-1]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert (upload["if"], upload["with"]["path"]) == ("always()", "nightly/")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_workflows_call_exists(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for command in commands(read(path)):
        program, *rest = command.split()
        if program == "make":
            assert rest[0] in targets
        else:
            assert os.access(ROOT / program, os.X_OK)
