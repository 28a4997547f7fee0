"""A granted folder is shown only if that cannot show more than was granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tactfuld.apps.folders import (
    FolderGrant,
    FolderRefusedError,
    OpenFolder,
    open_folders,
    whole_path,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with recipes, a profile and a link to the recipes."""
    made = tmp_path / "home"
    for folder in ("Recipes/soups", "Work", "profile/data"):
        (made / folder).mkdir(parents=True)
    (made / "link").symlink_to(made / "Recipes")
    return made


def opened(home: Path, *paths: str, writable: tuple[str, ...] = ()) -> tuple[OpenFolder, ...]:
    return open_folders(
        [FolderGrant(path, writable=False) for path in paths],
        home=home,
        private=[home / "profile"],
        writable=[home / path for path in writable],
    )


def refusal(home: Path, path: str, writable: tuple[str, ...] = ()) -> str:
    with pytest.raises(FolderRefusedError) as refused:
        opened(home, path, writable=writable)
    assert str(home) in str(refused.value) or path in str(refused.value)
    return str(refused.value)


def test_folder_in_the_home_folder_is_shown_by_its_whole_path(home: Path) -> None:
    assert whole_path("~", home) == home
    assert opened(home, "~/Recipes", str(home / "Work")) == (
        OpenFolder(home / "Recipes", writable=False),
        OpenFolder(home / "Work", writable=False),
    )


def test_granting_one_folder_to_two_apps_that_write_it_is_sound(home: Path) -> None:
    """Neither can put another one in its place: that takes writing above it."""
    assert opened(home, "~/Work", writable=("Work",))


def test_folder_that_is_not_there_is_refused(home: Path) -> None:
    assert "there is no such folder" in refusal(home, "~/Nowhere")


def test_link_is_refused_and_the_real_folder_named(home: Path) -> None:
    assert str(home / "Recipes") in refusal(home, "~/link")
    assert str(home / "Recipes" / "soups") in refusal(home, "~/link/soups")


@pytest.mark.parametrize("path", ["~/profile", "~/profile/data"])
def test_folder_of_the_profile_is_refused(home: Path, path: str) -> None:
    assert "tactful's own" in refusal(home, path)


@pytest.mark.parametrize("path", ["~", "/"])
def test_home_folder_and_what_contains_it_is_refused(home: Path, path: str) -> None:
    with pytest.raises(FolderRefusedError):
        opened(home, path)


@pytest.mark.parametrize("path", ["/proc", "/sys", "/dev/shm", "/usr/share", "/etc"])
def test_folder_of_the_system_is_refused(home: Path, path: str) -> None:
    if Path(path).is_dir():
        with pytest.raises(FolderRefusedError, match=r"belongs to the system|symbolic link"):
            opened(home, path)


def test_folder_below_one_that_an_app_may_write_is_refused(home: Path) -> None:
    assert "may write" in refusal(home, "~/Recipes/soups", writable=("Recipes",))
