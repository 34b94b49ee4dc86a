package desired

import (
	"encoding/json"
	"fmt"

	"goless.io/operator/api/v1beta1"
)

// wantedV1 is what the hash of SpecHashLabel is made of: everything in a Function that changes its
// pods. What the operator adds by itself is not in it, and neither are fields that have their
// default, whether written in the Function or not. So a new field of the API changes no hash
// until somebody uses it: add the field here, with omitzero, and its default to
// withoutDefaults.
//
// A change that is not possible in this way needs a wantedV2 beside this type, and a
// KeepTemplateOfSameSpec that compares hashes that begin with v1- with the hash of this one: a hash
// that changes for all Functions restarts all of them.
type wantedV1 struct {
	Source     string          `json:"source"` // its SHA-256
	ClassName  string          `json:"className,omitzero"`
	ServerPort int32           `json:"serverPort,omitzero"`
	Env        []wantedEnv     `json:"env,omitempty"`
	EnvFrom    []wantedEnvFrom `json:"envFrom,omitempty"`
	Files      []wantedFile    `json:"files,omitempty"`
	Scratch    struct {
		Size   string `json:"size,omitzero"`
		Medium string `json:"medium,omitzero"`
	} `json:"scratch,omitzero"`
	ServiceAccountName  string `json:"serviceAccountName,omitzero"`
	ServiceAccountToken struct {
		Audience          string `json:"audience,omitzero"`
		ExpirationSeconds int64  `json:"expirationSeconds,omitzero"`
	} `json:"serviceAccountToken,omitzero"`
	Resources   wantedResources `json:"resources,omitzero"`
	Timeout     string          `json:"timeout,omitzero"`
	Concurrency int32           `json:"concurrency,omitzero"`

	// DrainSeconds has no default here: 0 is a value of its own.
	DrainSeconds *int32 `json:"drainSeconds,omitzero"`
	Build        struct {
		Strategy  string          `json:"strategy,omitzero"`
		Resources wantedResources `json:"resources,omitzero"`
		Timeout   string          `json:"timeout,omitzero"`
	} `json:"build,omitzero"`

	// Of the metadata, what the pods get of it, and UpgradeAnnotation.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Upgrade     string            `json:"upgrade,omitzero"`
}

type wantedEnv struct {
	Name      string `json:"name"`
	Value     string `json:"value,omitzero"`
	ValueFrom struct {
		ConfigMapKeyRef wantedKey `json:"configMapKeyRef,omitzero"`
		SecretKeyRef    wantedKey `json:"secretKeyRef,omitzero"`
		FieldRef        struct {
			FieldPath string `json:"fieldPath"`
		} `json:"fieldRef,omitzero"`
	} `json:"valueFrom,omitzero"`
}

type wantedEnvFrom struct {
	Prefix       string    `json:"prefix,omitzero"`
	ConfigMapRef wantedRef `json:"configMapRef,omitzero"`
	SecretRef    wantedRef `json:"secretRef,omitzero"`
}

type wantedKey struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Optional bool   `json:"optional,omitzero"`
}

type wantedRef struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional,omitzero"`
}

type wantedFile struct {
	Name      string           `json:"name"`
	ConfigMap wantedFileSource `json:"configMap,omitzero"`
	Secret    wantedFileSource `json:"secret,omitzero"`
}

type wantedFileSource struct {
	Name     string   `json:"name"`
	Keys     []string `json:"keys,omitempty"`
	Optional bool     `json:"optional,omitzero"`
}

type wantedResources struct {
	Requests wantedAmounts `json:"requests,omitzero"`
	Limits   wantedAmounts `json:"limits,omitzero"`
}

type wantedAmounts struct {
	CPU              string `json:"cpu,omitzero"`
	Memory           string `json:"memory,omitzero"`
	EphemeralStorage string `json:"ephemeral-storage,omitzero"`
}

// specHash is the value of SpecHashLabel.
func specHash(fn *v1beta1.Function, p podMetadata) string {
	spec := fn.Spec
	spec.Function = "" // its summary is in the hash
	text, err := json.Marshal(spec)
	var w wantedV1
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		panic(fmt.Errorf("a spec is not what the API says: %w", err)) // types that agree
	}
	w.Source = Summary(fn).SHA256
	w.Labels, w.Annotations, w.Upgrade = p.labels, p.annotations, fn.Annotations[UpgradeAnnotation]
	return "v1-" + Digest(withoutDefaults(w))
}

// withoutDefaults leaves out what has its default and is not the zero value.
func withoutDefaults(w wantedV1) wantedV1 {
	if w.ServerPort == v1beta1.DefaultServerPort {
		w.ServerPort = 0
	}
	if w.Timeout == v1beta1.DefaultTimeout.String() {
		w.Timeout = ""
	}
	if w.Scratch.Medium == string(v1beta1.ScratchOnDisk) {
		w.Scratch.Medium = ""
	}
	if w.ServiceAccountToken.ExpirationSeconds == v1beta1.DefaultTokenExpirationSeconds {
		w.ServiceAccountToken.ExpirationSeconds = 0
	}
	return w
}
