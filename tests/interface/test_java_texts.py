"""Texts and properties that Java reads, read here by the same rules: compared with Java's and Kafka's own classes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from heliograph.cluster.security.jaas import JaasProblem, parse_jaas
from heliograph.cluster.security.security_properties import (
    SECURITY_DEFAULTS,
    SECURITY_NAMES,
    is_about_security,
    security_problems,
)
from heliograph.interface.config.properties_file import PropertiesProblem, parse_properties_text
from tests.support.java_producer import java

pytestmark = pytest.mark.kafka
once_started = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java() as jvm:
        yield jvm


def javas_properties(jvm: Any, text: str) -> dict[str, str] | None:
    """None if Java refuses the text."""
    properties = jvm.java.util.Properties()
    try:
        properties.load(jvm.java.io.StringReader(text))
    except Py4JJavaError:
        return None
    return {str(key): str(properties.getProperty(key)) for key in properties.stringPropertyNames().toArray()}


def our_properties(text: str) -> dict[str, str] | None:
    try:
        return parse_properties_text(text)
    except PropertiesProblem:
        return None


# No `d` among the hexadecimal digits: no half of a character, which Java takes and we do not.
pieces = st.sampled_from(
    [*" \t\f\r\n\\:=#!abu04\x0b\x85\u2028é😀", "\\\n", "\\\r\n", "\\u0041", "\\\\", "a=b"]
)


@given(st.lists(pieces, max_size=20).map("".join))
@example("\\\n#a\n b=1\\\n\n c")
@once_started
def test_properties_are_javas(jvm: Any, text: str) -> None:
    # Of a last line that is a lone backslash Java makes an empty entry, or none, by how the file ends.
    assume(re.split("[\r\n]", text.rstrip("\r\n"))[-1].strip(" \t\f") != "\\")
    assert our_properties(text) == javas_properties(jvm, text)


def kafkas_login_module(jvm: Any, text: str) -> tuple[str, dict[Any, str]] | None:
    """None if Kafka refuses the text."""
    configs = jvm.java.util.HashMap()
    configs.put("sasl.jaas.config", jvm.org.apache.kafka.common.config.types.Password(text))
    try:
        context = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(configs)
    except Py4JJavaError:
        return None
    (entry,) = context.configurationEntries()
    return entry.getLoginModuleName(), dict(entry.getOptions())


def our_login_module(text: str) -> tuple[str, dict[Any, str]] | None:
    try:
        module = parse_jaas(text)
    except JaasProblem:
        return None
    return module.name, dict(module.options)


fragments = st.sampled_from(
    [
        *" \t\n\r\"'\\/*;=-.1a_$!é€\x90\xa0\x7f",
        'a="',
        "b='",
        "c=d ",
        'e="f" ',
        "//",
        "/*",
        "*/",
        "\\101",
        "\\477",
        "\\t",
    ]
)


@given(st.lists(fragments, max_size=12).map("".join), st.sampled_from(["M required ", ""]))
@example('a="\\u0041\\\n"', "M required ")
@example("/\n a=b\n c=d", "M required ")
@once_started
def test_login_modules_are_kafkas(jvm: Any, text: str, begin: str) -> None:
    theirs, ours = kafkas_login_module(jvm, f"{begin}{text};"), our_login_module(f"{begin}{text};")
    if theirs is not None and None in theirs[1]:
        assert ours is None  # an option without a name means nothing to either
    else:
        assert ours == theirs


def kafkas_default(value: Any) -> str:
    """As it would be written in a file."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case Sequence():
            return ",".join(value)
    return str(value.getName())  # of a class


def test_every_security_property_of_kafkas_clients_is_known_by_its_default(jvm: Any) -> None:
    defaults = jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configDef().defaultValues()
    theirs = {name: kafkas_default(defaults[name]) for name in defaults if is_about_security(name)}
    assert {name: theirs[name] for name in SECURITY_NAMES} == SECURITY_DEFAULTS
    assert security_problems(theirs) == []
    unknown = [each for each in security_problems(dict.fromkeys(theirs, "x")) if "unknown property" in each]
    assert unknown == []
