package streams

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ownerKey is the metadata key with the trigger that created a consumer.
const ownerKey = "goless.io/trigger"

// A consumer of another owner that could lose or mix events is rejected with the reason, and
// none of its messages is delivered, acknowledged or returned.
func TestNATSForeignConsumer(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	stream := createStream(t, js, "ORDERS", "orders.>", "dead.>")
	publish(t, js, "orders.7", "0")
	publish(t, js, "dead.7", "1")
	start := time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		edit func(*jetstream.ConsumerConfig)
		want string
	}{
		"AckPolicy":      {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }, "ack policy"},
		"MaxDeliver":     {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 }, "max_deliver is 1"},
		"ManyDeliveries": {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1000 }, "max_deliver is 1000"},
		"HeadersOnly":    {func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }, "headers_only"},
		"New":            {func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy }, "deliver policy is new"},
		"Last":           {func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverLastPolicy }, "deliver policy is last"},
		"LastPerSubject": {func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy }, "deliver policy is last_per_subject"},
		"ByStartSequence": {func(c *jetstream.ConsumerConfig) {
			c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, 2
		}, "deliver policy is by_start_sequence"},
		"ByStartTime": {func(c *jetstream.ConsumerConfig) {
			c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
		}, "deliver policy is by_start_time"},
		"NoFilter":       {func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" }, "filter"},
		"WiderFilter":    {func(c *jetstream.ConsumerConfig) { c.FilterSubject = ">" }, `">"`},
		"NarrowerFilter": {func(c *jetstream.ConsumerConfig) { c.FilterSubject = "orders.7" }, `"orders.7"`},
		"OtherFilter":    {func(c *jetstream.ConsumerConfig) { c.FilterSubject = "dead.>" }, `"dead.>"`},
		"MoreFilters": {func(c *jetstream.ConsumerConfig) {
			c.FilterSubject, c.FilterSubjects = "", []string{"orders.>", "dead.>"}
		}, `"dead.>"`},
		"AnotherTrigger":   {func(c *jetstream.ConsumerConfig) { c.Metadata = map[string]string{ownerKey: "/other"} }, "/other"},
		"PushedToASubject": {func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "elsewhere" }, "pull consumer"},
	} {
		t.Run(name, func(t *testing.T) {
			config := jetstream.ConsumerConfig{Durable: name, FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy}
			test.edit(&config)
			createConsumer(t, js, config)
			f := newFunction(t, ok)
			c := consume(t, f, server.stock("--consumer="+name)...)
			eventually(t, "it reports what is wrong", func() bool { return c.says(t, "NotConnected", test.want) })
			if n := distinct(f); n > 0 {
				t.Errorf("%d messages were accepted", n)
			}
			if config.DeliverSubject == "" {
				checkUnused(t, stream, config)
			}
		})
	}
}

// checkUnused checks that no message was delivered to a consumer, and none acknowledged.
func checkUnused(t *testing.T, stream jetstream.Stream, config jetstream.ConsumerConfig) {
	t.Helper()
	consumer, err := stream.Consumer(t.Context(), config.Durable)
	if err != nil {
		t.Fatal(err)
	}
	if info := consumer.CachedInfo(); info.NumAckPending > 0 || info.AckFloor.Stream > 0 && config.DeliverPolicy == jetstream.DeliverAllPolicy {
		t.Errorf("%d messages were delivered, and acknowledged up to %d", info.NumAckPending, info.AckFloor.Stream)
	}
}

// A consumer whose configuration changes during delivery is rejected as well, and is used again
// when the configuration is restored.
func TestNATSForeignConsumerChanges(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	publish(t, js, "orders.7", "0")
	eventually(t, "the first is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
	config := jetstream.ConsumerConfig{Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxDeliver: 1}
	if _, err := stream.UpdateConsumer(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it reports what is wrong", func() bool { return c.says(t, "NotConnected", "max_deliver is 1") })
	publish(t, js, "orders.7", "1")
	config.MaxDeliver = -1
	if _, err := stream.UpdateConsumer(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second is accepted", func() bool { return distinct(f) == 2 && c.healthy(t) })
}

// The default name of the consumer contains separators that names of namespaces and triggers
// cannot contain. A consumer with the default name of earlier releases is used if it belongs to
// the trigger.
func TestNATSConsumerName(t *testing.T) {
	const name, earlier = "goless_shop_orders", "goless-shop-orders"
	for title, test := range map[string]struct {
		exists map[string]string // consumers that exist, and the trigger that their metadata names
		used   string
	}{
		"New":            {nil, name},
		"Earlier":        {map[string]string{earlier: source}, earlier},
		"EarlierByHand":  {map[string]string{earlier: ""}, earlier},
		"EarlierOfOther": {map[string]string{earlier: "/other"}, name},
		"Both":           {map[string]string{earlier: source, name: source}, name},
	} {
		t.Run(title, func(t *testing.T) {
			server := newNATS(t, "")
			js := server.connect(t)
			stream := createStream(t, js, "ORDERS", "orders.>")
			for durable, owner := range test.exists {
				config := jetstream.ConsumerConfig{Durable: durable, FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy}
				if owner != "" {
					config.Metadata = map[string]string{ownerKey: owner}
				}
				createConsumer(t, js, config)
			}
			publish(t, js, "orders.7", "0")
			f := newFunction(t, ok)
			consume(t, f, server.stock("--consumer="+name)...)
			eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 })
			eventually(t, "the consumer is "+test.used, func() bool {
				consumer, err := stream.Consumer(t.Context(), test.used)
				return err == nil && consumer.CachedInfo().AckFloor.Stream == 1
			})
			other := map[string]string{name: earlier, earlier: name}[test.used]
			if consumer, err := stream.Consumer(t.Context(), other); err == nil && consumer.CachedInfo().Delivered.Stream > 0 {
				t.Errorf("the consumer %s is used as well", other)
			}
		})
	}
}

// A user with permissions only for the consumer with the default name of earlier releases keeps
// using that.
func TestNATSEarlierNameOnly(t *testing.T) {
	const name, earlier = "goless_shop_orders", "goless-shop-orders"
	server := newNATS(t, fmt.Sprintf(`authorization {users: [{user: test, password: test}, {user: shop, password: secret, permissions: {publish: [
		"$JS.API.CONSUMER.INFO.ORDERS.%[1]s", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.%[1]s", "$JS.ACK.ORDERS.%[1]s.>", "$JS.API.CONSUMER.CREATE.ORDERS.%[1]s.>"]}}]}`, earlier))
	js := server.connect(t, nats.UserInfo("test", "test"))
	orders(t, js)
	config := jetstream.ConsumerConfig{
		Durable: earlier, FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, Metadata: map[string]string{ownerKey: source},
	}
	if _, err := js.CreateConsumer(t.Context(), "ORDERS", config); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "orders.7", "0")
	password := filepath.Join(t.TempDir(), "password")
	write(t, password, "secret")
	f := newFunction(t, ok)
	c := consume(t, f, server.stock("--consumer="+name, "--user=shop", "--password-file="+password)...)
	eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
}
