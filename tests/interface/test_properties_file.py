"""Java's properties files: comments, continued lines, separators and escapes as java.util.Properties has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.interface.config.properties_file import (
    PropertiesProblem,
    parse_properties_text,
    read_properties,
)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb : 2\nc 3\n  d = \t4\ne=\nf", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "", "f": ""}),
        ("# a=1\n  ! b=2\n\n \t\f\nc=#3", {"c": "#3"}),
        ("a==1\nb = = 2\n:c", {"a": "=1", "b": "= 2", "": "c"}),
        ("a=1\\\n   2\\\r\n3\\\r4", {"a": "1234"}),
        ("a=1\\\n# 2\n# 3", {"a": "1# 2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("\\\n# a\nb=1\\", {"b": "1"}),
        ("a\\:b\\=\\ c = \\t\\n\\q\\u00e9", {"a:b= c": "\t\nqé"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\x0b2\x852\u2028 3\xa0", {"a": "1\x0b2\x852\u2028 3\xa0"}),
        ("a=1 \t", {"a": "1 \t"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_text_is_read_by_javas_rules(text: str, properties: dict[str, str]) -> None:
    assert parse_properties_text(text) == properties


@pytest.mark.parametrize("value", ["\\u", "\\u12", "\\u12g4", "\\ud83d", "\\ude00\\ud83d"])
def test_an_escape_that_is_no_character_is_told_by_its_line_without_the_value(value: str) -> None:
    with pytest.raises(PropertiesProblem, match=r"^line 3: ") as caught:
        parse_properties_text(f"# x\na=1\npassword=hunter2\\\n{value}")
    assert "hunter2" not in str(caught.value)


@given(st.text(alphabet=" \t\f\r\n\\:=#!abu0\x0b\x85é😀"))
def test_no_text_ends_in_anything_but_properties_or_a_problem(text: str) -> None:
    try:
        parse_properties_text(text)
    except PropertiesProblem:
        return


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_a_file_may_be_in_either_encoding_that_java_programs_use(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("password=grün".encode(encoding))
    assert read_properties(path) == {"password": "grün"}


def test_what_is_wrong_with_a_file_is_told_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(PropertiesProblem, match=f"cannot read {path}: No such file"):
        read_properties(path)
    path.write_text("a=\\u1")
    with pytest.raises(PropertiesProblem, match=f"{path}: line 1: "):
        read_properties(path)
    with pytest.raises(PropertiesProblem, match="zero byte"):
        read_properties(Path("a\0b"))
