package consumer

import (
	"fmt"
	"strings"

	"goless.io/trigger/api/v1alpha1"
)

// NATS returns the program of a NATSTrigger.
func NATS(t *v1alpha1.NATSTrigger) (Program, error) {
	spec := t.Spec
	if spec.DeadLetter != "" && matches(spec.Subject, spec.DeadLetter) {
		return Program{}, fmt.Errorf("spec.deadLetter: %s matches spec.subject, %s: dead letters would be consumed again", spec.DeadLetter, spec.Subject)
	}
	servers := make([]string, len(spec.Servers))
	for i, server := range spec.Servers {
		servers[i] = string(server)
	}
	p := Program{Broker: "nats", DeadLetter: spec.DeadLetter, Secrets: map[string]v1alpha1.SecretKey{}}
	p.Args = []string{
		"--servers=" + strings.Join(servers, ","),
		"--subject=" + spec.Subject,
		"--stream=" + spec.Stream,
		"--consumer=" + t.ConsumerName(),
	}
	if a := spec.Authentication; a != nil {
		if a.User != "" {
			p.Args = append(p.Args, "--user="+a.User)
		}
		p.file("--password-file", "password", a.Password)
		p.file("--token-file", "token", a.Token)
		p.file("--nkey-file", "nkey", a.NKey)
		p.file("--creds-file", "credentials", a.Credentials)
	}
	p.tls(spec.TLS)
	return p, nil
}

// matches reports whether a subject matches a pattern with wildcards.
func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i >= len(have):
			return false
		case token == ">":
			return true
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
