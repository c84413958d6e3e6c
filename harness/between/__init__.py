"""What needs several runs: comparisons, contradictions, the effect of predecessors.

`comparison` puts two runs, or a run and the nights before it, side by side: `environment` finds what changed besides
the code, `cases` case by case, `report` the table. `contradictions` are pairs whose verdict differs between runs;
`predecessors` tests whether the preceding contestant changes a ratio.
"""
