package v1beta1

// Modules say where the modules of a go.mod come from. The first eight are environment variables
// of the go command, with their meaning and defaults. They reach the container that compiles a
// source with a go.mod, and nothing else; whoever may view pods can read them.
type Modules struct {
	// goProxy is GOPROXY, without file: URLs. off refuses every source that needs a module.
	// Builds run no version control, so private modules need a module proxy that has them.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)(^|[,| ])file:')",message="must not have a file: URL, by which sources could read the files of the build service: serve the files by HTTP"
	// +optional
	GoProxy string `json:"goProxy,omitempty"`

	// goPrivate is GOPRIVATE. What it names bypasses goProxy, which only works for hosts that name
	// a module proxy in a go-import meta tag. Name other private modules in goNoSumDB instead.
	// +optional
	GoPrivate string `json:"goPrivate,omitempty"`

	// goNoProxy is GONOPROXY. What it names bypasses goProxy, as with goPrivate.
	// +optional
	GoNoProxy string `json:"goNoProxy,omitempty"`

	// goNoSumDB is GONOSUMDB: modules that the checksum database does not have.
	// +optional
	GoNoSumDB string `json:"goNoSumDB,omitempty"`

	// goSumDB is GOSUMDB, without file: URLs.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)(^|[,| ])file:')",message="must not have a file: URL, by which sources could read the files of the build service: serve the files by HTTP"
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

	// caBundle is a ConfigMap with certificates to trust. It is looked for in the namespace
	// of each Function, and need not be there.
	// +optional
	CABundle KeyOf `json:"caBundle,omitzero"`

	// netrc is a Secret with a .netrc file of credentials for goProxy. It is looked for in the
	// namespace of each Function, and need not be there. 40-fence.yaml has to name it.
	// +optional
	Netrc KeyOf `json:"netrc,omitzero"`
}

// KeyOf names a key of a ConfigMap or of a Secret.
type KeyOf struct {
	// name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`
}
