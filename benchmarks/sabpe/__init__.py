"""SA-BPE (https://arxiv.org/abs/2604.14053) against plain BPE: vocabularies, small models, what is measured, verdicts.

`benchmarks/reproduce_sabpe.py` is the command. The rules by which a finding is judged are in `judging` and `findings`;
they were written before anything was run.
"""
