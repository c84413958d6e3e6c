"""`python -m harness.batch`: commands of the harness one after the other, with one worker for all of them.

Standard input has a command a line, in the words that stand behind `python -m harness`; empty lines and lines that
begin with # are none.  Each command is a run of its own, as if typed alone, less the seconds that starting takes.  The
exit code is the highest of theirs; an interruption ends the batch.
"""
