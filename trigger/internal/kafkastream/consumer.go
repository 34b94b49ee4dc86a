// Package kafkastream consumes a topic of Kafka as a member of a consumer group. The records of a
// partition are delivered in their order, and an offset is committed only after its record was
// taken by the function or by the topic of dead letters, or was dropped. It is the only package
// that knows Kafka.
package kafkastream

import (
	"context"
	"flag"
	"strings"
	"time"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

// rejoinPause is the time between two members of the same process.
const rejoinPause = time.Second

// A Consumer consumes a topic. Files are read for each connection, so that they may be changed.
type Consumer struct {
	// Brokers are addresses, as host:port, by which the others are found.
	Brokers []string

	// Topic is what is consumed, and Group the consumer group. FormerGroup, unless it is "", is the
	// group in its place where only that one has committed offsets of the topic.
	Topic, Group, FormerGroup string

	// SessionTimeout is after how long without a sign of life the partitions of a consumer go to
	// others.
	SessionTimeout time.Duration

	// Mechanism is how User logs in, PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, and "" for not at
	// all. The password is in PasswordFile.
	Mechanism, User, PasswordFile string

	// TLS tells whether connections are encrypted. The brokers must have a certificate that
	// descends from one in CAFile, or from a public one where that is "". CertFile and KeyFile
	// are the certificate of the client; "" for none.
	TLS                       bool
	CAFile, CertFile, KeyFile string
}

// Flags adds the settings.
func (c *Consumer) Flags(flags *flag.FlagSet) {
	flags.Func("brokers", "addresses of brokers, as HOST:PORT, with commas between them", func(list string) error {
		c.Brokers = strings.Split(list, ",")
		return nil
	})
	flags.StringVar(&c.Topic, "topic", "", "the topic that is consumed")
	flags.StringVar(&c.Group, "group", "", "the consumer group")
	flags.StringVar(&c.FormerGroup, "former-group", "", "the consumer group to keep where it has committed offsets of the topic and --group has none; none when empty")
	flags.DurationVar(&c.SessionTimeout, "session-timeout", 15*time.Second, "after how long without a sign of life the partitions go to another consumer")
	flags.StringVar(&c.Mechanism, "mechanism", "", "how to log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; not at all when empty")
	flags.StringVar(&c.User, "user", "", "the name of the user")
	flags.StringVar(&c.PasswordFile, "password-file", "", "file with the password of the user")
	flags.BoolVar(&c.TLS, "tls", false, "encrypt the connections, and verify the brokers")
	flags.StringVar(&c.CAFile, "ca-file", "", "file with the certificates that those of the brokers descend from; the public ones when empty")
	flags.StringVar(&c.CertFile, "cert-file", "", "file with the certificate of the client; none when empty")
	flags.StringVar(&c.KeyFile, "key-file", "", "file with the key of that certificate")
}

// Run consumes until ctx ends, then finishes what is under way and leaves the group. It returns
// an error where a setting is wrong; while no broker answers it tries again. When the topic is
// deleted and recreated, it joins the group again with a new client: a client never consumes the
// new topic in place of the deleted one.
func (c *Consumer) Run(ctx context.Context, d *stream.Deliverer) error {
	group, err := c.findGroup(ctx, d)
	if err != nil || ctx.Err() != nil {
		return err
	}
	for {
		m, err := join(c, d, group)
		if err != nil {
			return err
		}
		m.run(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		send.Sleep(ctx, rejoinPause)
	}
}
