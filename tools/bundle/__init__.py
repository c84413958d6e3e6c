"""Pack what a GPU node without a network needs: Python packages, prebuilt kernels, the state of the sources.

``python -m tools.bundle`` fills one folder; ``bundle/run <command>`` on the node uses it with the node's own Python and
torch. `needs` says what experiments want, `plan` which parts those are. `packages` has uv install a part, `kernels`
builds ours, `archive` packs. `stamp` says what the sources were. `assemble` does all of it in order.
"""
