package kafkastream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/plugin/kslog"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// defaultGroup is the prefix of the default names of groups.
const defaultGroup = "goless_"

// findGroup returns the name of the group to join. It retries until the brokers respond or ctx
// ends.
func (c *Consumer) findGroup(ctx context.Context, d *stream.Deliverer) (string, error) {
	if c.FormerGroup == "" {
		return c.Group, nil
	}
	options, err := c.options()
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(append(options, kgo.WithLogger(kslog.New(d.Sender.Log)))...)
	if err != nil {
		return "", fmt.Errorf("setting up the client of Kafka: %w", err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		group, err := c.chooseGroup(ctx, kadm.NewClient(client))
		if err == nil {
			d.Sender.Log.Info("consumer group", "group", group, "topic", c.Topic)
			return group, nil
		}
		d.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: "topic " + c.Topic + " cannot be consumed: " + err.Error()})
		delivery.Sleep(ctx, watchAgain)
	}
	return "", nil
}

// chooseGroup returns FormerGroup if it has committed offsets for the topic and Group has none, or
// if the consumer is authorized to read FormerGroup but not Group. It returns Group if the offsets
// of FormerGroup belong to another trigger.
func (c *Consumer) chooseGroup(ctx context.Context, admin *kadm.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	commits, denied, err := c.commits(ctx, admin, c.Group)
	if err != nil || len(commits) > 0 {
		return c.Group, err
	}
	former, formerDenied, err := c.commits(ctx, admin, c.FormerGroup)
	switch {
	case err != nil || formerDenied:
		return c.Group, err
	case denied:
		return c.FormerGroup, nil
	}
	var ours, others int
	for _, commit := range former {
		switch owner, _, _ := strings.Cut(commit.Metadata, " "); {
		case owner == c.Group:
			ours++
		case strings.HasPrefix(owner, defaultGroup):
			others++
		}
	}
	if len(former) == 0 || others > 0 && ours == 0 {
		return c.Group, nil
	}
	return c.FormerGroup, nil
}

// commits returns the committed offsets of a group for the topic. denied reports that the consumer
// is not authorized to read the group.
func (c *Consumer) commits(ctx context.Context, admin *kadm.Client, group string) (commits map[int32]kadm.OffsetResponse, denied bool, err error) {
	all, err := admin.FetchOffsets(ctx, group)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return nil, true, nil
	case errors.Is(err, kerr.GroupIDNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading the offsets of group %s: %w", group, err)
	}
	return all[c.Topic], false, nil
}

// owner returns the metadata of commits: the default group, because two triggers can have the same
// FormerGroup, and the ID of the topic.
func (c *Consumer) owner(topicID string) string { return strings.TrimSpace(c.Group + " " + topicID) }

// withMetadata returns a context for commits with metadata, by partition.
func withMetadata(ctx context.Context, metadata map[int32]string) context.Context {
	return kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for i, p := range topic.Partitions {
				topic.Partitions[i].Metadata = new(metadata[p.Partition])
			}
		}
		return nil
	})
}

// startOffsets returns the start offsets of assigned partitions. An offset that was committed
// before the topic was deleted and recreated does not apply to the new topic: its partition begins
// with the oldest record. Brokers delete such offsets, but late commits can recreate them.
func (m *member) startOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-m.ready
	admin, topic := kadm.NewClient(m.client), m.consumer.Topic
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil || topics[topic].ID == (kadm.TopicID{}) {
		return offsets, err
	}
	commits, err := admin.FetchOffsets(ctx, m.group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return offsets, nil
	}
	if err != nil {
		return nil, err
	}
	for id := range offsets[topic] {
		_, of, known := strings.Cut(commits[topic][id].Metadata, " ")
		if known && of != encode(topics[topic].ID) {
			m.log.Warn("ignoring the committed offset of a deleted topic", "partition", id, "offset", commits[topic][id].At)
			offsets[topic][id] = kgo.NewOffset().AtStart()
		}
	}
	return offsets, nil
}

// encode returns the ID of a topic in the format of Kafka, or "" if it has none.
func encode(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
