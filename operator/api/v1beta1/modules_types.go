package v1beta1

// Modules configures where the modules of a go.mod come from. The fields from goProxy to noProxy
// are environment variables of the go command and have the same meanings and, except for goProxy,
// the same defaults. Only builds of sources with a go.mod receive them. They are visible to anyone
// who can view pods: do not put passwords into them.
type Modules struct {
	// goProxy is GOPROXY. It must not contain a file: URL. With the value off, sources can use only
	// modules that they vendor and those in the builder image. Builds do not run version control,
	// so private modules require a module proxy that serves them. Default: the default of the go
	// command. Shared builds remove the entry "direct" from that default, because it would let a
	// source make the build service connect to any host. Maximum: 4096 characters.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)(^|[,| ])file:')",message="must not have a file: URL, which would let sources read files of the build service; serve the modules over HTTP"
	// +optional
	GoProxy string `json:"goProxy,omitempty"`

	// goPrivate is GOPRIVATE. Matching modules are fetched without goProxy. Builds do not run git,
	// so that works only if the go-import meta tag of the module names a module proxy (type mod).
	// Otherwise serve the module through goProxy, and list it in goNoSumDB.
	// +optional
	GoPrivate string `json:"goPrivate,omitempty"`

	// goNoProxy is GONOPROXY. Matching modules are fetched without goProxy, which works only if
	// their go-import meta tags name a module proxy (type mod).
	// +optional
	GoNoProxy string `json:"goNoProxy,omitempty"`

	// goNoSumDB is GONOSUMDB: modules that are not verified against the checksum database.
	// +optional
	GoNoSumDB string `json:"goNoSumDB,omitempty"`

	// goSumDB is GOSUMDB, the checksum database. It must not contain a file: URL. Maximum: 4096
	// characters.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)(^|[,| ])file:')",message="must not have a file: URL, which would let sources read files of the build service; serve the modules over HTTP"
	// +optional
	GoSumDB string `json:"goSumDB,omitempty"`

	// httpProxy is HTTP_PROXY.
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is HTTPS_PROXY.
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy is NO_PROXY.
	// +optional
	NoProxy string `json:"noProxy,omitempty"`

	// caBundle selects a key with trusted CA certificates, in a ConfigMap in the namespace of each
	// Function. The ConfigMap is optional. With caBundle, sources with a go.mod are compiled InPod.
	// +optional
	CABundle KeyOf `json:"caBundle,omitzero"`

	// netrc selects a key with a .netrc file of credentials for goProxy, in a Secret in the
	// namespace of each Function. The Secret is optional. With netrc, sources with a go.mod are
	// compiled InPod.
	//
	// The API server rejects the Deployments unless an administrator has added these annotations to
	// the ValidatingAdmissionPolicyBinding goless-operator-deployments (see docs/security.md):
	//   - fence.goless.io/netrc-secret: the name of the Secret
	//   - fence.goless.io/netrc-env, if other fields of modules are set: the environment variables
	//     that they set, with their values and separated by spaces, such as
	//     GOPROXY=https://modules.example.com for goProxy
	//   - fence.goless.io/netrc-configmaps, if caBundle is set: its ConfigMap
	// +optional
	Netrc KeyOf `json:"netrc,omitzero"`
}

// KeyOf selects a key of an optional ConfigMap or Secret.
type KeyOf struct {
	// name is the name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the key to select.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`
}
