package v1beta1

import "k8s.io/apimachinery/pkg/api/resource"

// Scratch is the directory /tmp, in which the function may write.
type Scratch struct {
	// size is how much the files in /tmp may take together, such as 256Mi. They count
	// towards the limit of ephemeral-storage in spec.resources, and in Memory towards that of
	// memory, which must be larger. A pod with more on disk is evicted; a write beyond the
	// size in memory fails.
	// +required
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[1-9]')",message="must be more than 0"
	Size resource.Quantity `json:"size"`

	// medium is where the files are: Disk, which is the default, is the disk of the node, and
	// Memory is its memory, which is faster. In either they are gone with the pod. With Memory
	// the garbage collector of the function works as if the container had less memory by the
	// size, unless spec.env sets GOMEMLIMIT.
	// +optional
	// +kubebuilder:default=Disk
	// +kubebuilder:validation:Enum=Disk;Memory
	Medium ScratchMedium `json:"medium,omitempty"`
}

// ScratchMedium is where the files in /tmp are.
type ScratchMedium string

const (
	// ScratchOnDisk is the disk of the node; the default.
	ScratchOnDisk ScratchMedium = "Disk"

	// ScratchInMemory is the memory of the node, within the limit of the container.
	ScratchInMemory ScratchMedium = "Memory"
)
