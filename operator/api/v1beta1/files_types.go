package v1beta1

// FilesDir is the directory below which a function finds spec.files.
const FilesDir = "/files"

// File is a directory of read-only files, one for each key of a ConfigMap or of a Secret.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="give exactly one of configMap and secret"
type File struct {
	// name of the directory: the files of tls are in /files/tls. Lower-case letters,
	// digits and '-', at most 50.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// configMap is a ConfigMap in the Function's namespace. A change of what the function
	// gets of it rolls the function out anew.
	// +optional
	ConfigMap *FileSource `json:"configMap,omitempty"`

	// secret is a Secret in the Function's namespace. A change of it reaches the files of
	// running pods, within about a minute; a program that keeps what it has read must
	// read it again.
	// +optional
	Secret *FileSource `json:"secret,omitempty"`
}

// FileSource names a ConfigMap or a Secret, and which of its keys become files.
type FileSource struct {
	// name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// keys that become files, each with its own name; all of them when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Keys []string `json:"keys,omitempty"`

	// optional lets the function start without the object, or without some of its keys;
	// false by default.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}
