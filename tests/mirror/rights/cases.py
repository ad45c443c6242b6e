"""A case for every right in the table of docs/SECURITY.md: a sufficient set, the right that is taken from it, and who
notices.

Topics: `THERE` is on both clusters, with 40 records at the source; `NEW` at the source only; `CUT` starts at offset 40
there; `BUILT` is compacted, and being built on the target; `AGAIN`, `GROWING`, `CHANGING` and `GOING` are mirrored by
runs. `GUARDED_SOURCE` is on the cluster that checks rights when that is the source, and holds an open transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heliograph.cluster.grants import Resource, Right
from heliograph.model.ledger import COMMANDS_TOPIC, EVENTS_TOPIC, LEDGER_TOPIC, OWN_PREFIX
from heliograph.model.policy import LinkPolicy
from tests.support.guarded_cluster import Grant, grants, on_cluster, on_topic

from . import looks
from .looks import Look

THERE, NEW, CUT, BUILT, AGAIN = "right-there", "right-new", "right-cut", "right-built", "right-again"
GROWING, CHANGING, GOING = "right-growing", "right-changing", "right-going"
GUARDED_SOURCE = "right-source"
HANGING = "right-hangs"  # how its transactional id begins
READERS = "right-readers"  # a consumer group with commits on the target

READ, WRITE, CREATE, DELETE = Right.READ, Right.WRITE, Right.CREATE, Right.DELETE
DESCRIBE, CONFIGS, ALTER_CONFIGS = Right.DESCRIBE, Right.DESCRIBE_CONFIGS, Right.ALTER_CONFIGS
ALTER, CLUSTER_ACTION = Right.ALTER, Right.CLUSTER_ACTION

Grants = frozenset[Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Without `taken` from `sufficient`, `look` sees what the row says, in `words`. `instead`: what else mends it.
    `own_topics`: whether Heliograph's own topics are on the target."""

    purpose: str
    cluster: str
    taken: Grants
    sufficient: Grants
    look: Look
    words: str
    instead: tuple[Grants, ...] = field(default=())
    own_topics: bool = True

    @property
    def rights(self) -> frozenset[Right]:
        return frozenset(grant.right for some in (self.taken, *self.instead) for grant in some)

    def __str__(self) -> str:
        (grant,) = self.taken
        return f"{self.cluster}-{grant.right.name}-{grant.resource}-{self.purpose[:40]}"


_GROUPS = grants(Resource.GROUP, "heliograph.", READ, prefixed=True)
_IDS = grants(Resource.TRANSACTIONAL_ID, "heliograph.", WRITE, prefixed=True)
_OWN = on_topic(OWN_PREFIX, CREATE, READ, WRITE, prefixed=True)
_ANY_MIRROR = _GROUPS | _IDS | _OWN | on_cluster(CONFIGS)
_EARLY = LinkPolicy(start="-7d")
_LATE = LinkPolicy(start="latest")


def _mirror(topic: str, *more: Right) -> Grants:
    return _ANY_MIRROR | on_topic(topic, READ, WRITE, CONFIGS, *more)


def _missing(right: Right, topic: str) -> str:
    return f"{right.name} on topic {topic} is missing"


