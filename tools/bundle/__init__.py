"""Pack what a GPU node without a network lacks: Python packages, prebuilt kernels, the state of the sources.

``python -m tools.bundle`` fills one folder; ``bundle/run <command>`` on the node uses it with the node's own Python and
torch. One module a step: `needs` (what experiments want); `plan` (which groups); `resolve` (which distributions);
`wheels` (fetching); `archive` (packing); `builds` (libraries built from source); `kernels` (prebuilt kernels); `stamp`
(what the sources were); `assemble` (all of it, in order).
"""
