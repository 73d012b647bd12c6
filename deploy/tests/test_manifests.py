"""The check of Kubernetes' manifests itself: what it sees, and what it says where it can't look."""

import pytest

from deploy.tests import manifests
from deploy.tests.manifests import mistakes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": {"maxUnavailible": 1}}, "maxUnavailible"),
        ({"spec": {"maxUnavailable": []}}, "spec.maxUnavailable"),
        ({"kind": "PodDisruptionBudge"}, "PodDisruptionBudge"),
        ({"apiVersion": "policy/v1beta1"}, "policy/v1beta1"),
        ({}, ""),
    ],
)
def test_the_schemas_see_a_mistake(change, said):
    good = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    found = mistakes({**good, "spec": {"maxUnavailable": 1}, **change})
    assert len(found) == (len(manifests.VERSIONS) if said else 0)
    assert all(said in mistake for mistake in found)


@pytest.mark.parametrize("old", ["", '{"kustomizeVersion": "v4.5.7"}', "{}"])
def test_without_kubectl_the_check_says_so_and_ci_fails(old, tmp_path, monkeypatch, capsys):
    if old:
        (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{old}'\n")
        (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "false")
    assert manifests.main() == 0
    assert "not checked" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert manifests.main() == 1
