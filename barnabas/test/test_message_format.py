"""Messages as kcat would print them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.message_format import DEFAULT, Message, bytes_field, compile_format, json_line, unescape
from kafka_wire.records import Record

MESSAGE = Message("logs", 2, 1, False, Record(7, 1234, b"key", b"hello", (("a", b"1"), ("a", None))))
EMPTY = Message("logs", 0, 1, True, Record(8, 5, None, None))


@pytest.mark.parametrize(
    ("text", "full", "empty"),
    [
        (DEFAULT, b"hello\n", b"\n"),
        ("%t[%p]@%o %T\\n", b"logs[2]@7 1234\n", b"logs[0]@8 5\n"),
        ("%k(%K)=%s(%S)", b"key(3)=hello(5)", b"(-1)=(-1)"),
        ("%h", b"a=1,a=NULL", b""),
        ("%R%s", b"\0\0\0\5hello", b"\xff\xff\xff\xff"),
        ("100%% \\t\\x41\\\\ \\0ü", b"100% \tA\\ \0\xc3\xbc", b"100% \tA\\ \0\xc3\xbc"),
    ],
)
def test_format_gives_what_kcat_gives(text: str, full: bytes, empty: bytes) -> None:
    """Every field, with content and null."""
    formatted = compile_format(text)
    assert (formatted(MESSAGE), formatted(EMPTY)) == (full, empty)


@pytest.mark.parametrize("text", ["%x", "%", "\\q", "end\\", "\\x4"])
def test_unknown_field_or_escape_is_named(text: str) -> None:
    """A typing error is refused before anything is read."""
    with pytest.raises(ValueError, match="means nothing"):
        compile_format(text)


@given(st.text())
def test_text_without_specials_is_itself(text: str) -> None:
    """Only backslashes and percent signs mean something."""
    plain = text.replace("\\", "").replace("%", "")
    assert compile_format(plain)(MESSAGE) == plain.encode("utf-8", "surrogateescape")
    assert unescape(text.replace("\\", "\\\\")) == text.encode()


def test_json_has_the_names_of_kcat() -> None:
    """One object on one line; headers as a flat list, since names may repeat."""
    line = json_line(MESSAGE)
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "logs",
        "partition": 2,
        "offset": 7,
        "tstype": "create",
        "ts": 1234,
        "broker": 1,
        "headers": ["a", "1", "a", None],
        "key": "key",
        "payload": "hello",
    }
    empty = json.loads(json_line(EMPTY))
    assert (empty["key"], empty["payload"], empty["tstype"]) == (None, None, "logappend")


def test_bytes_that_are_no_text_keep_their_value_in_json() -> None:
    """Base64 under another name, so that nobody takes it for the text."""
    assert bytes_field("payload", b"\xff\x00") == {"payload_base64": "/wA="}
    assert json.loads(json_line(MESSAGE._replace(record=MESSAGE.record._replace(key=b"\xff"))))["key_base64"] == "/w=="


@given(st.binary(), st.text())
def test_any_message_gives_one_line_of_json(value: bytes, name: str) -> None:
    """Whatever the bytes are, a program can read the line."""
    header = name.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    record = Record(0, -1, value, value, ((header, value),))
    found = json.loads(json_line(Message("t", 0, 0, False, record)))
    assert found["tstype"] == "unknown"
