package v1beta1

// FilesDir is the directory below which spec.files are mounted.
const FilesDir = "/files"

// File mounts a ConfigMap or a Secret as a directory of read-only files, one for each key. Exactly
// one of configMap and secret must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="give exactly one of configMap and secret"
type File struct {
	// name is the name of the directory below /files. For example, with the name tls the files are
	// in /files/tls. It consists of lower-case letters, digits and '-'. Maximum: 50 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// configMap selects a ConfigMap in the namespace of the Function. A change of a selected key
	// triggers a rollout.
	// +optional
	ConfigMap *FileSource `json:"configMap,omitempty"`

	// secret selects a Secret in the namespace of the Function. A change reaches the files of
	// running pods within about a minute; the program must read the files again.
	// +optional
	Secret *FileSource `json:"secret,omitempty"`
}

// FileSource selects a ConfigMap or a Secret, and its keys.
type FileSource struct {
	// name is the name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// keys are the keys to mount, each as a file of the same name. Default: all keys. Maximum: 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Keys []string `json:"keys,omitempty"`

	// optional allows the function to start without the object, or without some of the keys.
	// Default: false.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}
