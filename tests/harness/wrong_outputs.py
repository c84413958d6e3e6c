"""Wrong outputs, made of the float64 reference: what a kernel with one fault would give back, rounded once."""

from __future__ import annotations

import torch

from harness import workloads
from harness.measure.verification import TORCH_DTYPES, check_outputs


class Case:
    """A problem with its inputs, drawn as runs draw them, and its reference."""

    def __init__(self, workload, direction="fwd", **keys):
        self.workload = workloads.load(workload)
        dtype = self.workload.DTYPES[0]
        self.problem = workloads.parse_problem(workload, keys, dtype=dtype, direction=direction)
        self.inputs = self.workload.make_inputs(self.problem, torch.Generator().manual_seed(0), "normal")
        self.expected = self.workload.reference(self.problem, self.inputs, 0)

    def exact(self, expected):
        """Whole outputs in float64; a reference that asks for a mask has a fair one."""
        found = {name: torch.zeros(form.shape, dtype=torch.float64) for name, form in self.forms.items()}
        if callable(expected):
            kept = torch.rand(self.inputs["x"].shape, generator=torch.Generator().manual_seed(1)) >= self.problem.p
            expected = expected(found | {"r": self.inputs["residual"] + kept})[:2]
        for part in expected:
            whole = found[part.output]
            where = part.select(torch.arange(whole.numel()).view(whole.shape))
            whole.view(-1)[where.flatten()] = part.values.flatten()
        return found

    @property
    def forms(self):
        return self.workload.outputs(self.problem)

    def rounded(self, found):
        """Outputs in their dtypes."""
        return {name: whole.to(TORCH_DTYPES[self.forms[name].dtype]) for name, whole in found.items()}

    def of(self, problem=None, **changed):
        """Outputs of the reference on other inputs, or of another problem."""
        return self.rounded(self.exact(self.workload.reference(problem or self.problem, self.inputs | changed, 0)))

    def changed(self, function, *names):
        """The outputs, of which a function has changed those of these names, or all, before they are rounded."""
        found = self.exact(self.expected)
        return self.rounded(found | {name: function(found[name]) for name in names or found})

    def refused(self, outputs, ours=True):
        """Why these outputs are refused; empty if they are not."""
        check = check_outputs(self.workload, self.problem, tuple(outputs.values()), self.expected, ours=ours)
        return "" if check.passed else check.reason
