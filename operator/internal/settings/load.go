package settings

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
)

// Load reads and validates the settings in a file. It returns the zero value, which means all
// defaults, if path is empty. The error names each invalid field. Unknown fields are errors, so
// that a misspelled setting is not silently ignored.
func Load(path string) (Settings, error) {
	if path == "" {
		return Settings{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("reading the settings: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Settings{}, fmt.Errorf("invalid settings in %s: %w", path, err)
	}
	return s, nil
}

// Parse reads and validates settings.
func Parse(text []byte) (Settings, error) {
	var s Settings
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return Settings{}, err
	}
	if s.APIVersion != APIVersion || s.Kind != Kind {
		return Settings{}, fmt.Errorf("unexpected kind %s of apiVersion %s, want kind %s of apiVersion %s",
			cmp.Or(s.Kind, "nothing"), cmp.Or(s.APIVersion, "nothing"), Kind, APIVersion)
	}
	if err := s.validate(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// validate returns all errors of the settings as one error, or nil.
func (s *Settings) validate() error {
	function, build := field.NewPath("function"), field.NewPath("build")
	return slices.Concat(
		oneOf(field.NewPath("rollout"), s.Rollout, OnChange, Always),
		oneOf(field.NewPath("admission"), s.Admission, AdmissionEnabled, AdmissionDisabled),
		oneOf(field.NewPath("podUser"), s.PodUser, PodUserFixed, PodUserCluster),
		each(field.NewPath("namespaces"), s.Namespaces, validation.IsDNS1123Label),
		each(field.NewPath("podMetadataPrefixes"), s.PodMetadataPrefixes, prefixErrors),
		notNegative(field.NewPath("referencePause"), s.ReferencePause.Duration),
		notNegative(field.NewPath("endpointPropagation"), s.EndpointPropagation.Duration),
		atMost(field.NewPath("endpointPropagation"), s.EndpointPropagation.Duration, maxEndpointPropagation),
		notNegative(field.NewPath("lostNodeTimeout"), s.LostNodeTimeout.Duration),
		notNegative(function.Child("maxReplicas"), s.Function.MaxReplicas),
		resources(function.Child("resources"), s.Function.Resources),
		limits(function.Child("maxResources"), s.Function.MaxResources),
		oneOf(build.Child("strategy"), s.Build.Strategy, v1beta1.BuildInPod, v1beta1.BuildShared),
		notNegative(build.Child("timeout"), s.Build.Timeout.Duration),
		notNegative(build.Child("maxTimeout"), s.Build.MaxTimeout.Duration),
		resources(build.Child("resources"), s.Build.Resources),
		limits(build.Child("maxResources"), s.Build.MaxResources),
		noFile(build.Child("modules", "goProxy"), s.Build.Modules.GoProxy),
		noFile(build.Child("modules", "goSumDB"), s.Build.Modules.GoSumDB),
		nameAndKey(build.Child("modules", "caBundle"), s.Build.Modules.CABundle),
		nameAndKey(build.Child("modules", "netrc"), s.Build.Modules.Netrc),
	).ToAggregate()
}

// each validates each value with a function that returns error messages.
func each(path *field.Path, values []string, wrong func(string) []string) (errs field.ErrorList) {
	for i, value := range values {
		for _, message := range wrong(value) {
			errs = append(errs, field.Invalid(path.Index(i), value, message))
		}
	}
	return errs
}

// nameAndKey requires name and key, or neither.
func nameAndKey(path *field.Path, k v1beta1.KeyOf) field.ErrorList {
	if (k.Name == "") == (k.Key == "") {
		return nil
	}
	return field.ErrorList{field.Required(path, "name and key are required")}
}

// noFile rejects file: URLs, which the build service would reject for each source.
func noFile(path *field.Path, servers string) field.ErrorList {
	if !buildapi.HasFileURL(servers) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, servers, "must not have a file: URL, which would let sources read files of the build service; serve the modules over HTTP")}
}

// oneOf requires an empty value or one of some values. An empty value means the default.
func oneOf[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}

func notNegative[T time.Duration | int32](path *field.Path, value T) field.ErrorList {
	if value >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, fmt.Sprint(value), "must not be negative")}
}

func atMost(path *field.Path, value, most time.Duration) field.ErrorList {
	if value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("must be at most %s", most))}
}

// resources requires positive limits, and requests that are not negative.
func resources(path *field.Path, r v1beta1.Resources) field.ErrorList {
	errs := limits(path.Child("limits"), r.Limits)
	for name, amount := range r.Requests.List() {
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child("requests", string(name)), amount.String(), "must not be negative"))
		}
	}
	return errs
}

// limits requires positive limits, because the kubelet interprets 0 as no limit.
func limits(path *field.Path, amounts v1beta1.Amounts) (errs field.ErrorList) {
	for name, amount := range amounts.List() {
		if amount.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child(string(name)), amount.String(), "must be more than 0"))
		}
	}
	return errs
}

// prefixErrors returns the errors of a prefix for labels and annotations. Prefixes that Kubernetes
// or the operator interprets are not allowed.
func prefixErrors(prefix string) []string {
	domain, isPrefix := strings.CutSuffix(prefix, "/")
	if !isPrefix || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return []string{"must be a domain with a slash, such as example.com/"}
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io", "goless.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return []string{"belongs to " + reserved}
		}
	}
	return nil
}
