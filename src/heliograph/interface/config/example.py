"""The heliograph.yaml that `heliograph config example` prints: every key that works, commented."""

from __future__ import annotations

EXAMPLE = """\
# Heliograph's configuration: which clusters there are, and what is mirrored between them.
# Commented keys show their defaults. `heliograph config validate` checks this file.
version: 1

# Kafka client properties by Kafka's own names (docs/CONFIG.md lists the honoured ones).
# Values may hold ${ENV_VARIABLE} and ${file:/path/to/file.properties:key}.
# Secured clusters: `heliograph config example --for tls`, mtls, scram, kerberos or two-realms.
clusters:
  sf:
    bootstrap.servers: "127.0.0.1:19092"
    # Only for a source before Kafka 0.10 (docs/VERSIONS.md): what it runs, and an id that no other cluster has.
    # broker.version.fallback: 0.9.0.1
    # cluster.id: sf-1
  nyc:
    bootstrap.servers: "127.0.0.1:29092"
    # client.id: heliograph
    # request.timeout.ms: 30000

# A link is one directed mirror.
links:
  sf-to-nyc:
    source: sf
    target: nyc
    # Regular expressions on the whole name. Internal topics are always left out.
    topics: ["orders", "payments.*"]
    # An entry may say how its topics are copied: {match: "audit[.].*", on_loss: stop}. The first match decides.
    # exclude: []
    # Where the mirror of topics that the source has already begins: earliest, latest, a time, or an age such as -7d.
    # start: earliest
    # Names on the target: same, prefix (sf.orders), or a template such as "{source}-{topic}".
    # naming: same
    # separator: "."           # between source and topic, with naming: prefix
    # create_topics: true      # false: an operator creates target topics; `heliograph plan` prints the commands
    # replication_factor: source   # of target topics that are created: as the source topic's, or a number
    # Configs of target topics are kept in step with their sources'. include, exclude: expressions on their names.
    # topic_configs: {sync: true, include: [], exclude: [], set: {}}
    # on_source_delete: keep   # delete: a target topic is deleted with its source topic, under many conditions
    # Kafka properties for this link alone: consumer for its source, producer for its target.
    # consumer: {fetch.max.wait.ms: 500}
    # producer: {max.request.size: 1048576}

# Long-lived Spark tasks that copy: auto, or a number.
lanes: auto

# Buffers of one lane, 8MB to 4GB.
# lane_memory: 64MB

# How often both clusters are looked at for topics that came, grew or went: 500ms to 1h.
# discovery_interval: 5s

spark:
  master: "local[*]"
  # On a cluster, ship what `heliograph pack` made: the lanes then run the interpreter in it.
  # conf: {spark.archives: "heliograph-env.tar.gz#environment"}
  # python: /usr/bin/python3   # or name one that the executors have; the controller's own if there is neither
"""
