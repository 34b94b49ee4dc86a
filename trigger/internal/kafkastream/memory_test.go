package kafkastream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A process with the memory of a consumer pod consumes records of many partitions that need far
// more memory when they are decompressed.
func TestMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector takes memory of its own")
	}
	const limit = 256 << 20
	for name, test := range map[string]struct {
		codec         kgo.CompressionCodec
		records, size int // in each partition
	}{
		"Zstd":  {kgo.ZstdCompression(), 100, 100_000},
		"Gzip":  {kgo.GzipCompression(), 40, 100_000},
		"Tiny":  {kgo.ZstdCompression(), 20_000, 1},
		"Plain": {kgo.NoCompression(), 3000, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			const partitions = 100
			b := fakeBrokers(t)
			c := b.topic(t, partitions)
			fillZeros(t, b, c.Topic, partitions, test.records, test.size, test.codec)
			url, taken := counter(t)
			t.Setenv("GOMEMLIMIT", strconv.Itoa(limit/10*9))
			p := startProcess(t, "consumer", false, url,
				"--brokers="+strings.Join(c.Brokers, ","), "--topic="+c.Topic, "--group="+c.Group, "--session-timeout=30s")
			await(t, "2000 events", func() bool { return taken.Load() >= 2000 })
			if most := mostMemory(t, p); most > limit {
				t.Errorf("the process has had %d MiB, want %d at most", most>>20, limit>>20)
			} else {
				t.Logf("the process has had %d MiB", most>>20)
			}
		})
	}
}

// fillZeros writes records of zeros to each partition of a topic, in batches of up to 1 MB.
func fillZeros(t *testing.T, b brokers, topic string, partitions int32, records, size int, codec kgo.CompressionCodec) {
	t.Helper()
	client := b.client(t, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	value := make([]byte, size)
	for partition := range partitions {
		all := make([]*kgo.Record, records)
		for i := range all {
			all[i] = &kgo.Record{Topic: topic, Partition: partition, Value: value}
		}
		if err := client.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// mostMemory returns the peak memory of a process, in bytes.
func mostMemory(t *testing.T, p *process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatal("the kernel does not say how much memory the process has had")
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// A decompressed batch equals the original, unless it exceeds the limit for a batch.
func TestDecompress(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]kgo.CompressionCodec{
		"Zstd": kgo.ZstdCompression(), "Gzip": kgo.GzipCompression(), "Lz4": kgo.Lz4Compression(), "Snappy": kgo.SnappyCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			compressor := must(kgo.DefaultCompressor(codec))
			m := newMemory()
			m.maxBatch = 1 << 20
			for n, want := range map[int]error{0: nil, 1: nil, 1 << 20: nil, 1<<20 + 1: kgo.ErrMaxDecompress} {
				var buffer bytes.Buffer
				compressed, kind := compressor.Compress(&buffer, make([]byte, n))
				got, err := m.Decompress(compressed, kind)
				if !errors.Is(err, want) || want == nil && len(got) != n {
					t.Errorf("%d bytes: got %d, %v, want %v", n, len(got), err, want)
				}
			}
			m.fetched.Store(m.maxFetched)
			var buffer bytes.Buffer
			compressed, kind := compressor.Compress(&buffer, make([]byte, 1000))
			if _, err := m.Decompress(compressed, kind); !errors.Is(err, errFull) {
				t.Errorf("while the memory is full: %v, want %v", err, errFull)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A batch that is too large for the memory of the pod is named in the problem, and the other
// partitions continue.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	b := fakeBrokers(t)
	c := b.topic(t, 2)
	client := b.client(t, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(80<<20))
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: c.Topic, Value: make([]byte, 70<<20)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	f := newFunction(t)
	monitor, _ := start(t, c, f, "")
	awaitMessage(t, monitor, "partition 0 of topic "+c.Topic+" cannot be consumed: the batch at offset 0 has more than")
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: c.Topic, Partition: 1, Key: []byte("key-0"), Value: []byte("0")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	f.await(1)
	f.check()
}
