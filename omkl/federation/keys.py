"""Keys of the clients and, for a trial, a certificate of the server; what TLS makes of them.

    FOLDER/ca.pem              signs the server's certificate; every client has it
    FOLDER/server.pem, server.key
    FOLDER/clients/NAME.key    a client's private key and its certificate, which stay with it
    FOLDER/clients/NAME.pub    the certificate alone, which its server is given

A client signs its certificate itself: the server trusts the ``.pub`` files that it has, and no
authority. An institution that has a certificate of its own as a server uses that.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY, CERTIFICATE, CERTIFICATE_KEY, CLIENTS = "ca.pem", "server.pem", "server.key", "clients"
TRIAL_DAYS = 90
CLIENT_DAYS = 3650  # of a client's own certificate: its .pub file is what ends its trust
UNPROTECTED = (
    "insecure: there is no TLS and no check of keys. Whoever is in between reads and changes all "
    "that is sent, and whoever reaches the server can take a client's place that is free."
)
CURVE = ec.SECP256R1()
PEM = serialization.Encoding.PEM


def make_client_key(folder: Path, name: str) -> Path:
    """NAME.key, for its owner alone, and NAME.pub; one that is there stays. The path of the key."""
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{name!r} is no name of a client: letters, digits, - and _")
    path = folder / CLIENTS / f"{name}.key"
    public = path.with_suffix(".pub")
    if path.exists() and public.exists() and b"CERTIFICATE" in path.read_bytes():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    private = _private_key(path.read_bytes()) if path.exists() else ec.generate_private_key(CURVE)
    subject = _named(name)
    certificate = (
        _certificate(subject, subject, private.public_key(), CLIENT_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
        .public_bytes(PEM)
    )
    write_secret(path, _pem_of(private) + certificate)
    public.write_bytes(certificate)
    return path


def fingerprint(certificate: x509.Certificate) -> str:
    """The sha256 of a certificate's public key, as hex digits."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(certificate.public_key().public_bytes(PEM, form)).hexdigest()


def trusted_certificates(folder: Path) -> dict[str, x509.Certificate]:
    """The certificates in ``FOLDER/clients``, by fingerprint; ValueError names a wrong file."""
    certificates = {}
    for path in sorted((folder / CLIENTS).glob("*.pub")):
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except ValueError:
            raise ValueError(
                f"{path} is no certificate, maybe a key of an earlier version: its client types "
                f"omkl-federate key FOLDER {path.stem} once more, and sends {path.name} again"
            ) from None
        certificates[fingerprint(certificate)] = certificate
    return certificates


def server_context(folder: Path) -> ssl.SSLContext:
    """TLS of a server that asks each client for its certificate; ValueError names a missing file.

    ``trust`` adds the certificates that are accepted.
    """
    files = folder / CERTIFICATE, folder / CERTIFICATE_KEY
    for path in files:
        if not path.is_file():
            raise ValueError(
                f"{path} is missing: make keys and certificates for a trial with "
                "omkl-federate keys FOLDER, or serve with insecure=true"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(*files)
    except ssl.SSLError as error:
        raise ValueError(f"{files[0]} and {files[1].name} do not go together: {error}") from None
    return context


def trust(context: ssl.SSLContext, certificate: x509.Certificate) -> None:
    """Let whoever has the private key of this certificate connect from now on."""
    context.load_verify_locations(cadata=certificate.public_bytes(PEM).decode())


def client_context(path: Path, authority: Path | None) -> ssl.SSLContext:
    """TLS of a client with the key in a file; ``authority`` None: those that the system trusts.

    ValueError says how to make a key that is missing.
    """
    if authority is not None and not authority.is_file():
        raise ValueError(f"{authority} is missing: the certificate that signed the server's")
    context = ssl.create_default_context(cafile=authority)
    again = (
        f"omkl-federate key {path.parent.parent} {path.stem}, and give {path.stem}.pub to whoever "
        "runs the server"
    )
    try:
        context.load_cert_chain(path)
    except ssl.SSLError:  # an OSError too
        raise ValueError(
            f"{path} holds no private key with its certificate. Type: {again}"
        ) from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}. Make a key: {again}") from None
    return context


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """An authority and a certificate of the server for these names or addresses, for a trial."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(CURVE)
    authority_name = _named("omkl trial authority")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key(), TRIAL_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(CURVE)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _certificate(_named(hosts[0]), authority_name, key.public_key(), TRIAL_DAYS)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (folder / AUTHORITY).write_bytes(authority.public_bytes(PEM))
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(PEM))
    write_secret(folder / CERTIFICATE_KEY, _pem_of(key))


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


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


def write_secret(path: Path, data: bytes) -> None:
    """A file that its owner alone can read, from its first byte on."""
    written = path.with_name(f"{path.name}.new")
    written.unlink(missing_ok=True)
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    written.replace(path)
