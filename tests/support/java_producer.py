"""The mixed workload by Kafka's own Java client, whose batches are laid out differently from librdkafka's.

Owns a JVM for the length of one workload, driven through py4j. Must not know what is in the records.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from heliograph.lab.jars import DEFAULT_KAFKA, kafka_libs
from heliograph.lab.java import find_java

from .records import Record, mixed_records
from .topics import partition_count
from .workload import CODECS, STRETCH_RECORDS, Undelivered

SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
END_TIMEOUT_S = 20.0


def produce_mixed_with_java(bootstrap: str, *topics: str, count: int, seed: int = 0) -> int:
    """As `produce_mixed` of workload.py, record for record; for hundreds of records: each is a call or two."""
    with java() as jvm:
        producers = [_producer(jvm, bootstrap, codec) for codec in CODECS]
        sent = []
        for nth, topic in enumerate(topics):
            partitions = partition_count(bootstrap, topic)
            for number, record in enumerate(mixed_records(seed + nth, count)):
                producer = producers[number // STRETCH_RECORDS % len(producers)]
                sent.append(producer.send(_java_record(jvm, topic, number % partitions, record)))
        for producer in producers:
            producer.close()  # waits for all that was sent
        _demand_delivery(sent)
    return len(sent)


def _demand_delivery(sent: Iterable[Any]) -> None:
    for each in sent:
        try:
            each.get()
        except Py4JJavaError as error:  # its text has to be asked for while the JVM lives
            raise Undelivered(str(error.java_exception.toString())) from None


def _producer(java: Any, bootstrap: str, codec: str) -> Any:
    settings = java.java.util.HashMap()
    for name, value in {
        "bootstrap.servers": bootstrap,
        "key.serializer": SERIALIZER,
        "value.serializer": SERIALIZER,
        "compression.type": codec,
        "max.request.size": 1_048_588,
        "batch.size": 16_384,
        "linger.ms": 200,
    }.items():
        settings.put(name, value)
    return java.org.apache.kafka.clients.producer.KafkaProducer(settings)


def _java_record(java: Any, topic: str, partition: int, record: Record) -> Any:
    headers = java.org.apache.kafka.common.header.internals.RecordHeaders()
    for name, value in record.headers:
        headers.add(name, value)
    return java.org.apache.kafka.clients.producer.ProducerRecord(
        topic, partition, record.timestamp_ms, record.key, record.value, headers
    )


@contextlib.contextmanager
def java() -> Iterator[Any]:
    """A JVM with Kafka's classes, as py4j shows it."""
    port, token, process = launch_gateway(
        jarpath=str(_py4j_jar()),
        classpath=os.path.join(kafka_libs(DEFAULT_KAFKA), "*"),
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"],
        java_path=str(find_java() / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when nobody holds its input any more
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _py4j_jar() -> Path:
    # The jar lies among PySpark's; found without importing it.
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for jar in Path(place, "jars").glob("py4j-*.jar"):
            return jar
    raise FileNotFoundError("PySpark's jars hold no py4j")
