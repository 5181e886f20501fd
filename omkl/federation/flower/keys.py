"""Keys of nodes and, for a trial, a certificate of the server: made by one command.

    FOLDER/ca.pem              signs the server's certificate; every client has it
    FOLDER/server.pem, server.key
    FOLDER/clients/NAME.key    a client's own, which stays with it
    FOLDER/clients/NAME.pub    what its server is given

An institution that has a certificate of its own uses that.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    private_key_to_bytes,
    public_key_to_bytes,
)

AUTHORITY, CERTIFICATE, CERTIFICATE_KEY, CLIENTS = "ca.pem", "server.pem", "server.key", "clients"
TRIAL_DAYS = 90
UNPROTECTED = (
    "insecure: there is no TLS and no check of keys. Whoever is in between reads and changes all "
    "that is sent, and whoever reaches the server can take a client's place that is free."
)
# Every call is signed; its check takes 0.08 ms, and 0.35 with P-384, which Flower chooses.
CURVE = ec.SECP256R1()


def make_client_key(folder: Path, name: str) -> Path:
    """NAME.key, for its owner alone, and NAME.pub; one that is there stays. The path of the key."""
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{name!r} is no name of a client: letters, digits, - and _")
    path = folder / CLIENTS / f"{name}.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        private = ec.generate_private_key(CURVE)
        _write_secret(path, private_key_to_bytes(private))
        path.with_suffix(".pub").write_bytes(public_key_to_bytes(private.public_key()))
    return path


def read_client_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a file; ValueError says how to make one."""
    try:
        return bytes_to_private_key(path.read_bytes())
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror}. Make a key: python -m omkl.federation.flower key "
            f"{path.parent.parent} {path.stem}, and give {path.stem}.pub to whoever runs the server"
        ) from None
    except ValueError:
        raise ValueError(f"{path} holds no private key") from None


def public_keys(folder: Path) -> dict[str, bytes]:
    """The keys of the clients that may take part, by name: ``FOLDER/clients/NAME.pub``."""
    return {path.stem: path.read_bytes() for path in sorted((folder / CLIENTS).glob("*.pub"))}


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """An authority and a certificate of the server for these names or addresses, for a trial."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(CURVE)
    authority_name = _named("omkl trial authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(_identifier(authority_key), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(CURVE)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    own = (
        _certificate(_named(hosts[0]), authority_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (folder / AUTHORITY).write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / CERTIFICATE).write_bytes(own.public_bytes(serialization.Encoding.PEM))
    _write_secret(folder / CERTIFICATE_KEY, private_key_to_bytes(key))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=TRIAL_DAYS))
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _usage(**granted: bool) -> x509.KeyUsage:
    names = "digital_signature content_commitment key_encipherment data_encipherment " + (
        "key_agreement key_cert_sign crl_sign encipher_only decipher_only"
    )
    usage: dict[str, Any] = dict.fromkeys(names.split(), False) | granted
    return x509.KeyUsage(**usage)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_secret(path: Path, data: bytes) -> None:
    """A file that its owner alone can read, from its first byte on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
