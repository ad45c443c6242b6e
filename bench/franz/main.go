// A mirror of one topic as a program on franz-go would be written: records are consumed from all partitions and produced
// into the same partitions of another topic. It ends when the target has confirmed so many records.
//
// What is not set here is the library's default: idempotent, acks of all replicas, 10 ms of linger.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// As MirrorMaker 2's in bench/mirror_maker.py.
const (
	fetchBytes          = 50_000_000
	fetchPartitionBytes = 4_000_000
	bufferedBytes       = 128 << 20
)

const (
	batchBytes      = 1_000_000
	bufferedRecords = 200_000 // the default of 50,000 is only 10 MB of the smallest ones
	recordsPerPoll  = 10_000
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(),
	"lz4":  kgo.Lz4Compression(),
}

func main() {
	source := flag.String("source", "", "host:port,... of the source")
	target := flag.String("target", "", "host:port,... of the target")
	topic := flag.String("topic", "", "topic to read")
	targetTopic := flag.String("target-topic", "", "topic to write; it exists and has as many partitions")
	partitions := flag.Int("partitions", 0, "partitions of both topics")
	records := flag.Int64("records", 0, "records to copy")
	codec := flag.String("codec", "none", "compression of the batches made: none or lz4")
	flag.Parse()

	from := make(map[int32]kgo.Offset)
	for partition := range int32(*partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	consumer := client(
		kgo.SeedBrokers(strings.Split(*source, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{*topic: from}),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
	)
	defer consumer.Close()
	compression, known := codecs[*codec]
	if !known {
		fail(fmt.Errorf("unknown codec %q", *codec))
	}
	producer := client(
		kgo.SeedBrokers(strings.Split(*target, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.MaxBufferedRecords(bufferedRecords),
		kgo.MaxBufferedBytes(bufferedBytes),
	)
	defer producer.Close()
	copyAll(consumer, producer, *targetTopic, *records)
}

func copyAll(consumer, producer *kgo.Client, targetTopic string, records int64) {
	var confirmed atomic.Int64
	done := make(chan struct{})
	onConfirmed := func(_ *kgo.Record, err error) {
		if err != nil {
			fail(err)
		}
		if confirmed.Add(1) == records {
			close(done)
		}
	}
	ctx := context.Background()
	for taken := int64(0); taken < records; {
		fetches := consumer.PollRecords(ctx, recordsPerPoll)
		if err := fetches.Err(); err != nil {
			fail(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			record.Topic = targetTopic // everything else of it stays, the partition included
			producer.Produce(ctx, record, onConfirmed)
			taken++
		})
	}
	<-done
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	return made
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
