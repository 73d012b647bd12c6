"""Storages for labels: files that outlast a power cut, and an S3 that is not waited for."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage

# Seconds. Twice both, and a pause, is less than what a lease has left when a call ends.
S3_CONNECT, S3_READ, S3_TRIES = 2, 5, 2
# What an address may say beside bucket and prefix; keys come by the library's own variables.
S3_OPTIONS = {"endpoint_url", "region_name", "addressing_style"}


class DurableFiles(FileSystemStorage):
    """A folder whose files are on the disk when they are said to be; empty folders are removed."""

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        """Save it; a new file is lost with its folder's entry, so these are synced, too."""
        name = super().save(name, content, max_length)
        path, root = Path(self.path(name)), Path(self.location)
        _sync(path)
        while path != root:
            path = path.parent
            _sync(path)
        return name

    def delete(self, name: str) -> None:
        """Delete a file, and its folder where it was the last."""
        super().delete(name)
        with suppress(OSError):
            os.rmdir(os.path.dirname(self.path(name)))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def files_in(folder: str) -> dict[str, Any]:
    """Return the entry of STORAGES for a folder; labels are for the application's user only."""
    options = {"location": folder, "file_permissions_mode": 0o600,
               "directory_permissions_mode": 0o700}  # fmt: skip
    return {"BACKEND": f"{__name__}.DurableFiles", "OPTIONS": options}


def objects_in(bucket: str, prefix: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the entry of STORAGES for a bucket of S3, or of a server that speaks its language.

    Raises:
        ValueError: `given` has what an address may not say.
        ImportError: what requirements-s3.txt installs is not there.
    """
    if not given.keys() <= S3_OPTIONS:
        raise ValueError(f"an s3:// address takes {', '.join(sorted(S3_OPTIONS))} only")
    from boto3.s3.transfer import TransferConfig
    from botocore.config import Config

    client = Config(
        connect_timeout=S3_CONNECT,
        read_timeout=S3_READ,
        retries={"total_max_attempts": S3_TRIES},
        s3={"addressing_style": given.get("addressing_style", "auto")},
    )
    options = {"bucket_name": bucket, "location": prefix, "client_config": client,
               "transfer_config": TransferConfig(use_threads=False), **given}  # fmt: skip
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
