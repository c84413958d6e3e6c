"""What only several runs together tell.

`comparison` puts two runs, or a run and the nights before it, side by side: `environment` what else than the code
changed, `cases` case by case, `report` the table. `contradictions` are pairs whose verdict differs between runs;
`predecessors` tests whether whoever ran before decides a ratio.
"""