_MIRRORING = "mirroring"
_ABOVE_0 = (
    "a mirror that begins above offset 0 (the source's log starts there, or `start: latest`), while it is new"
)
_SOURCE = on_topic(GUARDED_SOURCE, READ, CONFIGS)
_MIRRORS = [
    Case(
        purpose=_MIRRORING,
        cluster="source",
        taken=on_topic(GUARDED_SOURCE, READ),
        sufficient=_SOURCE,
        look=looks.preflight(GUARDED_SOURCE),
        words=_missing(DESCRIBE, GUARDED_SOURCE),  # which READ includes: it is not seen at all
    ),
    Case(
        purpose=_MIRRORING,
        cluster="source",
        taken=on_topic(GUARDED_SOURCE, READ),
        sufficient=_SOURCE | on_topic(GUARDED_SOURCE, DESCRIBE),
        look=looks.preflight(GUARDED_SOURCE),
        words=_missing(READ, GUARDED_SOURCE),
    ),
    Case(
        purpose=_MIRRORING,
        cluster="source",
        taken=on_topic(GUARDED_SOURCE, CONFIGS),
        sufficient=_SOURCE,
        look=looks.preflight(GUARDED_SOURCE),
        words=_missing(CONFIGS, GUARDED_SOURCE),
    ),
    *(
        Case(
            purpose=_MIRRORING,
            cluster="target",
            taken=on_topic(THERE, right),
            sufficient=_mirror(THERE),
            look=looks.preflight(THERE),
            words=_missing(right, THERE),
        )
        for right in (READ, WRITE, CONFIGS)
    ),
    Case(
        purpose="creating target topics (`create_topics: true`)",
        cluster="target",
        taken=on_topic(NEW, CREATE),
        sufficient=_mirror(NEW, CREATE),
        look=looks.preflight(NEW),
        words=_missing(CREATE, NEW),
        instead=(on_cluster(CREATE),),
    ),
    Case(
        purpose=_ABOVE_0,
        cluster="target",
        taken=on_topic(CUT, DELETE),
        sufficient=_mirror(CUT, DELETE),
        look=looks.preflight(CUT),
        words=_missing(DELETE, CUT),
    ),
    Case(
        purpose=_ABOVE_0,
        cluster="target",
        taken=on_topic(THERE, DELETE),
        sufficient=_mirror(THERE, DELETE),
        look=looks.preflight(THERE, policy=_LATE),
        words=_missing(DELETE, THERE),
    ),
    Case(
        purpose="a mirror that may begin above offset 0 (`start` is a time or an age), while it is new",
        cluster="target",
        taken=on_topic(THERE, DELETE),
        sufficient=_mirror(THERE, DELETE),
        look=looks.preflight(THERE, policy=_EARLY),
        words=_missing(DELETE, THERE),
    ),
    Case(
        purpose="a compacted topic, while its mirror is new",
        cluster="target",
        taken=on_topic(BUILT, ALTER_CONFIGS),
        sufficient=_mirror(BUILT, ALTER_CONFIGS),
        look=looks.preflight(BUILT),
        words=_missing(ALTER_CONFIGS, BUILT),
    ),
    Case(
        purpose="a compacted topic whose first record is far above its log start, while its mirror is new",
        cluster="target",
        taken=on_topic(BUILT, DELETE),
        sufficient=_mirror(BUILT, ALTER_CONFIGS, DELETE),
        look=looks.deletion(BUILT),
        words="nothing may be deleted",
    ),
    Case(
        purpose="a compacted topic that its brokers clean",
        cluster="target",
        taken=on_cluster(CONFIGS),
        sufficient=_mirror(BUILT, ALTER_CONFIGS),
        look=looks.cleaner(BUILT),
        words="brokers do not tell whether they clean",
    ),
    Case(
        purpose="gaps (topics with transactions, compacted topics, accepted losses), at some 15,000 offsets/s",
        cluster="target",
        taken=on_cluster(ALTER),
        sufficient=_mirror(THERE) | on_cluster(ALTER),
        look=looks.gaps(THERE),
        words="empty transactions (WRITE granted on transactional ids",
        instead=(on_cluster(CLUSTER_ACTION),),
    ),
    Case(
        purpose="gaps, by empty transactions, at some 180 offsets/s a partition",
        cluster="target",
        taken=_IDS,
        sufficient=_mirror(THERE),
        look=looks.preflight(THERE),
        words="ALTER or CLUSTER_ACTION on the cluster is missing, and so is WRITE on transactional ids",
    ),
    Case(
        purpose="the election: which run holds which topic, and what it reserves before gaps are filled",
        cluster="target",
        taken=_GROUPS,
        sufficient=_mirror(THERE),
        look=looks.preflight(THERE),
        words="READ on group heliograph.",
    ),
    Case(
        purpose="the retention and cleanup that the target's brokers have by default",
        cluster="target",
        taken=on_cluster(CONFIGS),
        sufficient=_mirror(NEW, CREATE),
        look=looks.creation(NEW),
        words="retention.ms",
    ),
    Case(
        purpose="how long brokers remember a producer id, and whether groups can work",
        cluster="target",
        taken=on_cluster(CONFIGS),
        sufficient=_mirror(THERE),
        look=looks.preflight(THERE),
        words="DESCRIBE_CONFIGS on the cluster is missing",
    ),
    Case(
        purpose="naming a transaction that hangs (Kafka 3.0 or later)",
        cluster="source",
        taken=grants(Resource.TRANSACTIONAL_ID, HANGING, DESCRIBE, prefixed=True),
        sufficient=_SOURCE | grants(Resource.TRANSACTIONAL_ID, HANGING, DESCRIBE, prefixed=True),
        look=looks.owner_of_open_transaction(GUARDED_SOURCE),
        words="producer id",
    ),
]

