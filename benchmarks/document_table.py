"""Documents as a Parquet file that every reader of documents takes."""

from pathlib import Path

from tokenizer.corpus import Document

__all__ = ["write_documents"]


def write_documents(path: Path, documents: list[Document]) -> None:
    """Write a Parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    columns = pa.table({name: [getattr(each, name) for each in documents] for name in Document._fields})
    pq.write_table(columns, beside)
    beside.replace(path)
