"""Who may read from a server: the token, and the certificates that a client trusts."""

import os
from dataclasses import dataclass
from pathlib import Path

from dataservice.errors import DataError

__all__ = ["TOKEN_VARIABLE", "Access", "read_bytes", "read_certificates", "read_token"]

TOKEN_VARIABLE = "DYADLM_TOKEN"


@dataclass(frozen=True, kw_only=True)
class Access:
    """What lets a client in: the token, and the certificates (PEM) that it trusts (None: those of the system)."""

    token: str | None = None
    root_certificates: bytes | None = None

    def __repr__(self) -> str:
        # A token is never printed, nor logged.
        return f"Access(token={'None' if self.token is None else '...'})"


def read_token(file: str | None) -> str | None:
    """The token in a file, or (None) in the environment variable DYADLM_TOKEN; None where that is not set."""
    if file is not None:
        token = read_bytes("data.token_file", file).decode(errors="replace")
    elif (token := os.environ.get(TOKEN_VARIABLE)) is None:
        return None
    token = token.strip()
    if not token:
        raise DataError(
            f"token must be one word of ASCII characters, got nothing in {file or TOKEN_VARIABLE}; write it"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise DataError(
            f"token must be one word of ASCII characters, got another content of {file or TOKEN_VARIABLE}; mend it"
        )
    return token


def read_bytes(setting: str, file: str) -> bytes:
    """The bytes of the file that a setting names."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{setting} must be a file that can be read, got {file} ({error.strerror})") from error


def read_certificates(setting: str, file: str) -> bytes:
    """The PEM certificates in the file that a setting names."""
    content = read_bytes(setting, file)
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise DataError(
            f"{setting} must hold certificates in PEM, got {file} without one; name the server's, or its CA's"
        )
    return content
