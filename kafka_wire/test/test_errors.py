"""Codes and classes agree with each other and with kio's table."""

from kio.schema.errors import ErrorCode

from kafka_wire import errors


def test_every_code_of_the_protocol_has_its_class() -> None:
    """Code, retriable and name are those of the protocol."""
    for known in ErrorCode:
        if known.value == errors.NONE:
            continue
        kind = errors.for_code(known.value)
        assert kind.code == known.value
        assert kind.retriable == known.retriable
        assert kind.name == known.name.upper()
        assert getattr(errors, kind.name) == known.value


def test_code_from_the_future_is_an_unknown_server_error() -> None:
    """A newer peer's code still becomes an error that callers can handle."""
    assert errors.for_code(31_999) is errors.UnknownServerError


def test_error_without_a_message_says_its_name() -> None:
    """No error reaches a person without words."""
    assert errors.OffsetOutOfRange().message == "OFFSET_OUT_OF_RANGE"
    assert str(errors.OffsetOutOfRange("offset 7 is outside 0 to 5")) == "offset 7 is outside 0 to 5"
