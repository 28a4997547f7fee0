"""`one-shot apps-...`: installing apps and granting them something, without a daemon.

Decides what each tells. What is *not* here: installing (`apps.installing`), asking an app what it
is (`apps.describing`), comparing wishes with grants (`apps.granting`), editing the policy
(`policy_file`). None takes the daemon's lock; the daemon sees by itself that the policy was
changed.

Invariants:

- nothing but a word of the owner's grants an app something, and exactly what the owner said;
- an app that is removed loses its grants first, and its token: another one of its name would
  inherit them;
- an app's code runs in the sandbox only, also for `apps-show`; for `apps-disable` and `apps-remove`
  none of it runs.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tactful.errors import NotFound, Unusable, UsageError
from tactful.manifest import Description
from tactful.profile import Profile
from tactful.wire import EventKind
from tactful_core.values import AppId
from tactfuld.app_settings import plain, set_app_setting, settings_given, unset_app_setting
from tactfuld.apps.describing import Look
from tactfuld.apps.environments import OwnApp, alone, drop, own_apps, sweep
from tactfuld.apps.folders import FolderGrant, FolderRefusedError, open_folders, whole_path
from tactfuld.apps.granting import granted, more, wishes_of
from tactfuld.apps.installed import NotInstalledError, find_installed
from tactfuld.apps.installing import Report, contents, install
from tactfuld.apps.sandbox import choose_confinement
from tactfuld.apps.tokens import FILE_NAME as TOKENS_FILE
from tactfuld.apps.tokens import AppTokens
from tactfuld.policy.comparison import changes
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import load_document
from tactfuld.policy_file import remove_app, set_app
from tactfuld.policy_versions import versions_kept
from tactfuld.problems import shown
from tactfuld.settings import load_settings

NAMES = frozenset(
    {
        "apps-add",
        "apps-disable",
        "apps-enable",
        "apps-remove",
        "apps-set",
        "apps-show",
        "apps-unset",
        "apps-update",
    }
)

AddParser = Callable[[str, str], argparse.ArgumentParser]


def add_apps_commands(add: AddParser) -> None:
    """Their arguments; `add` makes a command from its name and help."""
    add("apps-add", "install an app").add_argument("--source", required=True)
    updated = add("apps-update", "install an app anew")
    updated.add_argument("--app", required=True)
    updated.add_argument("--source", default=None)
    removed = add("apps-remove", "take an app away")
    removed.add_argument("--app", required=True)
    removed.add_argument("--with-data", action="store_true")
    add("apps-show", "what an app asks for and has").add_argument("--app", required=True)
    enabled = add("apps-enable", "grant an app something")
    enabled.add_argument("--app", required=True)
    enabled.add_argument("--slot", action="append", default=[])
    enabled.add_argument("--event", action="append", default=[])
    enabled.add_argument("--timer", action="append", default=[], metavar="NAME=CRON")
    enabled.add_argument("--folder", action="append", default=[], metavar="PATH:read|write")
    given = add("apps-set", "set one of an app's settings")
    given.add_argument("--app", required=True)
    given.add_argument("--key", required=True)
    given.add_argument("--value", required=True)
    dropped = add("apps-unset", "go back to an app's own default")
    dropped.add_argument("--app", required=True)
    dropped.add_argument("--key", required=True)
    add("apps-disable", "grant an app nothing any more").add_argument("--app", required=True)


def run_apps_command(
    profile: Profile, arguments: argparse.Namespace, report: Report
) -> dict[str, object]:
    """What the command tells.

    Raises:
        TactfulError: it could not be done; the message says what was.
    """
    match arguments.one_shot:
        case "apps-add":
            return _added(profile, arguments.source, report)
        case "apps-update":
            return _updated(profile, AppId(arguments.app), arguments.source, report)
        case "apps-remove":
            return _removed(profile, AppId(arguments.app), with_data=arguments.with_data)
        case "apps-enable":
            return _enabled(profile, arguments)
        case "apps-set":
            _policy(profile)
            found = _described(profile, AppId(arguments.app))
            key, text = arguments.key, arguments.value
            set_app_setting(profile.settings_file, arguments.app, found.settings, key, text)
            return _setting_told(profile, arguments.app, key)
        case "apps-unset":
            unset_app_setting(profile.settings_file, arguments.app, arguments.key)
            return _setting_told(profile, arguments.app, arguments.key)
        case "apps-disable":
            return _disabled(profile, arguments.app)
        case _:
            return _shown(profile, AppId(arguments.app))


def _added(profile: Profile, source: str, report: Report) -> dict[str, object]:
    document = _policy(profile)
    with alone(profile.state):
        installed = install(_look(profile), _absolute(source), None, report)
    return {
        **_installed(profile, installed),
        **_asked(profile, installed.name, installed, document),
    }


def _updated(profile: Profile, app: AppId, source: str | None, report: Report) -> dict[str, object]:
    document = _policy(profile)
    with alone(profile.state):
        before = _own(profile, app)
        origin = before.source if source is None else _absolute(source)
        installed = install(_look(profile), origin, app, report)
    return {
        **_installed(profile, installed),
        "before": before.version,
        "more": more(before.manifest, installed.manifest),
        **_asked(profile, app, installed, document),
    }


def _removed(profile: Profile, app: AppId, *, with_data: bool) -> dict[str, object]:
    with alone(profile.state):
        _own(profile, app)
        taken = _disabled(profile, app)["changes"]
        with suppress(NotFound):
            AppTokens.load(profile.state / TOKENS_FILE).revoke(app)
        drop(profile.state, app)
        sweep(profile.state)
    folder = profile.state / "apps" / app
    if with_data and folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    kept = str(folder) if folder.is_dir() else None
    return {"app": app, "changes": taken, "kept": kept}


def _described(profile: Profile, app: AppId) -> Description:
    try:
        return _look(profile).describe(find_installed(app, profile.state))
    except NotInstalledError as error:
        raise NotFound(str(error)) from error


def _setting_told(profile: Profile, app: str, key: str) -> dict[str, object]:
    value = load_settings(profile.settings_file).apps.get(app, {}).get(key)
    told = None if value is None else plain(value)
    return {"file": str(profile.settings_file), "app": app, "key": key, "value": told}


def _shown(profile: Profile, app: AppId) -> dict[str, object]:
    document = _policy(profile)
    own = own_apps(profile.state).get(app)
    try:
        found = _look(profile).describe(find_installed(app, profile.state))
    except NotInstalledError as error:
        if app not in document.apps:
            raise NotFound(f"No app {shown(app)} is installed or named in the policy.") from error
        return {"app": app, "installed": None, "granted": asdict(granted(document.apps[app]))}
    where = _installed(profile, own) if own is not None else {"app": app, "installed": "beside"}
    return {**where, **_asked(profile, app, found, document)}


def _enabled(profile: Profile, arguments: argparse.Namespace) -> dict[str, object]:
    app = arguments.app
    for event in arguments.event:
        if event not in set(EventKind):
            kinds = ", ".join(EventKind)
            raise UsageError(f"There are no events of the kind {shown(event)}. There are: {kinds}.")
    folders = dict(map(_folder, arguments.folder))
    before = _policy(profile)

    def check(after: PolicyDocument) -> None:
        _check_folders(profile, after, app)

    with versions_kept(profile):
        set_app(
            profile.policy_file,
            app,
            slots=tuple(dict.fromkeys(arguments.slot)),
            events=tuple(dict.fromkeys(arguments.event)),
            folders=folders,
            timers=dict(text.split("=", 1) for text in arguments.timer if "=" in text),
            check=check,
        )
    return _change(profile, app, before)


def _disabled(profile: Profile, app: str) -> dict[str, object]:
    before = _policy(profile)
    with versions_kept(profile):
        remove_app(profile.policy_file, app)
    return _change(profile, app, before)


def _change(profile: Profile, app: str, before: PolicyDocument) -> dict[str, object]:
    after = load_document(profile.policy_file)
    part = after.apps.get(app)
    return {
        "file": str(profile.policy_file),
        "app": app,
        "granted": None if part is None else asdict(granted(part)),
        "changes": [asdict(change) for change in changes(before, after)],
    }


def _check_folders(profile: Profile, document: PolicyDocument, app: str) -> None:
    """Refuses folders with which the app would be parked."""
    home = Path.home()
    writable = [
        whole_path(path, home)
        for part in document.apps.values()
        for path, mode in part.folders.items()
        if mode == "write"
    ]
    grants = [
        FolderGrant(path, writable=mode == "write")
        for path, mode in document.apps[app].folders.items()
    ]
    private = (profile.config, profile.data, profile.state, profile.runtime)
    try:
        open_folders(grants, home=home, private=private, writable=writable)
    except FolderRefusedError as error:
        raise Unusable(f"{error} The policy was left as it is.") from error


def _folder(text: str) -> tuple[str, str]:
    path, _, mode = text.rpartition(":")
    if not path or mode not in {"read", "write"}:
        raise UsageError(
            f"A folder is granted as PATH:read or PATH:write; {shown(text)} is neither."
        )
    return path, mode


def _installed(profile: Profile, app: OwnApp) -> dict[str, object]:
    return {
        "app": app.name,
        "installed": "own",
        "package": app.package,
        "package_version": app.version,
        "source": app.source,
        "contents": contents(app.folder(profile.state)),
    }


def _asked(
    profile: Profile, name: str, found: Description | OwnApp, document: PolicyDocument
) -> dict[str, object]:
    settings = load_settings(profile.settings_file)
    given = {each.key: each.value for each in settings_given(settings, name)}
    part = document.apps.get(name)
    return {
        "title": found.manifest.title,
        "version": found.manifest.version,
        "asks": asdict(wishes_of(found.manifest, document)),
        "granted": None if part is None else asdict(granted(part)),
        "settings": [
            {**setting.model_dump(mode="json"), "value": given.get(setting.key, setting.default)}
            for setting in found.settings
        ],
    }


def _own(profile: Profile, app: AppId) -> OwnApp:
    found = own_apps(profile.state).get(app)
    if found is None:
        raise NotFound(
            f"No app {shown(app)} was installed with `tactful apps add`. `tactful apps list` shows "
            "which are."
        )
    return found


def _look(profile: Profile) -> Look:
    sandbox = load_settings(profile.settings_file).sandbox
    return Look(profile, Path.home(), choose_confinement(sandbox))


def _policy(profile: Profile) -> PolicyDocument:
    if not profile.policy_file.exists():
        raise NotFound(
            f"There is no policy {profile.policy_file}. Make a profile with `tactful init`."
        )
    return load_document(profile.policy_file)


def _absolute(source: str) -> str:
    """A path so that it is the same from every folder; a package's name as it is."""
    path = Path(source).expanduser()
    return str(path.absolute()) if "/" in source or path.exists() else source
