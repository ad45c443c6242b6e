"""docs/SECURITY.md: configs are those that are printed, messages those of the code, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heliograph.interface.config.security_examples import SECURITY_EXAMPLES, SecuredBy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "SECURITY.md").read_text(encoding="utf-8")
# Values of the examples, in the place of which the code has some expression.
VALUES = re.compile(
    r"/etc/heliograph/[\w.-]+|SCRAM-SHA-512|\bPLAIN\b|'[\w-]+'|mirror@SF\.EXAMPLE\.COM|realm SF\.EXAMPLE\.COM"
    r"|kafka/[\w.-]+|No such file or directory|ssl\.keystore(?=\.password)"
)
MESSAGES = re.findall(
    r"`([^`]+)`", "\n".join(re.findall(r"^\| [^|]+ \| (`[^|]+`) \| [23] \| ", PAGE, flags=re.M))
)


def test_the_configs_are_those_that_are_printed() -> None:
    shown = re.findall(r"```yaml\n(.*?)```\n", PAGE, flags=re.S)
    assert shown == [SECURITY_EXAMPLES[each] for each in SecuredBy]


def test_every_name_of_an_example_is_there() -> None:
    (line,) = re.findall(r"config example --for (\w+) .*# or: (.*)", PAGE)
    assert {line[0], *line[1].split(", ")} == set(SecuredBy)


def _source() -> str:
    """All messages of the code about connections, texts that go over several lines made one."""
    files = [*(ROOT / "src/heliograph/cluster").rglob("*.py"), ROOT / "src/heliograph/wire/frame.py"]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(each.read_text(encoding="utf-8") for each in files))


def test_there_is_a_message_for_each_thing_that_can_be_wrong() -> None:
    assert len(MESSAGES) >= 17


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_code(message: str) -> None:
    fixed = VALUES.split(message.removesuffix(" ..."))
    assert re.search(r"\{[^{}]+\}".join(map(re.escape, fixed)), _source())


@pytest.mark.parametrize("page", ["SECURITY.md", "CONFIG.md", "KERBEROS.md"])
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        linked = (DOCS / (name or page)).read_text(encoding="utf-8")
        assert not anchor or anchor in map(_anchor, re.findall(r"^#+ (.*)$", linked, flags=re.M)), target


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
