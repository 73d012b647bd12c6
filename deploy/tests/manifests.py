"""`make check`: deploy/kubernetes as it is applied, against Kubernetes' own schemas.

    python -m deploy.tests.manifests

kubectl builds each overlay, by the kustomize that is part of it: a merge of our own would be held
to our own reading of kustomize, and everybody who applies these has kubectl. Where it is absent
nothing is looked at, which the check says; in CI that is a failure.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache

import kubernetes_validate
import yaml

from deploy.plan import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
# kubectl 1.27. Debian 12's is older, and has kustomize 2: no components.
KUSTOMIZE = 5
# The first with `sleep` in preStop by default, and the newest that the package knows.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
INSTALL = "kubectl 1.27 or later: kubernetes.io/docs/tasks/tools  |  brew install kubectl"


def why_unbuildable() -> str:
    """Return why nothing can be built here; empty when it can."""
    program = shutil.which("kubectl")
    if program is None:
        return "kubectl is not there"
    said = json.loads(_kubectl("version", "--client", "--output=json"))
    version = said.get("kustomizeVersion", "v0")
    old = int(version.removeprefix("v").partition(".")[0]) < KUSTOMIZE
    return f"{program} has kustomize {version}" if old else ""


@cache
def built(overlay: str) -> list[dict]:
    """Return the resources of an overlay, as `kubectl apply -k` would send them."""
    return list(yaml.safe_load_all(_kubectl("kustomize", str(FOLDER / "overlays" / overlay))))


def _kubectl(*arguments: str) -> str:
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def mistakes(resource: dict) -> list[str]:
    """Return what the schemas say against a resource; an unknown field and kind are mistakes."""
    name = f"{resource.get('kind')} {resource['metadata']['name']}"
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = ".".join(map(str, error.absolute_path))
            found.append(f"{version}: {name}: {place}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            found.append(f"{version}: {name}: {error.message}")
    return found


def main() -> int:
    """Check each overlay; return the exit status."""
    if reason := why_unbuildable():
        print(f"Kubernetes' manifests were not checked: {reason}. {INSTALL}")
        return 1 if os.environ.get("CI") == "true" else 0
    resources = [resource for overlay in OVERLAYS for resource in built(overlay)]
    # Most stand in both.
    different = {json.dumps(resource, sort_keys=True): resource for resource in resources}
    found = [mistake for resource in different.values() for mistake in mistakes(resource)]
    print(*found, f"{len(different)} resources, {len(found)} mistakes", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
