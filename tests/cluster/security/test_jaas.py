"""sasl.jaas.config: Java's quoting is read as Java reads it, and no error quotes what may be a password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.security.jaas import JaasProblem, LoginModule, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
words = st.from_regex(r"[A-Za-z_$][A-Za-z0-9._$-]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('"hunter2"', "hunter2"),
        ("'hunter2'", "hunter2"),
        ("hunter2", "hunter2"),
        ("a-b_c.d$e", "a-b_c.d$e"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("'a\"b'", 'a"b'),
        ('"a\'b"', "a'b"),
        (r'"\t\n\101\7x\477"', "\t\nA\ax'7"),
        ('"a;b=c // d"', "a;b=c // d"),
        ('"ä€😀"', "ä€😀"),
    ],
)
def test_a_value_is_a_word_or_quoted_with_javas_escapes(written: str, password: str) -> None:
    module = parse_jaas(f"{PLAIN} required username=alice password={written};")
    assert module.options == {"username": "alice", "password": password}


def test_comments_and_lines_are_passed_over() -> None:
    text = f"""// whose it is
        {PLAIN} /* a
        comment; */ REQUIRED
        username="alice" / so is this
        password="x" ;"""
    assert parse_jaas(text) == LoginModule(
        name=PLAIN, flag="required", options={"username": "alice", "password": "x"}
    )


@given(words, st.dictionaries(st.text(min_size=1), st.text()))
def test_a_module_is_read_as_it_is_written(name: str, options: dict[str, str]) -> None:
    module = LoginModule(name=name, flag="required", options=options)
    assert parse_jaas(module.revealed()) == module


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  // nothing", "is empty"),
        ("= required;", "does not begin with the name"),
        (f"{PLAIN};", "has none of required"),
        (f"{PLAIN} needed hunter2=x;", "has none of required"),
        (f"{PLAIN} required password=hunter2", "does not end with ;"),
        (f'{PLAIN} required password="hunter2;', "quote that is not closed"),
        (f"{PLAIN} required password=;", "option 1"),
        (f"{PLAIN} required username=a password=2hunter;", "option 2"),
        (f'{PLAIN} required username=a password="hun"ter2";', "option 3"),
        (f"{PLAIN} required password=hunter2!;", "option 2"),
        (f"{PLAIN} required a=b; {PLAIN} required;", "exactly one login module"),
    ],
)
def test_what_is_no_login_module_is_told_without_a_word_of_it(text: str, words: str) -> None:
    with pytest.raises(JaasProblem, match=words) as caught:
        parse_jaas(text)
    assert "hunter" not in str(caught.value)
    assert "ter2" not in str(caught.value)


@given(st.text(alphabet="ab \"'\\/*;=-1.\n\r\0é"))
def test_no_text_ends_in_anything_but_a_module_or_a_problem(text: str) -> None:
    try:
        parse_jaas(text)
    except JaasProblem:
        return


def test_no_option_is_in_a_repr() -> None:
    assert "hunter2" not in repr(parse_jaas(f"{PLAIN} required password=hunter2;"))
