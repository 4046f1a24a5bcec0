"""The certificate with which a server speaks TLS."""

import ssl

from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError, reason


def read_certificate(settings: ServerSettings) -> ssl.SSLContext | None:
    """The certificate of the settings with its key, for connections; None if there is none.

    Raises `DragomanError` if it cannot be used with its key.
    """
    if settings.tls_cert is None:
        return None
    files = " and ".join(map(str, filter(None, (settings.tls_cert, settings.tls_key))))

    def refuse_password() -> str:
        raise DragomanError(f"The key in {files} has a password; give a key without one.")

    try:  # without the function, OpenSSL would ask for a password in the terminal
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key, refuse_password)
    except OSError as error:  # also those of TLS
        raise DragomanError(
            f"{files} cannot be used for TLS: {reason(error)}. Give a certificate and its private key, "
            "both in PEM."
        ) from error
    return context
