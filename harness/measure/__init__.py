"""The process that does the work, and the one that watches it.

`messages` is what they say to each other; `measure` what is done for one group; `child` the loop of the spawned
process; `supervisor` the parent's side: time limits, deaths, and who is to blame.
"""
