"""The command line of the daemon, as far as it goes without a ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerd.broker_id import with_broker_id
from brokerd.config import ConfigError, load
from brokerd.main import main


def test_help_and_version_are_answered() -> None:
    """Without reading any setting."""
    runner = CliRunner()

    assert "--override" in runner.invoke(main, ["--help"]).output
    assert runner.invoke(main, ["--version"]).output.startswith("brokerd, version ")


def test_wrong_setting_is_one_line_and_exit_2(tmp_path: Path) -> None:
    """The line names the file, the setting and the nearest right one."""
    file = tmp_path / "server.properties"
    file.write_text("broker.idd=1\n")

    done = CliRunner().invoke(main, ["--config", str(file)])

    assert done.exit_code == 2
    assert f"brokerd: {file}: broker.idd" in done.output
    assert "did you mean broker.id?" in done.output


def test_wrong_level_is_refused() -> None:
    """With the list of right ones."""
    done = CliRunner().invoke(main, ["--log-level", "loud"])

    assert done.exit_code == 2
    assert "debug" in done.output


def test_broker_without_an_id_takes_the_stored_one(tmp_path: Path) -> None:
    """meta.properties of any log directory."""
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\n")
    config, _ = load({"log.dirs": f"{tmp_path / 'new'},{tmp_path}"})

    assert with_broker_id(config).broker_id == 7


def test_broker_without_any_id_is_refused(tmp_path: Path) -> None:
    """The line says what to give."""
    config, _ = load({"log.dirs": str(tmp_path), "broker.id.generation.enable": "false"})

    with pytest.raises(ConfigError, match=r"broker\.id"):
        with_broker_id(config)


def test_given_id_above_the_reserved_ones_is_refused() -> None:
    """It might be generated for somebody else."""
    with pytest.raises(ConfigError, match=r"reserved\.broker\.max\.id"):
        load({"broker.id": "1001"})

    assert load({"broker.id": "1001", "broker.id.generation.enable": "false"})[0].broker_id == 1001
    assert load({"broker.id": "1001", "reserved.broker.max.id": "2000"})[0].broker_id == 1001
