package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
)

// Load reads the settings from a file; path may be empty, for none. What the
// file says wrong is one error that names each field, what it does not know
// included: a setting with a typing mistake must not be silently off.
func Load(path string) (Settings, error) {
	if path == "" {
		return Settings{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Settings{}, fmt.Errorf("the configuration %s is wrong: %w", path, err)
	}
	return s, nil
}

// Parse is Load for the text of a file.
func Parse(text []byte) (Settings, error) {
	var s Settings
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return Settings{}, err
	}
	if s.APIVersion != APIVersion || s.Kind != Kind {
		return Settings{}, fmt.Errorf("it is %s of %s, must be kind: %s and apiVersion: %s",
			orNothing(s.Kind), orNothing(s.APIVersion), Kind, APIVersion)
	}
	if err := s.validate(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// findings collect what is wrong, each with its field.
type findings []error

func (f *findings) unless(right bool, field, format string, args ...any) {
	if !right {
		*f = append(*f, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
}

// validate says all that is wrong.
func (s *Settings) validate() error {
	var f findings
	f.unless(s.Rollout == "" || s.Rollout == OnChange || s.Rollout == Always, "rollout", "%q must be %s or %s", s.Rollout, OnChange, Always)
	f.unless(s.Admission == "" || s.Admission == AdmissionEnabled || s.Admission == AdmissionDisabled, "admission", "%q must be %s or %s", s.Admission, AdmissionEnabled, AdmissionDisabled)
	for _, namespace := range s.Namespaces {
		f.unless(len(validation.IsDNS1123Label(namespace)) == 0, "namespaces", "%q is not the name of a namespace", namespace)
	}
	for _, prefix := range s.PodMetadataPrefixes {
		message := wrongPrefix(prefix)
		f.unless(message == "", "podMetadataPrefixes", "%q %s", prefix, message)
	}
	f.unless(s.ReferencePause.Duration >= 0, "referencePause", "must not be negative")
	f.unless(s.Function.MaxReplicas >= 0, "function.maxReplicas", "must not be negative")
	f.unless(s.Build.Strategy.Known(), "build.strategy", "%q must be %s or %s", s.Build.Strategy, v1beta1.BuildInPod, v1beta1.BuildShared)
	f.unless(s.Build.Timeout.Duration >= 0, "build.timeout", "must not be negative")
	f.unless(s.Build.MaxTimeout.Duration >= 0, "build.maxTimeout", "must not be negative")
	f.requests("function.resources.requests", s.Function.Resources.Requests)
	f.limits("function.resources.limits", s.Function.Resources.Limits)
	f.limits("function.maxResources", s.Function.MaxResources)
	f.requests("build.resources.requests", s.Build.Resources.Requests)
	f.limits("build.resources.limits", s.Build.Resources.Limits)
	f.limits("build.maxResources", s.Build.MaxResources)
	f.unless(s.Build.Modules.CABundle.whole(), "build.modules.caBundle", "give name and key")
	f.unless(s.Build.Modules.Netrc.whole(), "build.modules.netrc", "give name and key")
	return errors.Join(f...)
}

func (f *findings) requests(field string, amounts v1beta1.Amounts) {
	for name, amount := range amounts.List() {
		f.unless(amount.Sign() >= 0, field, "%s must not be negative", name)
	}
}

// limits of 0 would be none.
func (f *findings) limits(field string, amounts v1beta1.Amounts) {
	for name, amount := range amounts.List() {
		f.unless(amount.Sign() > 0, field, "%s must be more than 0", name)
	}
}

// whole tells whether a key has both of its parts or none.
func (k Key) whole() bool { return (k.Name == "") == (k.Key == "") }

// wrongPrefix says what is wrong with a prefix of labels and annotations; empty
// when nothing is. Names that mean something to Kubernetes or to the operator
// are not the user's to give.
func wrongPrefix(prefix string) string {
	domain, isPrefix := strings.CutSuffix(prefix, "/")
	if !isPrefix || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return "must be a domain with a slash, such as example.com/"
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io", "goless.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return "belongs to " + reserved
		}
	}
	return ""
}
