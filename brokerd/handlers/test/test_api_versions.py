"""ApiVersions is computed from the registry."""

from __future__ import annotations

import types

import pytest

from brokerd import handlers
from brokerd.handlers import api_versions
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.api_versions import ApiVersionsRequest


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two APIs, one of which shows a lower version than it serves."""
    produce = types.SimpleNamespace(VERSIONS=(3, 9), ADVERTISED_MIN=0)
    monkeypatch.setattr(handlers, "REGISTRY", {18: api_versions, 0: produce}, raising=False)


def test_served_versions_are_listed_in_order() -> None:
    """Produce is shown from version 0 (KAFKA-18659)."""
    answer = api_versions.handle(FakeBroker(), request(ApiVersionsRequest()))

    assert answer.error_code == 0
    assert [tuple(one) for one in answer.api_keys] == [(0, 0, 9), (18, 0, 4)]


@pytest.mark.parametrize("word", ["-a", "a b", "a\n", "é"])
def test_bad_software_name_is_an_invalid_request(word: str) -> None:
    """KIP-511: names and versions become parts of metric names."""
    by_name = ApiVersionsRequest(client_software_name=word, client_software_version="1.0")
    by_version = ApiVersionsRequest(client_software_name="client", client_software_version=word)

    for body in (by_name, by_version):
        assert api_versions.handle(FakeBroker(), request(body)).error_code == errors.INVALID_REQUEST


def test_good_software_name_is_accepted() -> None:
    """As the clients of the day call themselves."""
    body = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.0.0-rc.1")

    assert api_versions.handle(FakeBroker(), request(body)).error_code == 0


def test_unsupported_version_is_answered_with_the_list() -> None:
    """Error 35 together with the versions of ApiVersions itself, so that the client can try again."""
    answer = api_versions.unsupported(FakeBroker())

    assert answer.error_code == errors.UNSUPPORTED_VERSION
    assert Api.API_VERSIONS in {one.api_key for one in answer.api_keys}