_LEDGER_ROW = (
    "the ledger ([LEDGER.md](LEDGER.md)): stops and pauses that outlive a run, commands of operators, events"
)
_LEDGER = [
    *(
        Case(
            purpose=_LEDGER_ROW,
            cluster="target",
            taken=on_topic(OWN_PREFIX, right, prefixed=True),
            sufficient=_mirror(THERE),
            look=looks.preflight(THERE),
            words=f"{right.name} on topic {OWN_PREFIX}",
            instead=(on_cluster(CREATE),) if right is CREATE else (),
            own_topics=right is not CREATE,
        )
        for right in (CREATE, READ, WRITE)
    ),
    *(
        Case(
            purpose="topics with a `start` other than `earliest`",
            cluster="target",
            taken=on_topic(OWN_PREFIX, right, prefixed=True),
            sufficient=_mirror(THERE, DELETE),
            look=looks.preflight(THERE, policy=_LATE),
            words=f"topic {THERE} has a start other than earliest, which needs the ledger",
            own_topics=right is not CREATE,
        )
        for right in (CREATE, READ, WRITE)
    ),
]

_STATUS, _COMMANDS = "`status`, `topics list`", "`topics pause`, `resume`, `remirror`"
_LEDGER_READ = on_topic(LEDGER_TOPIC, READ) | on_topic(COMMANDS_TOPIC, READ)
_SHOWN = on_topic(THERE, READ) | _LEDGER_READ
_ALL_GROUPS = grants(Resource.GROUP, "*", DESCRIBE)
_COMMANDING = _SHOWN | on_topic(COMMANDS_TOPIC, WRITE) | _ALL_GROUPS
_CREATING = on_topic(LEDGER_TOPIC, CREATE) | on_topic(COMMANDS_TOPIC, CREATE)
_OPERATORS = [
    Case(
        purpose=_STATUS,
        cluster="source",
        taken=on_topic(GUARDED_SOURCE, READ),
        sufficient=on_topic(GUARDED_SOURCE, READ, DESCRIBE),
        look=looks.status(GUARDED_SOURCE, "lag_ms"),
        words="lag_ms",
    ),
    Case(
        purpose=_STATUS,
        cluster="target",
        taken=on_topic(THERE, READ),
        sufficient=on_topic(THERE, READ, DESCRIBE),
        look=looks.status(THERE, "next_offset"),
        words="TOPIC_AUTHORIZATION_FAILED",
    ),
    *(
        Case(
            purpose=f"{_STATUS}: stops and pauses",
            cluster="target",
            taken=on_topic(topic, READ),
            sufficient=_SHOWN,
            look=looks.ledger(THERE),
            words="stops and pauses that were recorded on cluster 'dst' cannot be read",
        )
        for topic in (LEDGER_TOPIC, COMMANDS_TOPIC)
    ),
    Case(
        purpose="`events`",
        cluster="target",
        taken=on_topic(EVENTS_TOPIC, READ),
        sufficient=on_topic(EVENTS_TOPIC, READ),
        look=looks.events(THERE),
        words="events of cluster 'dst' cannot be read",
    ),
    Case(
        purpose="`topics pause`: how long the source keeps what is not copied",
        cluster="source",
        taken=on_topic(GUARDED_SOURCE, CONFIGS),
        sufficient=_SOURCE,
        look=looks.retention_in_pause(GUARDED_SOURCE),
        words="",
    ),
    *(
        Case(
            purpose=_COMMANDS,
            cluster="target",
            taken=on_topic(topic, READ),
            sufficient=_COMMANDING,
            look=looks.resume(THERE),
            words="cannot be read",
        )
        for topic in (LEDGER_TOPIC, COMMANDS_TOPIC)
    ),
    Case(
        purpose=_COMMANDS,
        cluster="target",
        taken=on_topic(COMMANDS_TOPIC, WRITE),
        sufficient=_COMMANDING,
        look=looks.resume(THERE),
        words="the command cannot be recorded on cluster 'dst'",
    ),
    *(
        Case(
            purpose=_COMMANDS,
            cluster="target",
            taken=on_topic(topic, CREATE),
            sufficient=_COMMANDING | _CREATING,
            look=looks.resume(THERE),
            words="the command cannot be recorded on cluster 'dst'",
            own_topics=False,
        )
        for topic in (LEDGER_TOPIC, COMMANDS_TOPIC)
    ),
    Case(
        purpose=f"{_COMMANDS}: whether a mirror runs",
        cluster="target",
        taken=_ALL_GROUPS,
        sufficient=_COMMANDING,
        look=looks.runners(THERE),
        words="whether a mirror runs cannot be asked",
    ),
    Case(
        purpose="`plan`: naming consumer groups with commits on compacted topics that are being built",
        cluster="target",
        taken=_ALL_GROUPS,
        sufficient=_mirror(BUILT) | _ALL_GROUPS,
        look=looks.commits_on_built_topics(BUILT),
        words="no group is named",
    ),
    Case(
        purpose="`topics remirror`: naming the consumer groups whose commits are lost",
        cluster="target",
        taken=_ALL_GROUPS,
        sufficient=_COMMANDING,
        look=looks.shown_of_remirror(THERE, "groups"),
        words="groups",
    ),
    Case(
        purpose="`topics remirror`: naming the configs that were set by hand",
        cluster="target",
        taken=on_topic(THERE, CONFIGS),
        sufficient=_COMMANDING | on_topic(THERE, CONFIGS),
        look=looks.shown_of_remirror(THERE, "restored"),
        words="restored",
    ),
]

CASES = (*_MIRRORS, *_LEDGER, *_OPERATORS)

# A whole run notices: test_least_rights.py has a test of its own for each of these rows.
GROWTH = "partitions that a source topic gains"
GROWN = on_topic(GROWING, ALTER)
WHILE_GROWING = _mirror(GROWING, CREATE)
CONFIGS_CHANGE = "configs that change on a source topic (`topic_configs`)"
CHANGED = on_topic(CHANGING, ALTER_CONFIGS)
WHILE_CHANGING = _mirror(CHANGING, CREATE)
REMIRROR = "`topics remirror`: the run that carries it out"
REMIRRORING = on_topic(AGAIN, CREATE, DELETE)
RUNNING = _mirror(AGAIN)
DELETION = "target topics that are deleted with their source topics (`on_source_delete: delete`)"
DELETED = on_topic(GOING, DELETE)
WHILE_DELETING = _mirror(GOING, CREATE)
