package natsstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ownerKey is the metadata key of consumers that triggers have created. The value is the path of
// the trigger.
const ownerKey = "goless.io/trigger"

// find sets the consumer of the session. If no such consumer exists, find creates one that begins
// with the first message of the stream. It updates a consumer that the trigger has created. A
// consumer of another owner must be usable.
func (s *session) find(ctx context.Context, durable string, js jetstream.JetStream) error {
	have, err := s.look(ctx, durable, js)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		have, err = s.earlier(ctx, durable, js, err)
	}
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
	case err != nil:
		return err
	default:
		durable = have.CachedInfo().Name
	}
	if err != nil || owner(have) == s.Source {
		have, err = js.CreateOrUpdateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
			Durable:       durable,
			FilterSubject: s.subject,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       ackWait,
			MaxAckPending: s.limit,
			Metadata:      map[string]string{ownerKey: s.Source},
		})
		if err != nil {
			return s.explain(err)
		}
	} else if other := owner(have); other != "" {
		return fmt.Errorf("it belongs to the trigger %s, according to its metadata %s; set spec.consumer to another name", other, ownerKey)
	}
	s.consumer, s.created = have, have.CachedInfo().Created
	return usable(have.CachedInfo().Config, s.subject)
}

// look returns a consumer. A consumer that the user may not query is treated as one that does not
// exist.
func (s *session) look(ctx context.Context, durable string, js jetstream.JetStream) (jetstream.Consumer, error) {
	have, err := js.Consumer(ctx, s.stream, durable)
	if err = s.explain(err); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "CONSUMER.INFO."+s.stream+"."+durable+"\"") {
		return nil, fmt.Errorf("%w: %w", jetstream.ErrConsumerNotFound, err)
	}
	return have, err
}

// earlier returns the consumer with the default name of earlier releases of Goless,
// goless-NAMESPACE-NAME, unless it belongs to another trigger: the triggers shop/eu-orders and
// shop-eu/orders had the same name. missing is the error if there is no such consumer.
func (s *session) earlier(ctx context.Context, durable string, js jetstream.JetStream, missing error) (jetstream.Consumer, error) {
	if !strings.HasPrefix(durable, "goless_") {
		return nil, missing
	}
	have, err := s.look(ctx, strings.ReplaceAll(durable, "_", "-"), js)
	if err == nil && owner(have) != "" && owner(have) != s.Source {
		return nil, missing
	}
	return have, err
}

func owner(c jetstream.Consumer) string { return c.CachedInfo().Config.Metadata[ownerKey] }

// explain returns the permission error of the connection if a request timed out because of it: the
// servers do not respond to a request that the user may not make.
func (s *session) explain(err error) error {
	if latest := s.conn.LastError(); errors.Is(err, context.DeadlineExceeded) && errors.Is(latest, nats.ErrPermissionViolation) {
		return latest
	}
	return err
}

// usable returns an error if a consumer could lose events or receive those of other subjects.
func usable(c jetstream.ConsumerConfig, subject string) error {
	filters := c.FilterSubjects
	if len(filters) == 0 {
		filters = []string{cmp.Or(c.FilterSubject, ">")}
	}
	switch {
	case c.DeliverSubject != "":
		return errors.New("want a pull consumer, but it has a deliver_subject")
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("its ack policy is %s, want explicit", c.AckPolicy)
	case c.MaxDeliver > 0:
		return fmt.Errorf("its max_deliver is %d: messages would be lost after as many deliveries; set it to -1", c.MaxDeliver)
	case c.HeadersOnly:
		return errors.New("it has headers_only: messages would have no data; set it to false")
	case c.DeliverPolicy != jetstream.DeliverAllPolicy:
		return fmt.Errorf("its deliver policy is %s, want all: it skips messages; create another consumer", c.DeliverPolicy)
	case !slices.Equal(filters, []string{subject}):
		return fmt.Errorf("its filter is %q, want spec.subject, %q", filters, subject)
	}
	return nil
}
