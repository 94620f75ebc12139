"""Apache Kafka's jars."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from barnabas.peers.kafka_broker import settings
from barnabas.peers.kafka_install import PeerUnavailable, install, installed_jars, need_jars, pom


def test_project_names_broker_and_tools_in_one_version() -> None:
    """Maven reads it, and finds the same version of Kafka everywhere."""
    root = ElementTree.fromstring(pom("3.9.9"))
    space = "{http://maven.apache.org/POM/4.0.0}"
    found = {
        one.findtext(f"{space}artifactId"): one.findtext(f"{space}version") for one in root.iter(f"{space}dependency")
    }
    assert found["kafka_2.13"] == found["kafka-tools"] == "3.9.9"


def test_missing_jars_name_the_command_that_fetches_them(tmp_path: Path) -> None:
    """The user is told what to run."""
    with pytest.raises(PeerUnavailable, match="bench install-kafka"):
        need_jars(tmp_path)


def test_installation_that_was_cut_short_counts_as_none(tmp_path: Path) -> None:
    """Some jars are not Kafka."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "zookeeper-3.8.4.jar").touch()
    assert installed_jars(tmp_path) == []


def test_without_maven_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerUnavailable, match="install the package maven"):
        install(tmp_path / "kafka")


def test_callers_properties_have_the_last_word(tmp_path: Path) -> None:
    """A test may set anything."""
    text = settings(tmp_path, "127.0.0.1", 9092, "127.0.0.1:2181", 3, {"broker.id": "7", "flush.messages": "1"})
    lines = text.splitlines()
    assert "broker.id=7" in lines
    assert "flush.messages=1" in lines
    assert "broker.id=3" not in lines
