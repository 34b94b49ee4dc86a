package v1beta1

// TokenDir is the directory of the files that spec.serviceAccountToken mounts. It is where the
// client libraries of Kubernetes look for them.
const TokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// DefaultTokenExpirationSeconds is the default of spec.serviceAccountToken.expirationSeconds.
const DefaultTokenExpirationSeconds = 3600

// ServiceAccountToken is a token that authenticates the function as its ServiceAccount. It is bound
// to the pod and becomes invalid with it.
type ServiceAccountToken struct {
	// audience is the intended recipient of the token, such as sts.amazonaws.com or
	// api://AzureADTokenExchange. Other recipients must reject the token. The audience of the
	// Kubernetes API is usually https://kubernetes.default.svc.cluster.local. Maximum: 253
	// characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Audience string `json:"audience"`

	// expirationSeconds is the lifetime of a token in seconds. Default: 3600. Range: 600 to 86400.
	// The kubelet replaces the token in the file well before it expires: the program must read the
	// file again, as client libraries do.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=86400
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
}
