"""Readers of documents: installed packages, folders, text files, Parquet, JSON lines and ArrayRecord, local or remote.

A corpus is listed as input shards, each of which is read as one task:

    config = CorpusConfig(paths=("packages:numpy,jax", "data/*.parquet"))
    for shard in list_shards(config):
        for document in read_shard(shard, config):
            ...
"""

from tokenizer.corpus.config import SOURCE_EXTENSIONS, CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, is_held_out
from tokenizer.corpus.listing import list_shards
from tokenizer.corpus.reading import read_shard

__all__ = ["SOURCE_EXTENSIONS", "CorpusConfig", "Document", "InputShard", "is_held_out", "list_shards", "read_shard"]
