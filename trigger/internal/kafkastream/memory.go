package kafkastream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultMemory is used if the Go runtime has no memory limit.
	defaultMemory = 256 << 20

	// fetchMinBytes and fetchMaxBytes are the bounds of the number of bytes, possibly compressed,
	// that one broker is asked for. Brokers return at least one batch.
	fetchMinBytes = 1 << 10
	fetchMaxBytes = 1 << 20

	// recordBytes is the approximate memory of a record in addition to its contents.
	recordBytes = 256
)

// errFull is the error for a batch that is not decompressed because other batches occupy the
// memory. It is fetched again.
var errFull = errors.New("decompressed batches use all memory")

// memory limits the memory of all partitions together: of waiting records, and of fetched records
// that are not polled yet. It decompresses batches for the client, because their compressed size
// does not predict how much memory they need.
type memory struct {
	maxWaiting, maxFetched, maxBatch int64

	waiting atomic.Int64
	room    chan struct{} // contains an element when waiting was reduced

	fetched atomic.Int64 // approximate number of bytes fetched since the last poll
	refused atomic.Bool  // a batch was not decompressed since the last poll
	request int64        // number of bytes to request from a broker

	mu    sync.Mutex // protects the decoders
	gzip  gzip.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
	other kgo.Decompressor
}

// newMemory returns a memory for the limit of the Go runtime. Waiting records may occupy 1/8 of the
// limit, records fetched from a broker 1/16, and one batch 1/4.
func newMemory() *memory {
	limit := debug.SetMemoryLimit(-1)
	if limit > 1<<50 { // no limit
		limit = defaultMemory
	}
	return &memory{
		maxWaiting: limit / 8, maxFetched: limit / 16, maxBatch: min(limit/4, 64<<20),
		room: make(chan struct{}, 1), request: fetchMinBytes, other: kgo.DefaultDecompressor(),
	}
}

// await waits until there is room for more waiting records. It returns false when ctx ends.
func (m *memory) await(ctx context.Context) bool {
	for m.waiting.Load() > m.maxWaiting {
		select {
		case <-ctx.Done():
			return false
		case <-m.room:
		}
	}
	return true
}

func (m *memory) release(bytes int) {
	m.waiting.Add(int64(-bytes))
	tell(m.room)
}

// next is called after each poll. It returns the number of bytes to request from a broker in total
// and per partition. The number doubles each time, or is halved if a batch was not decompressed.
func (m *memory) next() (total, partition int32) {
	m.fetched.Store(0)
	if m.refused.Swap(false) {
		m.request = max(m.request/2, fetchMinBytes)
	} else {
		m.request = min(m.request*2, fetchMaxBytes)
	}
	return int32(m.request), int32(min(m.request, maxWaiting))
}

// OnFetchBatchRead counts a batch.
func (m *memory) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, batch kgo.FetchBatchMetrics) {
	m.fetched.Add(int64(batch.UncompressedBytes) + int64(batch.NumRecords)*recordBytes)
}

// Decompress returns the contents of a batch. It returns errFull if there is currently no room for
// them, or kgo.ErrMaxDecompress if there never is.
func (m *memory) Decompress(compressed []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return compressed, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fetched.Load() >= m.maxFetched {
		m.refused.Store(true)
		return nil, errFull
	}
	if codec == kgo.CodecSnappy {
		return m.snappy(compressed)
	}
	// Determine the size first, so that the result occupies no more memory than needed.
	reader, err := m.reader(compressed, codec)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(reader, m.maxBatch+1))
	if err != nil {
		return nil, err
	}
	if n > m.maxBatch {
		return nil, kgo.ErrMaxDecompress
	}
	if reader, err = m.reader(compressed, codec); err != nil {
		return nil, err
	}
	all := make([]byte, n)
	_, err = io.ReadFull(reader, all)
	return all, err
}

// snappy decompresses a batch. The result is at most about 21 times as large.
func (m *memory) snappy(compressed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(compressed)
	if framed := bytes.HasPrefix(compressed, []byte("\x82SNAPPY\x00")); !framed && err == nil && int64(n) > m.maxBatch {
		return nil, kgo.ErrMaxDecompress
	}
	return m.other.Decompress(compressed, kgo.CodecSnappy)
}

// reader returns a reader that decompresses.
func (m *memory) reader(compressed []byte, codec kgo.CompressionCodecType) (io.Reader, error) {
	source := bytes.NewReader(compressed)
	switch codec {
	case kgo.CodecGzip:
		return &m.gzip, m.gzip.Reset(source)
	case kgo.CodecLz4:
		if m.lz4 == nil {
			m.lz4 = lz4.NewReader(nil)
		}
		m.lz4.Reset(source)
		return m.lz4, nil
	case kgo.CodecZstd:
		if m.zstd == nil {
			decoder, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(m.maxBatch)))
			if err != nil {
				return nil, err
			}
			m.zstd = decoder
		}
		return m.zstd, m.zstd.Reset(source)
	}
	return nil, fmt.Errorf("unknown compression %d", codec)
}

// own returns a copy of a record in separate memory: a fetched record refers to the memory of its
// whole batch.
func own(r *kgo.Record) *kgo.Record {
	c := *r
	buffer := make([]byte, 0, size(r)-recordBytes)
	copied := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(buffer)
		buffer = append(buffer, b...)
		return buffer[start:len(buffer):len(buffer)]
	}
	c.Key, c.Value, c.Headers = copied(r.Key), copied(r.Value), make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		c.Headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: copied(h.Value)}
	}
	return &c
}

// sizes returns the approximate memory of records, in bytes.
func sizes(records []*kgo.Record) int {
	bytes := 0
	for _, r := range records {
		bytes += size(r)
	}
	return bytes
}

// size returns the approximate memory of a record, in bytes.
func size(r *kgo.Record) int {
	bytes := recordBytes + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		bytes += len(h.Key) + len(h.Value)
	}
	return bytes
}
