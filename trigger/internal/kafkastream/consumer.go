// Package kafkastream consumes a Kafka topic as a member of a consumer group. The records of a
// partition are delivered in order. An offset is committed only after its record was accepted by
// the function, written to the dead-letter topic, or dropped. No other package depends on Kafka.
package kafkastream

import (
	"context"
	"flag"
	"strings"
	"time"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// rejoinPause is the delay before the process joins the group again.
const rejoinPause = time.Second

// A Consumer consumes a topic. It reads the password and certificate files for each connection, so
// their contents may change.
type Consumer struct {
	// Brokers are addresses (HOST:PORT) of some brokers, from which the others are discovered.
	Brokers []string

	// Topic is the topic to consume, and Group the consumer group. FormerGroup is optional;
	// chooseGroup decides when it is used instead.
	Topic, Group, FormerGroup string

	// SessionTimeout is the time without a heartbeat after which the group reassigns the partitions
	// of a consumer.
	SessionTimeout time.Duration

	// heartbeat is the interval of heartbeats. Default: a fifth of SessionTimeout.
	heartbeat time.Duration

	// Mechanism is the SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or "" for none. User is
	// the user name, and PasswordFile the file with the password.
	Mechanism, User, PasswordFile string

	// TLS encrypts the connections. The brokers are verified with the CA certificates in CAFile, or
	// with the public ones if it is "". CertFile and KeyFile are the client certificate; they are
	// optional.
	TLS                       bool
	CAFile, CertFile, KeyFile string
}

// Flags adds the flags of the consumer.
func (c *Consumer) Flags(flags *flag.FlagSet) {
	flags.Func("brokers", "comma-separated addresses of brokers, as HOST:PORT", func(list string) error {
		c.Brokers = strings.Split(list, ",")
		return nil
	})
	flags.StringVar(&c.Topic, "topic", "", "topic to consume")
	flags.StringVar(&c.Group, "group", "", "consumer group")
	flags.StringVar(&c.FormerGroup, "former-group", "", "former consumer group, used if it has committed offsets of the topic and --group has none (default: none)")
	flags.DurationVar(&c.SessionTimeout, "session-timeout", 15*time.Second, "session timeout, after which the partitions are assigned to another consumer")
	flags.StringVar(&c.Mechanism, "mechanism", "", "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (default: none)")
	flags.StringVar(&c.User, "user", "", "name of the user")
	flags.StringVar(&c.PasswordFile, "password-file", "", "file with the password of the user")
	flags.BoolVar(&c.TLS, "tls", false, "use TLS and verify the brokers")
	flags.StringVar(&c.CAFile, "ca-file", "", "file with the CA certificates of the brokers (default: those of the system)")
	flags.StringVar(&c.CertFile, "cert-file", "", "file with the client certificate (default: none)")
	flags.StringVar(&c.KeyFile, "key-file", "", "file with the key of the client certificate")
}

// Run consumes until ctx ends. Then it finishes running deliveries and leaves the group. It returns
// an error if a setting is invalid; it retries while no broker responds. When the topic is deleted
// and recreated, it joins the group again with a new client: one client never consumes both topics.
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
		delivery.Sleep(ctx, rejoinPause)
	}
}
