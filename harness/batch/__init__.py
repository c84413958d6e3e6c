"""`python -m harness.batch`: commands of the harness one after the other, with one worker for all of them.

Standard input has a command a line, with `python -m harness` before it or without; empty lines and what stands behind #
are none.  Each command is a run of its own.  What it finds is a worker that has run others. Starting it is paid once,
and what libraries keep in a process (tuned choices, workspaces, the state of generators) is there.  The exit code is
the highest of theirs; an interruption or a line that cannot be read ends the batch.
"""
