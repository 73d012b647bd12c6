"""Read and write `NAME=value` files that a shell can source as they are."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path


def read_env_file(path: Path) -> dict[str, str]:
    """Return the file's variables, as a shell reads them; an absent file has none."""
    words = shlex.split(path.read_text(), comments=True) if path.exists() else []
    pairs = (word.partition("=") for word in words if "=" in word)
    return {name: value for name, _, value in pairs}


def write_env_file(path: Path, values: Mapping[str, str]) -> None:
    """Write the variables for the owner's eyes only, complete or not at all.

    A reader that polls for the file must never see half of it: hence the rename.
    """
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    draft.replace(path)
