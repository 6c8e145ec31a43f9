"""Whether a server can be reached as its settings say: what gRPC would refuse without a reason."""

import socket
import ssl

from dataservice.errors import DataError
from dataservice.service.access import read_bytes
from dataservice.service.settings import ServerSettings

__all__ = ["check_address"]


def check_address(settings: ServerSettings) -> None:
    """Raise DataError for a host that is unknown here, and for TLS files that are missing or do not fit."""
    try:
        socket.getaddrinfo(settings.host, settings.port)
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"host must be a name or address of this machine, got {settings.host} "
            f"({getattr(error, 'strerror', None) or error}); set --host localhost, or 0.0.0.0 for every address"
        ) from error
    if settings.tls_certificate is None or settings.tls_key is None:
        return
    for name in ("tls_certificate", "tls_key"):
        read_bytes(name, getattr(settings, name))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise DataError(
            f"tls_certificate must be PEM and fit tls_key, got {settings.tls_certificate} and {settings.tls_key} "
            f"({getattr(error, 'reason', None) or error}); name the certificate and its own key"
        ) from error
