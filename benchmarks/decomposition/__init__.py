"""Dataset decomposition against its rivals at equal tokens: arms, their runs on disk, what is measured, verdicts.

`benchmarks/reproduce_decomposition.py` is the command. The rules by which a finding is judged are in
`benchmarks.verdicts` and `findings`; they were written before anything was run.
"""
