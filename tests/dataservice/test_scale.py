"""A store of a million shards and 10^12 tokens: only its table is made up, and only what opening needs is read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NUM_SHARDS, NUM_KINDS, NUM_DOCUMENTS = 1_000_000, 1000, 1000

MAKE = """
import hashlib, sys
from pathlib import Path
import numpy as np
from dataservice.store.files import FileSeal, digest_bytes
from dataservice.store.manifest import Manifest, TokenFormat, totals
from dataservice.store.record import length_powers
from dataservice.store.table import ShardTable

path, num_shards, num_kinds, num_documents = Path(sys.argv[1]), *map(int, sys.argv[2:])
lengths = np.random.default_rng(0).integers(1, 2000, (num_kinds, num_documents))
digits, multiples = (np.array(powers) for powers in zip(*map(length_powers, lengths)))
kinds = np.arange(num_shards) % num_kinds
tokens, zeros = lengths.sum(axis=1)[kinds] + 1, np.zeros(num_shards, int)
tokens_of = TokenFormat("0" * 64, 32768, 32760)
table = ShardTable(
    names=tuple(f"shard-{n:07d}" for n in range(num_shards)),
    tokens=tokens, documents=zeros + num_documents, bytes=4 * tokens, empty=zeros, duplicates=zeros, skipped=zeros,
    digests=tuple(hashlib.sha256(str(n).encode()).hexdigest() for n in range(num_shards)),
    digits=digits[kinds], multiples=multiples[kinds], root=tokens_of.root,
)
data = table.to_parquet()
path.mkdir()
(path / "shards.parquet").write_bytes(data)
Manifest(
    tokens_of=tokens_of, shards=num_shards, planned_shards=num_shards, totals=totals(table), settings={}, tokenizer={},
    held_out=False, rows=table.row_digest(), table=FileSeal(len(data), digest_bytes(data)),
).write(path)
"""

SCHEDULE = """
import json, resource, sys
from dataservice.config import DataConfig
from dataservice.identity import open_schedule, prefix_digest
from dataservice.store import Store

store = Store.open(sys.argv[1])
config = DataConfig(tails="drop", window_shards=int(sys.argv[2]), min_length=64, max_length=8192)
schedule = open_schedule(store, config)
position = schedule.locate(0)
rows = schedule.rows(position)
prefix_digest(store, schedule, 1)
print(json.dumps({
    "tokens": store.manifest.totals["tokens"],
    "window_rows": schedule.windows.rows_before(0, 1)[:, -1].tolist(),
    "bucket": position.bucket,
    "rows": rows.reshape(-1).tolist(),
    "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_store_of_a_million_shards_schedules_its_first_step_in_2_gib(tmp_path):
    run(MAKE, tmp_path / "store", NUM_SHARDS, NUM_KINDS, NUM_DOCUMENTS)
    for window_shards in (64, 0):
        found = json.loads(run(SCHEDULE, tmp_path / "store", window_shards))
        assert found["tokens"] > 0.99e12
        assert found["bytes"] < 2 << 30
        num_rows = found["window_rows"][found["bucket"]]
        assert (
            len(set(found["rows"])) == len(found["rows"]) and 0 <= min(found["rows"]) <= max(found["rows"]) < num_rows
        )
        # Rows in proportion to the shards of the window: every thousand shards are the same.
        assert num_rows > 0 and (window_shards or num_rows % (NUM_SHARDS // NUM_KINDS) == 0)
