package v1beta1

// TokenDir is the directory in which a function finds what spec.serviceAccountToken gives it. It
// is where the client libraries of Kubernetes look.
const TokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// DefaultTokenExpirationSeconds is for how long a token is valid that names no time.
const DefaultTokenExpirationSeconds = 3600

// ServiceAccountToken is a token by which the function proves that it runs as its ServiceAccount.
// It ends with the pod too.
type ServiceAccountToken struct {
	// audience is who the token is for, and nobody else accepts it: sts.amazonaws.com or
	// api://AzureADTokenExchange, for example. The Kubernetes API has one as well, most often
	// https://kubernetes.default.svc.cluster.local.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Audience string `json:"audience"`

	// expirationSeconds is for how long a token is valid, from 600 to 86400; 3600 by default.
	// A new one is in the file long before that: a program must read the file again, as
	// client libraries do.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=86400
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
}
