"""heliograph.yaml: good files become settings, bad ones tell every problem at once."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.properties import SOURCE_ONLY, TARGET_ONLY
from heliograph.interface.config import yaml_text
from heliograph.interface.config.example import EXAMPLE
from heliograph.interface.config.location import find_config
from heliograph.interface.config.schema import TopicSection
from heliograph.interface.config_file import load_settings, read_settings, topic_policy
from heliograph.model.config_rules import DEFAULT_RULES, ConfigRules
from heliograph.model.errors import ConfigError, UsageError
from heliograph.model.link import Link
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, Oversize
from heliograph.model.settings import MIB, Settings

CLUSTERS = """
clusters:
  sf:  {bootstrap.servers: "127.0.0.1:19092"}
  nyc: {bootstrap.servers: "127.0.0.1:29092"}
"""
LINK = """
links:
  sf-to-nyc:
    source: sf
    target: nyc
    topics: [orders]
"""


def load(text: str, **environment: str) -> Settings:
    return load_settings(text, name="heliograph.yaml", environment=environment)


def problems_of(text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, **environment)
    return list(caught.value.problems)


def test_the_smallest_file_gets_the_defaults() -> None:
    settings = load(CLUSTERS + LINK)
    assert settings.links == (Link(name="sf-to-nyc", source="sf", target="nyc", topics=("orders",)),)
    assert settings.clusters["sf"] == {"bootstrap.servers": "127.0.0.1:19092"}
    assert settings.lanes is None
    assert settings.lane_memory_bytes == 64 * MIB
    assert settings.spark.master == "local[*]"


def test_the_example_is_valid_as_it_is_and_with_every_key_uncommented() -> None:
    load(EXAMPLE)
    settings = load(re.sub(r"(?m)^( *)# (?=[a-z_.]+: )", r"\1", EXAMPLE))
    assert settings.spark.python == "/usr/bin/python3"
    assert settings.links[0].producer == {"max.request.size": "1048576"}


def test_all_problems_are_told_at_once_with_place_and_value() -> None:
    problems = problems_of(
        """
clusters:
  sf:  {bootstrap.servers: "127.0.0.1", acks: all}
  nyc: {bootstrap.servers: "127.0.0.1:29092"}
links:
  sf-to-nyc:
    source: sf
    target: nycc
    topics: [orders, "["]
    topic: x
