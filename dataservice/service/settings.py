"""How a server is reached, and what it answers at most."""

from dataclasses import dataclass

from dataservice.errors import DataError

__all__ = ["ServerSettings"]

LARGEST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How a server is reached, and what it answers at most."""

    host: str = "localhost"
    """Name or address to listen at; 0.0.0.0: every address of this machine."""

    port: int = 8815
    """Port to listen at; 0: any that is free, which is printed."""

    tls_certificate: str | None = None
    """File with the certificate chain (PEM), for TLS; null: no TLS."""

    tls_key: str | None = None
    """File with the key of the certificate (PEM)."""

    token_file: str | None = None
    """File with the token that clients must send; null: the environment variable DYADLM_TOKEN, and where that is not
    set, any client is answered."""

    max_request_bytes: int = 1 << 22
    """Longest request that is answered."""

    max_response_bytes: int = 1 << 26
    """Most bytes of tokens in one answer."""

    log_every: float = 10.0
    """Seconds between lines about what was done; none are printed while nothing is."""

    def __post_init__(self) -> None:
        for name, least in (("port", 0), ("max_request_bytes", 1024), ("max_response_bytes", 1024)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise DataError(f"{name} must be at least {least}, got {getattr(self, name)}; set --{option} {least}")
        if self.port > LARGEST_PORT:
            raise DataError(f"port must be at most {LARGEST_PORT}, got {self.port}; --port 0 takes any that is free")
        if (self.tls_certificate is None) != (self.tls_key is None):
            given = "tls_certificate" if self.tls_key is None else "tls_key"
            raise DataError(
                f"tls_certificate and tls_key must both be given, got {given} alone; "
                "set --tls-certificate FILE and --tls-key FILE, or none"
            )
        if self.log_every <= 0:
            raise DataError(f"log_every must be above 0, got {self.log_every}; set --log-every 10")
