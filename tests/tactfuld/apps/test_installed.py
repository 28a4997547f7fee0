"""Installed apps are found by their metadata, without running a line of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.app_site import install_app, install_entry_point

import tactful
from tactful_core.values import AppId
from tactfuld.apps.installed import NotInstalledError, find_installed, installed_names

NOWHERE = Path("/nonexistent")
"""The state folder of a profile in which no app has an environment."""

BROKEN = "raise SystemExit('imported')"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_listing_and_finding_import_no_app(site: Path) -> None:
    install_app(site, "broken", BROKEN)
    assert "broken" in installed_names(NOWHERE)
    found = find_installed(AppId("broken"), NOWHERE)
    assert found.name == "broken"
    assert {site, Path(tactful.__path__[0]).parent} <= set(found.folders)


def test_app_in_a_package_is_found_by_the_folder_of_its_package(
    site: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for an editable install: metadata here, sources there."""
    sources = tmp_path_factory.mktemp("sources")
    (sources / "shy_package").mkdir()
    (sources / "shy_package" / "__init__.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(sources))
    install_entry_point(site, "shy", "shy_package.app", distribution="shy")
    assert {site, sources} <= set(find_installed(AppId("shy"), NOWHERE).folders)


def test_app_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(NotInstalledError, match=r"nowhere is not installed\. .*tactful apps add"):
        find_installed(AppId("nowhere"), NOWHERE)


def test_name_that_two_distributions_claim_belongs_to_neither(site: Path) -> None:
    install_app(site, "twin", BROKEN, package="first_twin")
    install_app(site, "twin", BROKEN, package="second_twin")
    with pytest.raises(NotInstalledError, match="first_twin and second_twin"):
        find_installed(AppId("twin"), NOWHERE)


def test_metadata_without_its_module_is_a_sentence(site: Path) -> None:
    install_entry_point(site, "ghost", "no_such_module_at_all", distribution="ghost")
    with pytest.raises(NotInstalledError, match="no_such_module_at_all"):
        find_installed(AppId("ghost"), NOWHERE)