lanes: 0
lane_memory: 1MB
sparc: {}
"""
    )
    assert set(problems) == {
        "clusters.sf.bootstrap.servers: '127.0.0.1' is not host:port",
        "clusters.sf.acks: not honoured: always all: a batch counts only when every in-sync replica has it",
        "links.sf-to-nyc.target: unknown cluster 'nycc'; did you mean nyc?",
        "links.sf-to-nyc.topics[1]: bad regular expression '[': unterminated character set at position 0",
        "links.sf-to-nyc.topic: unknown key; did you mean topics?",
        "lanes: '0' is neither auto nor a number from 1 to 999999",
        "lane_memory: '1MB' is not between 8MB and 4GB",
        "sparc: unknown key; did you mean spark?",
    }


def bomb(levels: int, aliases: int = 9) -> str:
    """`levels` lists, each of which holds the one before so many times."""
    lists = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * aliases)}]" for n in range(1, levels + 1)]
    return "\n".join(["l0: &l0 [x]", *lists])


@pytest.mark.parametrize("levels", [6, 9, 90])
def test_aliases_that_expand_to_more_than_anybody_writes_are_refused_before_they_are_expanded(
    levels: int,
) -> None:
    with pytest.raises(ConfigError, match=r"heliograph\.yaml:1:1: its aliases expand") as caught:
        load(bomb(levels))
    assert "*name" in caught.value.hint


def test_aliases_of_the_usual_kind_are_accepted() -> None:
    hosts = 'clusters: {sf: &sf {bootstrap.servers: "127.0.0.1:19092"}, nyc: *sf}'
    assert load(hosts + LINK).clusters["nyc"] == {"bootstrap.servers": "127.0.0.1:19092"}


def test_a_long_file_without_aliases_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "EXPANDED_LIMIT", 10)
    load(CLUSTERS + LINK.replace("orders", ", ".join(f"orders-{n}" for n in range(100))))


def test_a_value_that_holds_itself_is_refused() -> None:
    assert "recursive" in problems_of("clusters: &all [*all]")[0]


@pytest.mark.parametrize("lanes", ["1000000", "9" * 5_000, "-1", "1.5", "\u0661"])
def test_lanes_are_bounded_and_the_bounds_are_told(lanes: str) -> None:
    (problem,) = problems_of(CLUSTERS + LINK + f"lanes: '{lanes}'")
    assert problem == f"lanes: {lanes!r} is neither auto nor a number from 1 to 999999"
    assert load(CLUSTERS + LINK + "lanes: 999999").lanes == 999_999


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offsets", "translated"),
        ("forward", "local"),
        ("groups", "[a]"),
    ],
)
def test_what_is_not_built_is_refused_and_says_so(key: str, value: str) -> None:
    (problem,) = problems_of(
        CLUSTERS + f"\nlinks: {{l: {{source: sf, target: nyc, topics: a, {key}: {value}}}}}"
    )
    assert problem.startswith(f"links.l.{key}: ")
    assert "not built yet" in problem


def test_a_link_says_which_configs_its_target_topics_get() -> None:
    (link,) = load(
        link_with(
            "a",
            ", topic_configs: {sync: 'false', include: 'retention[.].*, segment.ms', exclude: [retention.bytes],"
            " set: {retention.ms: 1000}}",
        )
    ).links
    assert link.topic_configs == ConfigRules(
        sync=False,
        include=("retention[.].*", "segment.ms"),
        exclude=("retention.bytes",),
        values={"retention.ms": "1000"},
    )
    for keys in ("", ", topic_configs: {}"):
        assert load(link_with("a", keys)).links[0].topic_configs == DEFAULT_RULES


def test_all_problems_of_topic_configs_are_told_at_once() -> None:
    keys = ", topic_configs: {snyc: true, include: '(', exclude: [{a: b}], set: {compression.type: gzip}}"
    assert problems_of(link_with("a", keys)) == [
        "links.l.topic_configs.include[0]: bad regular expression '(': missing ), unterminated subpattern at"
        " position 0",
        "links.l.topic_configs.exclude[0]: expected text, not a mapping",
        "links.l.topic_configs.set: compression.type: the mirror sets it itself: every record keeps its offset and its"
        " time by it",
        "links.l.topic_configs.snyc: unknown key; did you mean sync?",
    ]
    assert problems_of(link_with("a", ", topic_configs: true")) == [
        "links.l.topic_configs: expected a mapping, not 'true'"
    ]
    assert problems_of(link_with("a", ", topic_configs: {set: {max.message.bytes: 1MB}}")) == [
        "links.l.topic_configs.set: max.message.bytes: '1MB' is not a number"
    ]


@pytest.mark.parametrize(("written", "factor"), [("source", None), ("3", 3), ("'1'", 1), ("32767", 32767)])
def test_a_link_says_how_many_replicas_its_target_topics_get(written: str, factor: int | None) -> None:
    (link,) = load(link_with("a", f", replication_factor: {written}")).links
    assert link.replication_factor == factor
    assert load(link_with("a")).links[0].replication_factor is None


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "32768", "target", "[3]"])
def test_what_is_no_replication_factor_is_told(written: str) -> None:
    (problem,) = problems_of(link_with("a", f", replication_factor: {written}"))
    assert problem.startswith("links.l.replication_factor: ")
    assert problem.endswith("is neither source nor a number from 1 to 32767")


@pytest.mark.parametrize(("written", "creates"), [("true", True), ("false", False), ("'False'", False)])
def test_a_link_says_whether_it_creates_topics(written: str, creates: bool) -> None:
    (link,) = load(link_with("a", f", create_topics: {written}")).links
    assert link.create_topics is creates


def test_only_true_and_false_say_whether_topics_are_created_and_only_for_a_link() -> None:
    assert load(link_with("a")).links[0].create_topics is True
    assert problems_of(link_with("[{match: a, create_topics: false}]", ", create_topics: no")) == [
        "links.l.topics[0].create_topics: is a key of the link as a whole, not of an entry of topics",
        "links.l.create_topics: 'no' is neither true nor false",
    ]


def test_values_that_are_in_force_anyway_are_accepted() -> None:
    in_force = "offsets: identical, start: earliest, isolation: read_committed, on_loss: stop, oversize: stop"
    rest = "timestamps: stop, forward: auto, groups: []"
    load(CLUSTERS + f"\nlinks: {{l: {{source: sf, target: nyc, topics: a, {in_force}, {rest}}}}}")


def link_with(topics: str, keys: str = "") -> str:
    return CLUSTERS + f"\nlinks: {{l: {{source: sf, target: nyc, topics: {topics}{keys}}}}}"


@pytest.mark.parametrize(
    ("key", "value"), [("oversize", "skip"), ("timestamps", "clamp"), ("on_source_delete", "delete")]
)
def test_a_link_and_a_topic_may_say_what_becomes_of_records_that_the_target_refuses_and_of_gone_topics(
    key: str, value: str
) -> None:
    (link,) = load(
        link_with(f"[a, {{match: b, {key}: {getattr(DEFAULT_POLICY, key)}}}]", f", {key}: {value}")
    ).links
    assert getattr(link.policy_of("a"), key) == value
    assert getattr(link.policy_of("b"), key) == getattr(DEFAULT_POLICY, key)


def test_all_problems_of_the_entries_of_topics_are_told_at_once() -> None:
    entries = "{match: '[', oversize: split}, {on_loss: ignore}, {match: a, offsets: identical}, {match: b, strat: x}"
    assert problems_of(link_with(f"[c, {entries}, '(', [d]]")) == [
        "links.l.topics[1].match: bad regular expression '[': unterminated character set at position 0",
        "links.l.topics[1].oversize: Input should be 'stop' or 'skip', not 'split'",
        "links.l.topics[2].match: required",
        "links.l.topics[2].on_loss: Input should be 'stop' or 'continue', not 'ignore'",
        "links.l.topics[3].offsets: is a key of the link as a whole, not of an entry of topics",
        "links.l.topics[4].strat: unknown key; did you mean start?",
        "links.l.topics[5]: bad regular expression '(': missing ), unterminated subpattern at position 0",
        "links.l.topics[6]: expected text, not a list",
    ]


def test_an_entry_of_topics_may_be_a_mapping_of_what_is_in_force_anyway() -> None:
    in_force = "start: earliest, isolation: read_committed, on_loss: stop, oversize: stop, timestamps: stop"
    (link,) = load(link_with(f"[a, {{match: 'b.*'}}, {{match: c, {in_force}}}]")).links
    assert link.topics == ("a", "b.*", "c")
    assert link.policy == link.policy_of("b.c") == DEFAULT_POLICY


@pytest.mark.parametrize("on_loss", OnLoss)
def test_a_link_and_a_topic_say_what_to_do_about_losses(on_loss: OnLoss) -> None:
    other = OnLoss.STOP if on_loss is OnLoss.CONTINUE else OnLoss.CONTINUE
    (link,) = load(link_with(f"[a, {{match: b, on_loss: {other}}}]", f", on_loss: {on_loss}")).links
    assert (link.policy_of("a").on_loss, link.policy_of("b").on_loss) == (on_loss, other)


@pytest.mark.parametrize("start", ["earliest", "latest", "-7d", "2026-01-31", "2026-01-31T12:00:00Z"])
def test_a_link_and_a_topic_say_where_a_new_mirror_begins(start: str) -> None:
    (link,) = load(link_with(f"[a, {{match: b, start: {start}}}]", ", start: -1h")).links
    assert (link.policy_of("a").start, link.policy_of("b").start) == ("-1h", start)
    (link,) = load(link_with("[a, {match: b, on_loss: continue}]", f", start: '{start}'")).links
    assert {link.policy_of("a").start, link.policy_of("b").start} == {start}


@pytest.mark.parametrize("start", ["7d", "-7y", "now", "2026-13-01", "31.01.2026", "-1000000d"])
def test_what_is_no_start_is_told_with_its_path_and_value(start: str) -> None:
    words = "expected earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as -7d"
    assert problems_of(link_with(f"[{{match: b, start: {start}}}]", f", start: {start}")) == [
        f"links.l.topics[0].start: {words}, not {start!r}",
        f"links.l.start: {words}, not {start!r}",
    ]
    assert problems_of(link_with("a", ", start: [x]")) == ["links.l.start: expected text, not a list"]


def test_an_entry_of_exclude_is_a_pattern_and_nothing_else() -> None:
    assert problems_of(link_with("a", ", exclude: [{match: b}]")) == [
        "links.l.exclude[0]: expected text, not a mapping"
    ]


def test_what_an_entry_does_not_say_is_as_the_link_says() -> None:
    of_link = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)
    entry = TopicSection.model_construct(match="a", start=None, oversize="skip")
    assert topic_policy(entry, of_link).policy == replace(of_link, oversize=Oversize.SKIP)
    assert topic_policy("a", of_link).policy == of_link


@pytest.mark.parametrize("key", ["listen"])
def test_a_reserved_key_is_not_built_yet(key: str) -> None:
    assert problems_of(CLUSTERS + LINK + f"{key}: 5s") == [f"{key}: not built yet"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5.0), ("2m", 120.0), ("1h", 3600.0), ("1 s", 1.0)]
)
def test_an_interval_has_a_unit(text: str, seconds: float) -> None:
    assert load(CLUSTERS + LINK + f"discovery_interval: {text}").discovery_interval_s == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("5", "is not a time like 5s, 500ms or 2m"),
        ("fast", "is not a time like 5s, 500ms or 2m"),
        ("1ms", "is not between 500ms and 1h"),
        ("2h", "is not between 500ms and 1h"),
    ],
)
def test_what_is_no_interval_is_refused(text: str, problem: str) -> None:
    assert problems_of(CLUSTERS + LINK + f"discovery_interval: {text}") == [
        f"discovery_interval: '{text}' {problem}"
    ]


def test_topics_may_be_one_string_with_commas() -> None:
    settings = load(CLUSTERS + '\nlinks: {l: {source: sf, target: nyc, topics: "a, b{1,2}"}}')
    assert settings.links[0].topics == ("a", "b{1,2}")


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("topics: []", "topics: must not be empty"),
        ("exclude: []", "topics: required"),
        ("topics: a, naming: pre", "naming: 'pre' is neither"),
        ("topics: a, separator: _", "separator: has no effect"),
        ("topics: a, isolation: dirty", "isolation: Input should be 'read_committed' or 'read_uncommitted'"),
        ("topics: a, consumer: [x]", "consumer: expected a mapping, not a list"),
        ("topics: a, consumer: {group.id: g}", "consumer.group.id: not honoured"),
        ("topics: a, consumer: {max.request.size: 9}", "consumer.max.request.size: has no effect here"),
        ("topics: a, producer: {fetch.min.bytes: 9}", "producer.fetch.min.bytes: has no effect here"),
        (
            "topics: a, producer: {bootstrap.servers: 'a:1'}",
            "producer.bootstrap.servers: belongs to the cluster",
        ),
        (
            "topics: a, consumer: {security.protocol: SSL}",
            "consumer.security.protocol: belongs to the cluster",
        ),
        (
            "topics: a, consumer: {ssl.protocol: TLSv1.2}",
            "consumer.ssl.protocol: has no effect with security",
        ),
        ("topics: a, consumer: {fetch.max.wait.ms: 30001}", "consumer.fetch.max.wait.ms: 30001 is above"),
        ("topics: a, producer: {request.timeout.ms: 1}", "producer.request.timeout.ms: 1 is below 1000"),
    ],
)
def test_a_bad_link_has_exactly_its_problem(keys: str, problem: str) -> None:
    (found,) = problems_of(CLUSTERS + f"\nlinks: {{l: {{source: sf, target: nyc, {keys}}}}}")
    assert found.startswith(f"links.l.{problem}")


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=b;"
GUARDED = """
clusters:
  sf:  {bootstrap.servers: "a:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN}
  nyc: {bootstrap.servers: "b:1"}
"""


def test_a_user_that_neither_a_cluster_nor_its_link_names_is_told_once() -> None:
    both = "links: {l: {source: sf, target: nyc, topics: a}, m: {source: sf, target: nyc, topics: b}}"
    (problem,) = problems_of(GUARDED + both)
    assert problem.startswith("clusters.sf.sasl.jaas.config: required for sasl.mechanism=PLAIN")


def test_a_link_may_have_a_user_of_its_own() -> None:
    consumer = f'consumer: {{sasl.jaas.config: "{PLAIN}"}}'
    settings = load(GUARDED + f"links: {{l: {{source: sf, target: nyc, topics: a, {consumer}}}}}")
    assert settings.source_properties(settings.links[0])["sasl.jaas.config"] == PLAIN


SIDES = """
clusters:
  sf:  {{bootstrap.servers: "a:1", {0}}}
  nyc: {{bootstrap.servers: "b:1", {0}}}
"""


@pytest.mark.parametrize(
    ("name", "misplaced", "role", "other"),
    [
        *((name, "nyc", "target", "source") for name in sorted(SOURCE_ONLY)),
        *((name, "sf", "source", "target") for name in sorted(TARGET_ONLY)),
    ],
)
def test_a_property_of_the_other_side_has_no_effect_and_is_refused(
    name: str, misplaced: str, role: str, other: str
) -> None:
    value = "0.9.0.1" if name == "broker.version.fallback" else "1"
    assert problems_of(SIDES.format(f"{name}: {value}") + LINK) == [
        f"clusters.{misplaced}.{name}: has no effect: {misplaced} is only the {role} of links;"
        f" set it on the cluster that is the {other}"
    ]


def test_a_cluster_that_is_both_source_and_target_may_have_the_properties_of_both() -> None:
    there, back = "there: {source: sf, target: nyc, topics: a}", "back: {source: nyc, target: sf, topics: b}"
    both = "fetch.max.bytes: 1000, max.request.size: 1000"
    load(SIDES.format(both) + f"links: {{{there}, {back}}}")


def test_sparks_master_has_one_place() -> None:
    conf = "spark: {master: 'local[2]', conf: {spark.master: 'local[8]'}}"
    assert problems_of(CLUSTERS + LINK + conf) == ["spark.conf.spark.master: set master under spark instead"]


def test_a_link_joins_two_clusters() -> None:
    (found,) = problems_of(CLUSTERS + "\nlinks: {l: {source: sf, target: sf, topics: a}}")
    assert found == "links.l.target: 'sf' is the source too; a link joins two clusters"


def test_names_that_yaml_takes_for_booleans_are_names() -> None:
    settings = load(
        "clusters: {no: {bootstrap.servers: 'a:1'}, on: {bootstrap.servers: 'b:1', client.id: yes}}\n"
        "links: {l: {source: no, target: on, topics: 1}}"
    )
    assert (settings.links[0].source, settings.links[0].topics) == ("no", ("1",))
    assert settings.clusters["on"]["client.id"] == "yes"


def test_references_are_replaced(tmp_path: Path) -> None:
    secrets = tmp_path / "sf.properties"
    secrets.write_text("# a comment\nservers = a:1,\\\n   b:2\n")
    text = (
        f"clusters: {{sf: {{bootstrap.servers: '${{file:{secrets}:servers}}', client.id: '${{WHO}}-$${{x}}'}}"
    )
    settings = load(text + ", nyc: {bootstrap.servers: 'c:${PORT}'}}" + LINK, WHO="me", PORT="3")
    assert settings.clusters["sf"] == {"bootstrap.servers": "a:1,b:2", "client.id": "me-${x}"}
    assert settings.clusters["nyc"] == {"bootstrap.servers": "c:3"}


def test_a_reference_that_leads_nowhere_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    clusters = f"""
clusters:
  sf:  {{bootstrap.servers: "${{MISSING}}"}}
  nyc: {{bootstrap.servers: "${{file:{tmp_path}/empty:key}}"}}
  ldn: {{bootstrap.servers: "${{file:{tmp_path}/none:key}}"}}
  par: {{bootstrap.servers: "${{file:key}}"}}
"""
    assert problems_of(clusters + LINK) == [
        "clusters.sf.bootstrap.servers: environment variable 'MISSING' is not set",
        f"clusters.nyc.bootstrap.servers: {tmp_path}/empty has no key 'key'",
        f"clusters.ldn.bootstrap.servers: cannot read {tmp_path}/none: No such file or directory",
        "clusters.par.bootstrap.servers: ${file:key} is not of the form ${file:/path:key}",
    ]


def test_a_secret_is_never_shown() -> None:
    text = CLUSTERS + LINK + "spark: {conf: {spark.ssl.keyPassword: [hunter2], spark.x: [seen]}}"
    problems = problems_of(text)
    assert "hunter2" not in "\n".join(problems)


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("clusters:\n\tsf: {}", "heliograph.yaml:2:1", "spaces, not tabs"),
        ("a: b: c", "heliograph.yaml:1:5", "indentation"),
        ("clusters: {}\nclusters: {}", "heliograph.yaml:2:1: key 'clusters' is there twice", "keep one"),
        ("naming: {source}.{topic}", "heliograph.yaml:1:17", "quote"),
    ],
)
def test_broken_yaml_is_told_by_line_and_column_with_a_hint(text: str, place: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.problems[0].startswith(place)
    assert hint in caught.value.hint


KEYS = [
    "clusters",
    "links",
    "sf",
    "source",
    "target",
    "topics",
    "naming",
    "consumer",
    "spark",
    "conf",
    "lanes",
    "x",
]
TREES = st.recursive(
    st.sampled_from(["", "sf", "[", "1", "${X}", "auto", "{topic}", "-1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), TREES))
def test_no_file_ends_in_anything_but_settings_or_problems(tree: dict[str, Any]) -> None:
    with suppress(ConfigError):
        load(yaml.safe_dump(tree))


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: 1\n---\nb: 2", "? [a]\n: b", "a: *b", "a: \x07"])
def test_yaml_that_means_nothing_is_a_problem_not_a_crash(text: str) -> None:
    assert problems_of(text)


@pytest.mark.parametrize("text", ["", "text", "[a]"])
def test_a_file_that_is_no_mapping_is_told(text: str) -> None:
    assert "expected a mapping" in problems_of(text)[0]


def test_a_file_that_is_not_text_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "heliograph.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8") as caught:
        read_settings(path)
    assert f"iconv -f ISO-8859-1 -t UTF-8 {path}" in caught.value.hint


def test_the_config_is_looked_for_in_the_promised_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("named.yaml", "variable.yaml", "heliograph.yaml"):
        (tmp_path / name).touch()
    variable = {"HELIOGRAPH_CONFIG": "variable.yaml"}
    assert find_config(Path("named.yaml"), environment=variable) == Path("named.yaml")
    assert find_config(None, Path("named.yaml"), environment=variable) == Path("named.yaml")
    assert find_config(environment=variable) == Path("variable.yaml")
    assert find_config(environment={}) == Path("heliograph.yaml")
    with pytest.raises(UsageError, match="two config files"):
        find_config(Path("named.yaml"), Path("variable.yaml"))


def test_a_missing_config_names_the_places_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        find_config(environment={})
    assert "$HELIOGRAPH_CONFIG is not set" in caught.value.message
    assert str(tmp_path / "heliograph.yaml") in caught.value.message
