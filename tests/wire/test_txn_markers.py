"""Requests for markers are the bytes that general message classes make of the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import WriteTxnMarkersRequest

from heliograph.wire.txn_markers import TXN_MARKERS_VERSION, TxnMarkerEntry, encode_txn_markers

TOPICS = st.dictionaries(
    st.text("abcäß.-", min_size=1, max_size=150),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
ENTRIES = st.lists(
    st.builds(
        TxnMarkerEntry,
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(0, 2**31 - 1),
        TOPICS,
    ),
    min_size=1,
    max_size=5,
)


def generally(entries: list[TxnMarkerEntry]) -> bytes:
    made = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            made(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                transaction_result=False,
                topics=[
                    made.WritableTxnMarkerTopic(name=name, partition_indexes=partitions)
                    for name, partitions in each.topics.items()
                ],
                coordinator_epoch=each.coordinator_epoch,
            )
            for each in entries
        ]
    )
    return bytes(request.encode(version=TXN_MARKERS_VERSION))


@given(ENTRIES, st.integers(1, 200))
def test_a_request_is_encoded_as_general_classes_encode_it(entries: list[TxnMarkerEntry], times: int) -> None:
    repeated = [each for each in entries for _ in range(times)]
    assert b"".join(encode_txn_markers(repeated)) == generally(repeated)
