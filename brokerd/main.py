"""`brokerd`: reads the settings, runs one broker, ends with 0 (stopped), 1 (it failed) or 2 (the call was wrong)."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import click

LEVELS = ("debug", "info", "warn", "error", "critical")


def _version() -> str:
    try:
        return version("barnabas")
    except PackageNotFoundError:
        return "unknown"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_file", metavar="FILE", help="Settings, in the format of Kafka's server.properties.")
@click.option("--override", "overrides", metavar="NAME=VALUE", multiple=True, help="One setting; wins over the file's.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    envvar="BARNABAS_LOG_LEVEL",
    help="How much to say on stderr (also from BARNABAS_LOG_LEVEL).",
)
@click.version_option(_version(), prog_name="brokerd")
def main(config_file: str | None, overrides: tuple[str, ...], log_level: str) -> None:
    """Run one broker until it gets SIGTERM or Ctrl-C. It logs one line with `ready` when clients can connect."""
    from brokerd import config as settings

    try:
        text = "" if config_file is None else _read(config_file)
        config, notices = settings.load(settings.read_text(text), settings.parse_overrides(overrides))
    except (settings.ConfigError, OSError) as problem:
        where = f"{config_file}: " if config_file is not None and isinstance(problem, settings.ConfigError) else ""
        click.echo(f"brokerd: {where}{problem}", err=True)
        sys.exit(2)
    sys.exit(_run(config, notices, log_level.lower()))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise OSError(f"{path} is not a text file") from None
    except OSError as problem:
        raise OSError(f"{path}: {problem.strerror}") from None


def _run(config: object, notices: list[str], log_level: str) -> int:
    """Runs the broker; imports happen here, so that --help and a wrong setting are answered at once."""
    from twisted.logger import Logger

    from brokerd import logging
    from brokerd.config import BrokerConfig
    from brokerd.reactor import install

    assert isinstance(config, BrokerConfig)
    reactor = install()
    logging.begin(log_level)
    log = Logger("brokerd")
    log.info("brokerd {version} starts", version=_version())
    for notice in notices:
        log.info("{notice}", notice=notice)

    from brokerd.app import Daemon, StartFailed
    from brokerd.broker_id import with_broker_id
    from brokerd.config import ConfigError
    from zk_schema.operations import CoordinationError

    try:
        daemon = Daemon(reactor, with_broker_id(config))
        daemon.prepare()
    except (StartFailed, ConfigError, CoordinationError) as problem:
        log.critical("{problem}", problem=problem)
        return 1
    reactor.callWhenRunning(daemon.start)
    reactor.run()
    return daemon.exit_code


if __name__ == "__main__":
    main()
