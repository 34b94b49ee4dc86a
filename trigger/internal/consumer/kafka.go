package consumer

import (
	"strings"

	"goless.io/trigger/api/v1alpha1"
)

// Kafka returns the program of a KafkaTrigger. It returns no error, because the API server has
// validated the spec.
func Kafka(t *v1alpha1.KafkaTrigger) (Program, error) {
	spec := t.Spec
	brokers := make([]string, len(spec.Brokers))
	for i, broker := range spec.Brokers {
		brokers[i] = string(broker)
	}
	group, former := t.GroupNames()
	p := Program{Broker: "kafka", DeadLetter: spec.DeadLetter, Secrets: map[string]v1alpha1.SecretKey{}}
	p.Args = []string{
		"--brokers=" + strings.Join(brokers, ","),
		"--topic=" + spec.Topic,
		"--group=" + group,
	}
	if former != "" {
		p.Args = append(p.Args, "--former-group="+former)
	}
	if a := spec.Authentication; a != nil {
		p.Args = append(p.Args, "--mechanism="+string(a.Mechanism), "--user="+a.User)
		p.file("--password-file", "password", &a.Password)
	}
	p.tls(spec.TLS)
	return p, nil
}
